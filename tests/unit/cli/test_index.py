"""The index of what comes with Xoff: made once, read again while no source has changed, and never wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from testbed import shipped_packages
from testbed.cli import index
from testbed.experiment import definition
from testbed.lab.host import sources
from testbed.lab.job.job import RunOptions, job_for
from testbed.net.shell import topologies


def test_the_index_has_all_that_comes_with_xoff(xoff_cache: Path) -> None:
    for _ in range(2):
        found = index.shipped()
        assert [one.name for one in found.experiments] == [one.name for one in definition.shipped()]
        assert found.topologies == {name: topologies.summary(name) for name in topologies.own_names()}
    assert [one.name for one in found.experiments if one.kind == "published"] == [
        one.name for one in definition.published()
    ]


def test_the_index_is_read_until_a_source_changes(
    xoff_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "experiments"
    shutil.copytree(shipped_packages.folder("experiments"), copy)
    folder = shipped_packages.folder
    monkeypatch.setattr(
        shipped_packages, "folder", lambda package: copy if package == "experiments" else folder(package)
    )
    made: list[index.Index] = []

    def make() -> index.Index:
        made.append(index.Index((), {"made": str(len(made))}))
        return made[-1]

    monkeypatch.setattr(index, "_made", make)
    assert [index.shipped().topologies["made"] for _ in range(3)] == ["0", "0", "0"]
    os.utime(copy / "hello.py", ns=(1, 1))
    assert [index.shipped().topologies["made"] for _ in range(2)] == ["1", "1"]


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"experiments": [{"name": 1}], "topologies": {}})])
def test_a_damaged_index_is_made_again(content: str, xoff_cache: Path) -> None:
    before = index.shipped()
    (kept,) = xoff_cache.glob("index-*/index.json")
    kept.write_text(content)
    assert index.shipped() == before
    assert json.loads(kept.read_text())["topologies"] == before.topologies


def test_without_a_cache_the_index_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XOFF_CACHE", str(tmp_path / "file" / "cache"))
    assert "star" in index.shipped().topologies


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that have not been changed in the last seconds."""
    monkeypatch.setattr(sources.Stamp, "is_settled", True)


@pytest.mark.parametrize("name", ["hello", "cross_dc", "pt01_configuration", "storm_dcqcn"])
def test_a_described_experiment_makes_the_job_of_the_experiment_itself(
    name: str, xoff_cache: Path, settled: None
) -> None:
    itself = definition.find(name)
    assert index.described(name) is None
    index.keep(itself)
    described = index.described(name)
    assert described is not None and described.origin is None and described.summary == itself.summary
    assert replace(described, body=itself.body, parameters=itself.parameters) == itself
    options = RunOptions(seed=3)
    assert job_for(described, {}, options) == job_for(itself, {}, options)


@pytest.mark.parametrize("content", ["", "[]", '{"source": "x", "description": {"name": "hello"}}'])
def test_a_damaged_description_is_none(content: str, xoff_cache: Path, settled: None) -> None:
    index.keep(definition.find("hello"))
    (kept,) = xoff_cache.glob("described-hello-*/index.json")
    kept.write_text(content)
    assert index.described("hello") is None


def test_a_description_is_not_kept_of_sources_that_have_just_changed(
    xoff_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources.Stamp, "is_settled", False)
    index.keep(definition.find("hello"))
    assert list(xoff_cache.glob("described-*")) == []


def test_a_run_as_it_is_leaves_the_import_to_the_lab(xoff_cache: Path, settled: None) -> None:
    index.keep(definition.find("hello"))
    code = (
        "import sys\nfrom testbed.cli.first_steps import running\n"
        "assert running._found('hello', {}).name == 'hello' and 'testbed.net.traffic' not in sys.modules\n"
        "assert running._found('hello', {'hosts': '3'}).name == 'hello' and 'testbed.net.traffic' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
