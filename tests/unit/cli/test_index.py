"""The index of what comes with Xoff: made once, read again while no source has changed, and never wrong."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from testbed import shipped_packages
from testbed.cli import index
from testbed.experiment import definition
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
