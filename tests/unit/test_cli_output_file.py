"""Files that commands write for their users: whole or not at all, and what is no regular file stays what it is."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from testbed.cli.output_file import whole
from testbed.errors import UsageError
from testbed.lab.cache import DiskFullError


def test_a_file_is_replaced_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    path.write_text("before")
    with whole(path) as place:
        place.write_text("after")
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    assert [one.name for one in tmp_path.iterdir()] == ["x.html"]


def test_a_file_that_could_not_be_written_stays_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    path.write_text("before")
    with pytest.raises(ValueError, match="no figure"), whole(path) as place:
        place.write_text("half")
        raise ValueError("no figure")
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"x.html": "before"}


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    path, found = tmp_path / "pipe", list[str]()
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: found.append(path.read_text()), daemon=True)
    reader.start()
    with whole(path) as place:
        place.write_text("content")
    reader.join(20)
    assert found == ["content"]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_symbolic_link_stays_and_its_file_is_written(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "there" / "x"
    target.parent.mkdir()
    link.symlink_to(target)
    for content in ("new", "again"):
        with whole(link) as place:
            place.write_text(content)
        assert link.is_symlink()
        assert target.read_text() == content


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no /dev/full here")
def test_a_full_device_is_no_usage_error(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/dev/full")
    with pytest.raises(DiskFullError, match="No space left on device; -o names another place"), whole(link) as place:
        place.write_text("content")
    assert link.is_symlink()
    assert Path("/dev/full").is_char_device()


def test_a_folder_or_a_missing_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is a folder; -o names another place"), whole(tmp_path):
        pass
    with pytest.raises(UsageError, match="No such file or directory"), whole(tmp_path / "no" / "x") as place:
        place.write_text("content")
