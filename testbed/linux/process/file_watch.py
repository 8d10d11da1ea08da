"""Notices that a file was written or replaced (inotify)."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

_CLOSED_AFTER_WRITING, _MOVED_HERE = 0x08, 0x80
_EVENT = struct.Struct("=iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class FileWatch:
    """The watch on one file, which need not exist yet.

    It watches the file's folder, because editors write another file and rename it.
    """

    def __init__(self, file: Path) -> None:
        self._name = file.name.encode()
        self.fd: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        folder = os.fsencode(file.absolute().parent)
        if self.fd < 0 or _libc.inotify_add_watch(self.fd, folder, _CLOSED_AFTER_WRITING | _MOVED_HERE) < 0:
            code = ctypes.get_errno()
            self.close()
            raise OSError(code, f"watching {file}: {os.strerror(code)}")

    def changed(self) -> bool:
        """Return True if the file was written since the last call. Call it when `fd` is readable."""
        written = False
        while True:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return written
            position = 0
            while position < len(data):
                *_, length = _EVENT.unpack_from(data, position)
                name = data[position + _EVENT.size : position + _EVENT.size + length].rstrip(b"\0")
                written = written or name == self._name
                position += _EVENT.size + length

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
