"""Folders in a container: which of them are there when it has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.lab.results import container

MOUNTS = """\
730 501 0:56 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/l
731 730 0:59 / /proc rw,nosuid - proc proc rw
740 730 0:60 / /tmp rw,nosuid - tmpfs tmpfs rw
745 730 8:1 /home/ada/my\\040runs /work/kept rw,relatime master:1 - ext4 /dev/sda1 rw
746 730 8:1 /var/lib/containers/storage/volumes/{anonymous}/_data /work rw,relatime - ext4 /dev/sda1 rw
747 730 8:1 /var/lib/docker/volumes/mine/_data /my\\040volume rw,relatime - ext4 /dev/sda1 rw
""".format(anonymous="0123456789abcdef" * 4)


@pytest.fixture(autouse=True)
def in_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Xoff's container with these mounts."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    monkeypatch.setattr(container, "_MOUNTS", mounts)
    monkeypatch.setenv("XOFF_CONTAINER", "1")


@pytest.mark.parametrize(
    ("folder", "kept"),
    [
        ("/work/results", False),
        ("/work/kept", True),
        ("/work/kept/results", True),
        ("/my volume/results", True),
        ("/tmp/results", False),
        ("/opt/results", False),
    ],
)
def test_a_folder_is_kept_if_it_is_mounted_from_a_place_with_a_name(folder: str, kept: bool) -> None:
    assert container.keeps(Path(folder)) is kept


def test_outside_of_a_container_every_folder_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "in this container Xoff is user" in container.whose()
    monkeypatch.delenv("XOFF_CONTAINER")
    assert container.keeps(Path("/opt/results"))
    assert container.whose() == ""


def test_a_container_that_shows_no_mounts_is_believed_to_keep_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "_MOUNTS", tmp_path / "nothing")
    assert container.keeps(Path("/opt/results"))
