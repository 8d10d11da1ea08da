"""The neighbours that a port receives LLDP from, and when they expire: the receive machine of IEEE 802.1AB 9.2.8,
without a clock.

A neighbour is a pair of chassis ID and port ID. What it announced holds until its TTL is over, in the lab's time, or
until it sends TTL 0. DCBX is between two ports: while more than one neighbour is known, `only` is None and DCBX is off.
There is room for a few neighbours; while others send too the port stays crowded until the longest of their TTLs is
over.

A TTL goes up to 65535 s, and one frame of a second neighbour could turn DCBX off for as long. So while there are
several neighbours, one without a frame for `CROWD_TTL` is removed, the one that came last first, until one is left
(decision 0148). A single neighbour stays for the TTL that it sends.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.lldp import ChassisId, LldpFrame, PortId
from testbed.subjects.dcbx.tlvs import Reading, read
from testbed.units import Duration, Scale

MOST = 8
"""The most neighbours that are kept. Two are too many for DCBX; the others are kept to be shown."""
CROWD_TTL = Duration("600s")
"""The time for which one of several neighbours stays without a frame: five times LLDP's default TTL."""

_SECOND = 10**9

Identifier = tuple[ChassisId, PortId]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A neighbour with its last frame."""

    frame: LldpFrame
    octets: bytes  # the frame as it came, to know a repetition without reading it
    heard_ns: int
    expires_ns: int
    dcbx: Reading

    @property
    def identifier(self) -> Identifier:
        return self.frame.pdu.chassis_id, self.frame.pdu.port_id

    def __str__(self) -> str:
        return f"{self.frame.pdu.chassis_id} port {self.frame.pdu.port_id}"


class Reception(enum.Enum):
    """The change that a frame made in the list of neighbours."""

    NEW = enum.auto()  # a neighbour that was not known
    KNOWN = enum.auto()  # a known neighbour sends this now
    GONE = enum.auto()  # TTL 0 from a neighbour that was known
    STRANGER_GONE = enum.auto()  # TTL 0 from one that was not
    NO_ROOM = enum.auto()


class Neighbours:
    """The neighbours of one port."""

    def __init__(self, scale: Scale) -> None:
        self._second_ns = _SECOND * scale.k
        self._crowd_ns = scale.lab(CROWD_TTL).ns
        self._known: dict[Identifier, Neighbour] = {}
        self._crowded_until_ns: int | None = None  # of those that there was no room for

    @property
    def all(self) -> tuple[Neighbour, ...]:
        """All neighbours, in the order in which they appeared."""
        return tuple(self._known.values())

    @property
    def only(self) -> Neighbour | None:
        """The neighbour if there is exactly one, else None."""
        return self.all[0] if len(self._known) == 1 and not self.are_too_many else None

    @property
    def are_too_many(self) -> bool:
        return len(self._known) > 1 or self._crowded_until_ns is not None

    @property
    def some_unknown(self) -> bool:
        """True if there are neighbours that there was no room for."""
        return self._crowded_until_ns is not None

    def repeats(self, octets: bytes, now_ns: int) -> Neighbour | None:
        """Renew the time of the neighbour whose last frame was exactly this one, and return it; None if there is
        none.
        """
        for identifier, neighbour in self._known.items():
            if neighbour.octets == octets:
                self._known[identifier] = self._renewed(neighbour, now_ns)
                return neighbour
        return None

    def receive(self, frame: LldpFrame, octets: bytes, reading: Reading, now_ns: int) -> Reception:
        identifier = frame.pdu.chassis_id, frame.pdu.port_id
        known = self._known.get(identifier)
        if frame.pdu.ttl == 0:
            if known is None:
                return Reception.STRANGER_GONE
            del self._known[identifier]
            return Reception.GONE
        neighbour = self._renewed(Neighbour(frame, octets, 0, 0, reading), now_ns)
        if known is None and len(self._known) == MOST:
            until_ns = min(neighbour.expires_ns, now_ns + self._crowd_ns)
            self._crowded_until_ns = max(self._crowded_until_ns or 0, until_ns)
            return Reception.NO_ROOM
        self._known[identifier] = neighbour
        return Reception.NEW if known is None else Reception.KNOWN

    def read_again(self, version: DcbxVersion) -> None:
        """Read the last frame of each neighbour in another format, to which the port has changed."""
        for identifier, neighbour in self._known.items():
            self._known[identifier] = replace(neighbour, dcbx=read(version, neighbour.frame.pdu.tlvs))

    def expire(self, now_ns: int) -> list[Neighbour]:
        """Forget the neighbours whose time is over, and return them."""
        over = [neighbour for neighbour in self._known.values() if neighbour.expires_ns <= now_ns]
        for neighbour in over:
            del self._known[neighbour.identifier]
        if self._crowded_until_ns is not None and self._crowded_until_ns <= now_ns:
            self._crowded_until_ns = None
        return over

    def thin_out(self, now_ns: int) -> list[Neighbour]:
        """Remove neighbours that sent no frame for a long time, while there are others, and return them."""
        silent = [one for one in self._known.values() if one.heard_ns + self._crowd_ns <= now_ns]
        gone = silent[::-1][: len(self._known) - 1]
        for neighbour in gone:
            del self._known[neighbour.identifier]
        return gone

    def has(self, identifier: Identifier) -> bool:
        return identifier in self._known

    def forget_all(self) -> list[Neighbour]:
        known = list(self._known.values())
        self._known.clear()
        self._crowded_until_ns = None
        return known

    def deadline_ns(self) -> int | None:
        times = [neighbour.expires_ns for neighbour in self._known.values()]
        if len(self._known) > 1:
            times += [neighbour.heard_ns + self._crowd_ns for neighbour in self._known.values()]
        if self._crowded_until_ns is not None:
            times.append(self._crowded_until_ns)
        return min(times, default=None)

    def _renewed(self, neighbour: Neighbour, now_ns: int) -> Neighbour:
        expires_ns = now_ns + neighbour.frame.pdu.ttl * self._second_ns
        return replace(neighbour, heard_ns=now_ns, expires_ns=expires_ns)
