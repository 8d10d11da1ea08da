"""Files that commands write for their users: whole or not at all, and what is no regular file stays what it is."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from testbed.cli.output_file import whole_file
from testbed.errors import UsageError
from testbed.lab.host.cache import DiskFullError


def test_a_file_is_replaced_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    path.write_text("before")
    with whole_file(path, []) as place:
        place.write(b"after")
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    assert [one.name for one in tmp_path.iterdir()] == ["x.html"]


def test_a_file_that_could_not_be_written_stays_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    path.write_text("before")
    with pytest.raises(ValueError, match="no figure"), whole_file(path, []) as place:
        place.write(b"half")
        raise ValueError("no figure")
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"x.html": "before"}


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    path, found = tmp_path / "pipe", list[str]()
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: found.append(path.read_text()), daemon=True)
    reader.start()
    with whole_file(path, []) as place:
        place.write(b"content")
    reader.join(20)
    assert found == ["content"]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_symbolic_link_stays_and_its_file_is_written(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "there" / "x"
    target.parent.mkdir()
    link.symlink_to(target)
    for content in ("new", "again"):
        with whole_file(link, []) as place:
            place.write(content.encode())
        assert link.is_symlink()
        assert target.read_text() == content


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no /dev/full here")
def test_a_full_device_is_no_usage_error(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/dev/full")
    with (
        pytest.raises(DiskFullError, match="No space left on device; --out names another place"),
        whole_file(link, []) as place,
    ):
        place.write(b"content")
    assert link.is_symlink()
    assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize("way", ["", "sub", "../result", "alias"])
def test_in_a_result_folder_no_link_is_followed_whatever_way_leads_there(tmp_path: Path, way: str) -> None:
    result, victim = tmp_path / "result", tmp_path / "victim"
    (result / "sub").mkdir(parents=True)
    (result / "alias").symlink_to("sub")
    (tmp_path / "alias").symlink_to("result")
    victim.write_text("mine")
    place = {"alias": tmp_path / "alias"}.get(way, result / way) / "x.html"
    (result / ("sub" if way == "sub" else ".") / "x.html").symlink_to(victim)
    with whole_file(place, [result]) as out:
        out.write(b"new")
    assert victim.read_text() == "mine"
    assert not place.is_symlink() and place.read_text() == "new"
    with (
        pytest.raises(UsageError, match="result/alias is a symbolic link"),
        whole_file(result / "alias" / "x", [result]),
    ):
        pass
    with (
        pytest.raises(UsageError, match="no name of a file"),
        whole_file(result / "no" / ".." / "x", [tmp_path / "alias"]),
    ):
        pass


def test_a_device_or_a_folder_of_that_name_in_a_result_is_not_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.html")
    with whole_file(tmp_path / "x.html", [tmp_path]) as out:
        out.write(b"new")
    assert (tmp_path / "x.html").read_text() == "new"
    (tmp_path / "y").mkdir()
    with (
        pytest.raises(UsageError, match="y: it is a folder; --svg names"),
        whole_file(tmp_path / "y", [tmp_path], "--svg"),
    ):
        pass
    assert sorted(one.name for one in tmp_path.iterdir()) == ["x.html", "y"]


def test_a_folder_or_a_missing_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is a folder; --out names another place"), whole_file(tmp_path, []):
        pass
    with pytest.raises(UsageError, match="No such file or directory"), whole_file(tmp_path / "no" / "x", []) as place:
        place.write(b"content")
