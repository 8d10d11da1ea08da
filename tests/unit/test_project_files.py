"""Files of the project itself agree: its version, the versions of Python, and the commands of its workflows."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import testbed
from testbed.cli import build_parser, commands

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").exists())
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def load(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in load(path)["jobs"].values() for step in job.get("steps", [])]


def test_all_files_name_the_same_version_and_date() -> None:
    citation = load(ROOT / "CITATION.cff")
    newest = re.search(
        r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert newest is not None
    assert newest.groups() == (testbed.__version__, str(citation["date-released"]))
    assert citation["version"] == testbed.__version__
    assert (ROOT / f"docs/releases/{testbed.__version__}.md").read_text().startswith(f"# Xoff {testbed.__version__}\n")


def test_workflows_have_the_versions_of_python_that_are_promised() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    promised = [name.rpartition(" ")[2] for name in project["classifiers"] if re.search(r":: 3\.\d+$", name)]
    matrix = load(ROOT / ".github/workflows/tests.yml")["jobs"]["unit"]["strategy"]["matrix"]
    assert matrix["python"] == promised
    assert project["requires-python"] == f">={promised[0]}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_commands_of_workflows_are_commands_of_xoff(path: Path) -> None:
    lines = [line for step in steps(path) for line in step.get("run", "").splitlines() if line.startswith("./xoff ")]
    assert lines
    for line in lines:
        words = shlex.split(line.partition(" || ")[0].replace("$(nproc)", "2"))[1:]
        assert words[0] in commands.by_name(), line
        build_parser(*words).parse_args(words)


def test_the_development_container_is_that_of_the_containerfile_and_opens_the_report_that_it_makes() -> None:
    place = ROOT / ".devcontainer"
    content = json.loads((place / "devcontainer.json").read_text())
    build = content["build"]
    assert (place / build["dockerfile"]).resolve() == ROOT / "Containerfile"
    assert (place / build["context"]).resolve() == ROOT
    declared = re.findall(r"^ARG (\w+)", (ROOT / "Containerfile").read_text(), re.MULTILINE)
    assert set(build["args"]) <= set(declared)
    assert f"useradd --create-home --uid 1000 {content['remoteUser']} " in (ROOT / "Containerfile").read_text()
    made, shown, opened = (shlex.split(content[f"post{when}Command"]) for when in ("Create", "Start", "Attach"))
    for words in (made, shown):
        build_parser(*(given := words[words.index("./xoff") + 1 :])).parse_args(given)
    assert shown[shown.index("report") + 1] == f"{made[-1]}/cross_dc-001"
    assert shown[-1] == f"{opened[-1]}/index.html"
    (port,) = content["forwardPorts"]
    assert str(port) in opened
    assert content["portsAttributes"][str(port)]["onAutoForward"] == "openBrowser"


def test_the_container_takes_what_pip_would_install() -> None:
    """What the ignore file lets through has all folders and files of the package, and nothing that is not there."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    let_through = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert "*" in lines
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {name.rstrip("*") for name in project["packages"]["find"]["include"]}
    assert folders | {f"{name}.py" for name in project["py-modules"]} <= let_through
    assert [name for name in let_through - {"build/lab"} if not (ROOT / name).exists()] == []


def test_ruff_before_a_commit_is_the_locked_one() -> None:
    locked = re.search(r"^ruff==\S+", (ROOT / "requirements/test.lock").read_text(), re.MULTILINE)
    assert locked is not None
    hooks = load(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    versions = [hook["additional_dependencies"] for hook in hooks if hook["id"].startswith("ruff")]
    assert versions == [[locked[0]]] * 2


@pytest.mark.parametrize("folder", ["testbed", "tests"])
def test_each_folder_of_modules_is_a_package(folder: str) -> None:
    """A folder without `__init__.py` is left out of what pip installs."""
    folders = {path.parent for path in (ROOT / folder).rglob("*.py")}
    no_packages = {"guest", "jobs", "data"}  # programs, and files that tests read
    assert [str(path) for path in folders if not (path / "__init__.py").exists() and path.name not in no_packages] == []
