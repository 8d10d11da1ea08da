"""Packages of others and `xoff new`: such packages are found, and a broken one breaks nothing else."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from testbed.cli import main
from tests import pages
from tests.packages_of_others import install

ROOT = Path(__file__).parents[2]


def xoff(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command with a package of another author on the path: modules that were imported once stay, so not in here."""
    path = os.pathsep.join(map(str, (ROOT, site)))
    command = [sys.executable, "-m", "testbed", *words]
    own = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, capture_output=True, text=True, env=own, cwd=site, check=False)


@pytest.mark.slow
def test_what_a_package_adds_is_listed_with_its_name(tmp_path: Path) -> None:
    listed = xoff(install(tmp_path), "list", "--json")
    assert (listed.returncode, listed.stderr) == (0, "")
    content = json.loads(listed.stdout)
    for kind in ("experiments", "topologies", "rate_controls"):
        assert [(one["name"], one["package"]) for one in content[kind] if "package" in one] == [("plug", "plug 0.1.0")]
    assert {"incast", "hello"} < {one["name"] for one in content["experiments"]}


@pytest.mark.slow
def test_a_broken_entry_point_is_one_line_and_everything_else_is_there(tmp_path: Path) -> None:
    site = install(tmp_path, broken=True)
    listed = xoff(site, "list")
    assert listed.returncode == 0
    problems = listed.stderr.splitlines()
    assert len(problems) == 5 and all(line.startswith("xoff: plug 0.1.0: xoff.") for line in problems)
    assert "its function is called plug" in listed.stderr and "defines no Nothing" in listed.stderr
    assert "ValueError: \\x1b[31m broken" in listed.stderr and "\x1b" not in listed.stderr
    assert "  incast" in listed.stdout and "  plug" in listed.stdout
    run = xoff(site, "run", "gone")
    assert run.returncode == 2 and len(run.stderr.splitlines()) == 1 and "No module named 'plug.nowhere'" in run.stderr
    near = xoff(site, "run", "plugg")
    assert near.returncode == 2 and "did you mean plug?" in near.stderr


@pytest.mark.slow
def test_a_job_of_a_package_has_its_code_and_one_of_ours_has_not(tmp_path: Path) -> None:
    program = """
import sys
from testbed.experiment import definition
from testbed.lab.job.job import OURS, Limits, job_for, pack
for name in ("plug", "hello"):
    found = definition.find(name)
    job = job_for(found, {})
    open(sys.argv[1] + "/" + name, "wb").write(pack(job, found, held=OURS))
    print(job.source)
"""
    path = os.pathsep.join(map(str, (ROOT, install(tmp_path))))
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.stdout.split() == ["plugins/plug/experiments.py", "experiments/hello.py"]
    names = {}
    for name in ("plug", "hello"):
        with tarfile.open(fileobj=io.BytesIO((tmp_path / name).read_bytes())) as archive:
            names[name] = set(archive.getnames())
    assert names["hello"] == {"job.json"}
    assert names["plug"] == {"job.json", "code/plugins/plugins.json"} | {
        f"code/plugins/plug/{file}.py" for file in ("__init__", "experiments", "topologies", "rates")
    }


@pytest.mark.parametrize("kind", ["experiment", "topology", "rate-control", "marking-rule", "package"])
def test_a_new_file_never_changes_what_is_there(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["new", kind, "my-thing", "--into", str(tmp_path)]
    assert main(words) == 0
    made = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert "new_thing" not in "".join(content.decode() for content in made.values())
    capsys.readouterr()
    assert main(words) == 2
    assert "is there already" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == made


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Thing", "is no name for a file"),
        ("3d", "is no name for a file"),
        ("a/b", "is no name for a file"),
        ("../x", "is no name for a file"),
        ("x" * 41, "is no name for a file"),
        ("class", "cannot be imported"),
        ("testbed", "cannot be imported"),
        ("incast", "Xoff has an experiment incast itself"),
        ("\x1b[31m", "is no name for a file"),
    ],
)
def test_a_bad_name_is_refused(name: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "experiment", name, "--into", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert message in said and "\x1b" not in said
    assert not list(tmp_path.iterdir())


def test_the_entry_points_in_the_documentation_are_those_of_a_new_package(tmp_path: Path) -> None:
    assert main(["new", "package", "mine", "--into", str(tmp_path)]) == 0
    made = tomllib.loads((tmp_path / "mine" / "pyproject.toml").read_text())
    (block,) = [block for block in pages.blocks() if str(block) == "docs/extending.md:0"]
    assert tomllib.loads(block.text)["project"]["entry-points"] == made["project"]["entry-points"]
