"""The original settings of a NIC, in a file, so that they can be restored after an agent is killed.

The file is written before the first change and emptied when the NIC is restored. It is about one interface of one
network namespace, by its index: another interface of that name has settings of its own. The file stays open: an agent
that is no longer root can still empty it, and the next agent that is root removes it.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from testbed.errors import XoffError
from testbed.frames.dcbx.values import PUBLISHED_SELECTORS as SELECTORS
from testbed.frames.dcbx.values import AppEntry
from testbed.linux.netlink.dcb import ETS_OCTETS, PFC_OCTETS, NicSettings, SavedSettings

_ONLY_OWN = 0o600
_LONGEST = 1 << 16
_NUMBERS = {selector: number for number, selector in SELECTORS.items()}


def folders() -> list[Path]:
    """Return the folders in which agents may keep files: the system's, and the user's own."""
    own = os.environ.get("XDG_RUNTIME_DIR")
    return [Path("/run/xoff"), *([Path(own) / "xoff"] if own else [])]


class SavedSettingsFile:
    """The file of one interface."""

    def __init__(self, interface: str) -> None:
        namespace = Path("/proc/thread-self/ns/net").stat().st_ino
        self._name = f"card-{namespace}-{interface}.json"
        self._path: Path | None = None
        self._file: int | None = None

    def read(self, index: int) -> SavedSettings | None:
        """Return the settings that an agent saved before it was killed; None if there are none, or of another
        interface.
        """
        for folder in folders():
            with contextlib.suppress(OSError):
                self._open(folder / self._name, os.O_RDWR)
                break
        if self._file is None:
            return None
        octets = os.pread(self._file, _LONGEST, 0)
        return decode(octets, index) if octets else None

    def write(self, index: int, found: SavedSettings) -> None:
        if self._file is None:
            self._create()
        assert self._file is not None
        octets = encode(found, index)
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, octets, 0)
        except OSError as error:
            raise XoffError(f"{self._path} cannot be written: {error.strerror}") from None

    def clear(self) -> None:
        """Empty the file and remove it: the NIC is restored."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
        if self._path is not None:
            with contextlib.suppress(OSError):  # the agent may be another user now
                self._path.unlink()
                self._path = None
        self.close()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _create(self) -> None:
        """Create the file in the first folder that can be written to."""
        for folder in folders():
            with contextlib.suppress(OSError):
                folder.mkdir(mode=0o755, exist_ok=True)
                self._open(folder / self._name, os.O_RDWR | os.O_CREAT)
                return
        listed = " or ".join(map(str, folders()))
        raise XoffError(f"{listed} cannot be written")

    def _open(self, path: Path, flags: int) -> None:
        if self._file is None:
            file = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, _ONLY_OWN)
            if os.fstat(file).st_uid != os.geteuid():  # root may have another user's XDG_RUNTIME_DIR
                os.close(file)
                raise PermissionError(f"{path} is another user's")
            self._file, self._path = file, path


def encode(found: SavedSettings, index: int) -> bytes:
    state = found.state
    return json.dumps(
        {
            "interface": index,
            "mode": found.mode,
            "ets": state.ets and state.ets.hex(),
            "pfc": state.pfc and state.pfc.hex(),
            "applications": sorted((_NUMBERS[one.selector], one.protocol, one.priority) for one in state.applications),
        }
    ).encode()


def decode(octets: bytes, index: int) -> SavedSettings | None:
    """Return the settings in a file, or None if it is about another interface; XoffError if it was cut short
    or changed.
    """
    try:
        content = json.loads(octets)
        if content["interface"] != index:
            return None
        entries = frozenset(
            AppEntry(_number(priority, 8), SELECTORS[_number(selector, 8)], _number(protocol, 1 << 16))
            for selector, protocol, priority in content["applications"]
        )
        mode = None if content["mode"] is None else _number(content["mode"], 256)
        state = NicSettings(_struct(content["ets"], ETS_OCTETS), _struct(content["pfc"], PFC_OCTETS), entries)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise XoffError("it is damaged") from None
    return SavedSettings(mode, state)


def _number(value: Any, end: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < end:
        raise ValueError(value)
    return value


def _struct(value: Any, size: int) -> bytes | None:
    if value is None:
        return None
    octets = bytes.fromhex(value)
    if len(octets) != size:
        raise ValueError(value)
    return octets
