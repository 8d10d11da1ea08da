"""The forecast of a set-up is calculated from the parts that are missing."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import pytest

from testbed.cli import bootstrap, engine_setup, machine
from testbed.lab.engines import forecast
from testbed.lab.engines.forecast import Cost, Step
from testbed.lab.engines.um import Um
from testbed.lab.engines.vm import Vm
from testbed.lab.host.prerequisites import Package
from testbed.lab.image import image, recipe
from testbed.lab.um import kernel

APT = """echo 'Need to get 14.1 MB/15.9 MB of archives.'
echo 'After this operation, 1,079.5 MB of additional disk space will be used.'
exit 1"""
ABSENT = Package("qemu-imaginary", "runs the lab", program="no-such-program")


@pytest.fixture
def table() -> dict[str, dict[str, float]]:
    content = json.loads((resources.files("testbed.lab") / forecast.FILE).read_text())
    steps: dict[str, dict[str, float]] = content["steps"]
    return steps


def test_every_step_was_measured(table: dict[str, dict[str, float]]) -> None:
    assert list(table) == list(Step)
    assert all(figures["disk_mb"] > 0 and figures["cpu_s"] > 0 for figures in table.values())
    assert all(table[step]["download_mb"] > 0 for step in (Step.ENVIRONMENT, Step.IMAGE, Step.KERNEL))


def test_in_an_empty_cache_all_of_an_engine_is_missing(xoff_cache: Path) -> None:
    assert Um().forecast() == [Step.IMAGE, Step.KERNEL, Step.ROOT]
    assert Vm().forecast() == [Step.IMAGE, Step.SNAPSHOT]


def test_what_is_in_the_cache_is_not_forecast(xoff_cache: Path) -> None:
    kernel.place().mkdir(parents=True)
    image.place().mkdir()
    files = dict.fromkeys((recipe.KERNEL, recipe.ROOT), "0" * 64)
    manifest = {"digest": recipe.digest_of(files), "files": files, "kernel": "6.12", "debian": {}, "python": {}}
    (image.place() / image.MANIFEST).write_text(json.dumps(manifest))
    (image.place() / recipe.ROOT).touch()
    assert Um().forecast() == [Step.ROOT]


def test_the_kernel_takes_less_time_on_more_cores_and_the_rest_does_not(table: dict[str, dict[str, float]]) -> None:
    assert forecast.costs([Step.KERNEL], 1).time_s == pytest.approx(4 * forecast.costs([Step.KERNEL], 4).time_s)
    assert forecast.costs([Step.IMAGE], 1) == forecast.costs([Step.IMAGE], 8) == Cost(*table[Step.IMAGE].values())


def test_debian_packages_are_what_apt_calculates(install: Callable[..., Path]) -> None:
    install("apt-get", APT)
    assert forecast.apt_cost([ABSENT]) == Cost(14.1, 1079.5)
    words = forecast.text([], [ABSENT], 2)
    assert "1 Debian package;" in words
    assert "14 MB to download, 1.1 GB of disk" in words


def test_packages_that_apt_does_not_know_yet_are_named_as_unknown(install: Callable[..., Path]) -> None:
    install("apt-get", "echo 'E: Unable to locate package' >&2; exit 100")
    assert forecast.apt_cost([ABSENT]) is None
    assert "and what apt-get will say of the Debian packages" in forecast.text([Step.IMAGE], [ABSENT], 2)


def test_nothing_is_forecast_when_all_is_there() -> None:
    assert forecast.text([], [], os.cpu_count() or 1) == ""


def test_a_forecast_of_everything_is_shown_before_anything_is_installed(
    xoff_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []
    monkeypatch.setenv("XOFF_LAB", "none")
    monkeypatch.setattr(machine, "require", lambda *_: shown.append(capsys.readouterr().err))
    for kind in (Um, Vm):
        monkeypatch.setattr(kind, "prepare", lambda *_: None)
        engine_setup.ready(kind())
    for text, last in zip(shown, ("root disk of um", "snapshot of vm"), strict=True):
        line = " ".join(text.split())
        assert "to be set up once: " in line
        assert f"{last}; about " in line


def test_the_front_door_says_what_its_environment_takes(
    xoff_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bootstrap, "_put_pip", lambda: None)
    monkeypatch.setattr(bootstrap, "_run", lambda *_: bootstrap._place().mkdir(exist_ok=True))
    bootstrap.environment("run")
    said = capsys.readouterr().err
    assert re.search(r"making the Python environment in \S+, once, with about \d+ MB to download and \d+ s$", said)
