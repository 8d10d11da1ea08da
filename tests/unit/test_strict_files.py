"""Files that a user names: a pipe, a device or an endless one ends a command at once, in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.errors import UsageError
from testbed.lab.image import debs, packages
from testbed.strict import regular_files


@pytest.mark.parametrize(
    ("kind", "why"),
    [("pipe", "it is a pipe, socket or device"), ("device", "it is a pipe, socket or device"),
     ("large", "it has more than 4194304 octets"), ("folder", "Is a directory"), ("none", "No such file"),
     ("binary", "it is no text")],
)  # fmt: skip
def test_what_is_no_lock_file_is_refused_at_once(kind: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "odd.lock"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "large":
        with file.open("wb") as made:
            made.truncate(1 << 40)
    elif kind == "folder":
        file.mkdir()
    elif kind == "binary":
        file.write_bytes(b"\xff\xfe")
    for read in (packages._lock, debs._lock):
        with pytest.raises(UsageError, match=why):
            read(str(file))


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("12345")
    assert regular_files.text(file, 5) == "12345"
    with pytest.raises(OSError, match="it has more than 4 octets"):
        regular_files.octets(file, 4)
