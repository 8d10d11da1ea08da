"""DCB settings of a NIC, over the kernel's DCB netlink (linux/dcbnl.h): ETS, PFC, application priorities.

A NIC whose driver has no DCB settings, as that of every virtual NIC, answers EOPNOTSUPP, and no `DcbNic` can be made.
A `DcbNic` hands out the settings that it found before it changes any, so that `restore` puts them back, also in another
process than the one that changed them. It writes only the fields that DCBX negotiates, and does not decide what to
write.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from testbed.errors import XoffError
from testbed.frames.dcbx.values import AVB, STRICT, AppEntry, Ets, Tsa
from testbed.frames.dcbx.values import PUBLISHED_SELECTORS as SELECTORS
from testbed.linux.netlink.messages import NetlinkError, attribute, text

Ask = Callable[[int, bytes, str], bytes]
"""`netlink.Socket.ask`."""

_GET, _SET = 78, 79  # RTM_GETDCB, RTM_SETDCB
_IEEE_SET, _IEEE_GET, _GET_MODE, _SET_MODE, _IEEE_DELETE = 20, 21, 22, 23, 27
_INTERFACE, _IEEE, _MODE = 1, 13, 14
_ETS, _PFC, _APPLICATIONS = 1, 2, 3
_APPLICATION = 1
_NESTED, _KIND = 0x8000, 0x3FFF
ETS_OCTETS, PFC_OCTETS = 59, 136
"""The sizes of struct ieee_ets and struct ieee_pfc."""
_ETS_FIELDS = slice(3, 35)  # tc_tx_bw, tc_rx_bw, tc_tsa, prio_tc
_PFC_ENABLED = 1
_PFC_FRAMES = struct.Struct("=8Q8Q")  # requests and indications, at the end of struct ieee_pfc
_BY_HOST, _BY_CARD, _IEEE_VERSION = 0x01, 0x02, 0x08
_NUMBERS = {selector: number for number, selector in SELECTORS.items()}
_ENTRY = struct.Struct("=BBH")  # struct dcb_app: selector, priority, protocol


class DcbError(XoffError):
    """The NIC's driver refused a setting."""

    exit_code = 3


class NoDcb(DcbError):
    """The driver accepts no DCB settings, or none from this process."""


@dataclass(frozen=True)
class NicSettings:
    """The settings of a NIC. One that its driver does not support is None."""

    ets: bytes | None  # struct ieee_ets
    pfc: bytes | None  # struct ieee_pfc
    applications: frozenset[AppEntry]


@dataclass(frozen=True)
class SavedSettings:
    """The settings to restore, and the DCBX mode if it was changed."""

    mode: int | None
    state: NicSettings


class DcbNic:
    """The DCB settings of one interface; NoDcb if its driver has none.

    `found` are the settings to restore at the end, if an earlier agent saved them and did not restore them. Without
    them, the present settings are those to restore, and `keep` is called with them before the first change.
    """

    def __init__(
        self,
        interface: str,
        ask: Ask,
        found: SavedSettings | None = None,
        keep: Callable[[SavedSettings], None] = lambda _: None,
    ) -> None:
        self._interface = interface
        self._ask = ask
        mode = self._foreign_mode()
        self._now = self._read()
        if found is None:
            found = SavedSettings(mode, self._now)
            keep(found)
        self._mode, self._before = mode if found.mode is None else found.mode, found.state
        if mode is not None:
            self._take_over(mode)
            self._now = self._read()
        if self._now != self._before:
            self._restore_settings()

    @property
    def state(self) -> NicSettings:
        """The settings that the NIC has now."""
        return self._now

    def set_ets(self, ets: Ets | None) -> None:
        """Set bandwidth, transmission selection and the classes of priorities; None restores those that were found.

        A table of one of the drafts has to go through `in_classes` first.
        """
        old, fields = self._now.ets, b""
        if old is None:
            raise DcbError(f"the driver of {self._interface} takes no ETS settings")
        if ets is None:
            fields = (self._before.ets or old)[_ETS_FIELDS]
        elif ets.tsa is not None:
            fields = bytes(ets.bandwidth) * 2 + bytes(ets.tsa) + bytes(ets.assignment)
        else:
            raise DcbError("a table without transmission selection cannot be applied to a NIC")
        self._write_ets(old[: _ETS_FIELDS.start] + fields + old[_ETS_FIELDS.stop :])

    def set_pfc(self, enabled: int | None) -> None:
        """Enable PFC for the priorities of a mask; None restores the mask that was found."""
        old = self._now.pfc
        if old is None:
            raise DcbError(f"the driver of {self._interface} takes no PFC settings")
        mask = (self._before.pfc or old)[_PFC_ENABLED] if enabled is None else enabled
        self._write_pfc(old[:_PFC_ENABLED] + bytes([mask]) + old[_PFC_ENABLED + 1 :])

    def set_applications(self, entries: tuple[AppEntry, ...]) -> None:
        """Set these entries. Entries for other protocols that were found stay."""
        wanted = frozenset(entry for entry in entries if entry.selector in _NUMBERS)
        named = {(entry.selector, entry.protocol) for entry in wanted}
        kept = {entry for entry in self._before.applications if (entry.selector, entry.protocol) not in named}
        self._write_applications(wanted | kept)

    def restore(self) -> None:
        """Restore the settings that were found. Every part is tried; then the first refusal is raised."""
        mode = self._mode
        self._restore_settings([] if mode is None else [lambda: self._set_mode(mode)])

    def _restore_settings(self, then: Sequence[Callable[[], None]] = ()) -> None:
        refused: XoffError | None = None
        before = self._before
        steps: list[Callable[[], None]] = [lambda: self._write_applications(before.applications)]
        if before.ets is not None:
            steps.append(partial(self._write_ets, before.ets))
        if before.pfc is not None:
            steps.append(partial(self._write_pfc, before.pfc))
        for step in (*steps, *then):
            try:
                step()
            except XoffError as error:
                refused = refused or error
        if refused:
            raise refused

    def _foreign_mode(self) -> int | None:
        """Return the DCBX mode to restore, or None if the host runs IEEE DCBX already or the driver has no modes."""
        try:
            answer = self._request(_GET, _GET_MODE, b"", "reading the DCBX mode")
        except NetlinkError as error:
            if error.code != errno.EOPNOTSUPP:
                raise
            self._request(_GET, _IEEE_GET, b"", "reading DCB settings")  # the driver may have settings and no modes
            return None
        mode = _single(answer, _MODE)
        if mode is None or mode & (_BY_HOST | _BY_CARD | _IEEE_VERSION) == _BY_HOST | _IEEE_VERSION:
            return None
        return mode

    def _take_over(self, mode: int) -> None:
        """Make the host run DCBX instead of the NIC's firmware."""
        try:
            self._set_mode(_BY_HOST | _IEEE_VERSION)
        except DcbError:
            self._mode = None
            if mode & _BY_CARD:
                raise NoDcb(f"the firmware of {self._interface} runs DCBX itself, and does not hand it over") from None

    def _set_mode(self, mode: int) -> None:
        what = "having the host run DCBX"
        answer = self._request(_SET, _SET_MODE, attribute(_MODE, bytes([mode])), what)
        if _single(answer, _MODE):
            raise DcbError(f"{what}: the driver of {self._interface} refuses mode {mode:#04x}")

    def _read(self) -> NicSettings:
        answer = self._request(_GET, _IEEE_GET, b"", "reading DCB settings")
        parts = {kind: value for kind, value in _attributes(_part(answer, _IEEE))}
        ets, pfc = parts.get(_ETS), parts.get(_PFC)
        entries = set()
        for kind, value in _attributes(parts.get(_APPLICATIONS, b"")):
            if kind == _APPLICATION and len(value) >= _ENTRY.size:
                selector, priority, protocol = _ENTRY.unpack_from(value)
                if selector in SELECTORS and priority < 8:
                    entries.add(AppEntry(priority, SELECTORS[selector], protocol))
        return NicSettings(
            ets if ets and len(ets) == ETS_OCTETS else None,
            pfc if pfc and len(pfc) == PFC_OCTETS else None,
            frozenset(entries),
        )

    def _write_ets(self, octets: bytes) -> None:
        if octets != self._now.ets:
            self._change(_IEEE_SET, attribute(_ETS, octets), "setting ETS")
            self._now = NicSettings(octets, self._now.pfc, self._now.applications)

    def _write_pfc(self, octets: bytes) -> None:
        if octets != self._now.pfc:
            self._change(_IEEE_SET, attribute(_PFC, octets), "setting PFC")
            self._now = NicSettings(self._now.ets, octets, self._now.applications)

    def _write_applications(self, entries: frozenset[AppEntry]) -> None:
        now = self._now.applications
        for command, changed in ((_IEEE_DELETE, now - entries), (_IEEE_SET, entries - now)):
            if changed:
                table = b"".join(attribute(_APPLICATION, octets) for octets in sorted(map(_packed, changed)))
                self._change(command, attribute(_APPLICATIONS | _NESTED, table), "setting application priorities")
        self._now = NicSettings(self._now.ets, self._now.pfc, entries)

    def _change(self, command: int, ieee: bytes, what: str) -> None:
        code = _single(self._request(_SET, command, attribute(_IEEE | _NESTED, ieee), what), _IEEE)
        if code:  # a negative error number in one octet
            raise DcbError(f"{what} of {self._interface}: {os.strerror(256 - code)}")

    def _request(self, kind: int, command: int, parts: bytes, what: str) -> bytes:
        body = struct.pack("=BBxx", 0, command) + text(_INTERFACE, self._interface) + parts
        try:
            return self._ask(kind, body, f"{what} of {self._interface}")[4:]
        except NetlinkError as error:
            if command == _IEEE_GET and error.code == errno.EOPNOTSUPP:
                raise NoDcb(f"the driver of {self._interface} takes no DCB settings") from None
            raise


def pfc_frames(interface: str, ask: Ask) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the PFC frames that a NIC has sent and received, by priority, or None if its driver counts none."""
    body = struct.pack("=BBxx", 0, _IEEE_GET) + text(_INTERFACE, interface)
    try:
        answer = ask(_GET, body, f"reading the PFC counters of {interface}")[4:]
    except NetlinkError as error:
        if error.code in (errno.EOPNOTSUPP, errno.ENODEV):
            return None
        raise
    pfc = _part(_part(answer, _IEEE), _PFC)
    if len(pfc) != PFC_OCTETS:
        return None
    found = _PFC_FRAMES.unpack_from(pfc, PFC_OCTETS - _PFC_FRAMES.size)
    return found[:8], found[8:]


def in_classes(ets: Ets) -> Ets | None:
    """Return a draft's table in the form that a NIC takes, or None if the NIC has too few traffic classes for it.

    Priorities that are in no group get classes that no group uses: the strict ones get the highest, then the two of
    AVB, which are shaped by credit.
    """
    if ets.tsa is not None:
        return ets
    free = [number for number in range(8) if number not in ets.assignment and not ets.bandwidth[number]]
    tsa = [int(Tsa.ETS)] * 8
    assignment = list(ets.assignment)
    for special, algorithm in ((STRICT, Tsa.STRICT), (AVB[1], Tsa.CBS), (AVB[0], Tsa.CBS)):
        if special in assignment:
            if not free:
                return None
            number = free.pop()
            tsa[number] = int(algorithm)
            assignment = [number if one == special else one for one in assignment]
    return Ets(tuple(assignment), ets.bandwidth, tuple(tsa))


def _packed(entry: AppEntry) -> bytes:
    return _ENTRY.pack(_NUMBERS[entry.selector], entry.priority, entry.protocol)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield all attributes, also several of one kind."""
    start = 0
    while start + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, start)
        if length < 4:
            return
        yield kind & _KIND, data[start + 4 : start + length]
        start += -(-length // 4) * 4


def _part(answer: bytes, kind: int) -> bytes:
    return next((value for number, value in _attributes(answer) if number == kind), b"")


def _single(answer: bytes, kind: int) -> int | None:
    """Return the value of an attribute of one octet, or None if it is missing."""
    found = _part(answer, kind)
    return found[0] if found else None
