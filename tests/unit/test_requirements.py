"""The locks of requirements/: one environment takes several of them, so they agree on each package."""

import re
from pathlib import Path

import pytest

from testbed.cli import bootstrap

_LOCKS = sorted((Path(__file__).parents[2] / "requirements").glob("*.lock"))
_PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^ ;\\]+)", re.MULTILINE)


def test_locks_agree_on_every_version() -> None:
    versions: dict[str, dict[str, str]] = {}
    for lock in _LOCKS:
        for name, version in _PIN.findall(lock.read_text()):
            versions.setdefault(name, {})[lock.name] = version
    assert versions
    assert {name: found for name, found in versions.items() if len(set(found.values())) > 1} == {}


def test_tests_of_notebooks_take_a_lock_of_their_own() -> None:
    assert bootstrap._is_of_notebooks(["test", "tests/browser/test_notebook.py"])
    assert not bootstrap._is_of_notebooks(["test", "--all"]) and not bootstrap._is_of_notebooks(
        ["run", "test_notebook.py"]
    )
    assert any(lock.stem == "notebook" for lock in _LOCKS)


@pytest.mark.parametrize(
    ("arguments", "purpose"),
    [
        (["run", "incast"], "run"),
        (["test", "--unit"], "test"),
        (["serve", "results/incast-001"], "serve"),
        (["serve", "--help"], "run"),
        (["lesson", "serve", "2"], "serve"),
        (["lesson", "check", "2"], "run"),
        (["export", "results/incast-001", "--figure", "pauses"], "plot"),
        (["plot", "cdf", "results/incast-001"], "plot"),
        (["workload", "--load", "50%"], "plot"),
        (["export", "results/incast-001", "--csv"], "run"),
        (["plot", "results/incast-001", "pauses"], "plot"),
        (["sweep", "incast", "--grid", "frames=10,20"], "run"),
        (["sweep", "incast", "--scheduler=tcp://127.0.0.1:8786"], "cluster"),
        ([], "run"),
    ],
)
def test_a_command_takes_the_lock_of_its_purpose(arguments: list[str], purpose: str) -> None:
    assert bootstrap._purpose(arguments) == purpose
    assert any(lock.stem == purpose for lock in _LOCKS)
