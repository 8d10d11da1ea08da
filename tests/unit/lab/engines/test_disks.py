"""Disks of the engine um in the cache, whose content is known by a digest that is seldom computed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from testbed.lab.host import cache
from testbed.lab.image import image
from testbed.lab.image.image import Image
from testbed.lab.image.recipe import ImageError
from testbed.lab.um import disks
from tests.unit.lab.image.lab_files import DISK, lab, sha256, small_list

__all__ = ["lab", "small_list"]


def _described() -> Image:
    found = image.described()
    assert found is not None
    return found


@pytest.fixture
def disk(lab: Path) -> Path:
    return disks.root(_described(), pytest.fail)


@pytest.fixture
def digests(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The disks whose digest was computed."""
    found: list[Path] = []
    compute = cache.sha256

    def noted(path: Path) -> str:
        found.extend([path] * (path.name == disks.DISK))
        return compute(path)

    monkeypatch.setattr(cache, "sha256", noted)
    return found


def test_a_disk_is_noted_with_its_digest_and_not_read_again(disk: Path, digests: list[Path]) -> None:
    assert json.loads((disk.parent / "seen.json").read_text())[0] == sha256(DISK)
    assert disks.has_root(_described())
    assert digests == []


def test_a_disk_that_was_changed_and_given_back_its_times_is_made_again(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = disk.stat()
    with disk.open("r+b") as file:
        file.seek(1000)
        file.write(b"evil")
    os.utime(disk, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert disk.stat().st_size == before.st_size
    said: list[str] = []
    monkeypatch.setattr(disks, "_ROOM", 1 << 60)  # making it ends here
    with pytest.raises(cache.DiskFullError):
        disks.root(_described(), said.append)
    assert said == [
        f"the disk in {disk.parent} is damaged (its SHA-256 is another one); making it again",
        "unpacking the lab image for the engine um",
    ]


def test_a_disk_of_a_cache_that_was_copied_is_read_once(disk: Path, digests: list[Path]) -> None:
    copy = disk.with_name("copy")
    shutil.copyfile(disk, copy)
    copy.replace(disk)
    for _ in range(2):
        assert disks.root(_described(), pytest.fail) == disk
    assert digests == [disk]


@pytest.mark.parametrize("noted", ["", "[]", "{}", "7", '["ab", 1]', "[" * 100_000])
def test_a_note_of_another_shape_is_that_of_no_disk(noted: str, disk: Path) -> None:
    (disk.parent / "seen.json").write_text(noted)
    assert not disks.has_root(_described())


def test_a_disk_that_was_removed_while_an_engine_had_it_is_named_with_the_way_out(disk: Path) -> None:
    disks.note_use(disk)
    shutil.rmtree(disk.parent)
    with pytest.raises(ImageError, match=f"^{disk.parent} has been removed since this xoff began; start it again"):
        disks.note_use(disk)
