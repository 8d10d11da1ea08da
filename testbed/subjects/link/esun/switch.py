"""A switch that forwards frames by ESUN's header, as a model: frames with FCS in, and where each goes out. Sans-I/O.

     S1 A frame with a wrong FCS is dropped, and so is one of another EtherType. S2 One of a revision that is not known
     is dropped, as its fields could lie elsewhere. S3 The destination decides by a static table; sources are never
     learned. An unknown destination, a broadcast and other groups are dropped, or flooded to all ports but that of
     arrival. S4 With a TTL of 0 or 1 a frame is dropped, and else leaves with one less. S5 CoS alone decides the
     traffic class, whatever a tag says. S6 A destination may have several ports. With F the port is one by a hash of
     both addresses and the flow label, and without F by the addresses alone. S7 A frame that can be marked gets CE when
     its queue is longer than the threshold of its class. S8 All other bits are as they were, and the FCS is that of the
     new octets.

Provisional, as the header is (`header`). No switch of the lab forwards by it: the model and the codec stand alone.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from testbed.errors import UsageError
from testbed.frames import Mac
from testbed.subjects.link.esun import header
from testbed.subjects.link.esun.header import CE, FCS_OCTETS, NOT_ECT, REVISION, EsunError, EsunFrame

_GROUP = 1
_LEAST_TTL = 2


class EsunSwitchError(UsageError):
    """Settings of a switch that cannot be."""


class Policy(enum.StrEnum):
    """What becomes of broadcasts, unknown destinations and groups."""

    DROP = "drop"
    FLOOD = "flood"


class Drop(enum.StrEnum):
    """The reason why a frame goes nowhere; the values are names of counters."""

    FCS = "fcs"
    NOT_ESUN = "not_esun"
    REVISION = "revision"
    NO_PORT = "no_port"
    TTL = "ttl"


@dataclass(frozen=True)
class Sent:
    """A frame that leaves: by which port, in which traffic class, and its octets with FCS."""

    port: int
    traffic_class: int
    frame: bytes


class EsunSwitch:
    """The switch: its static table, what it does with each frame, and its counters."""

    def __init__(
        self,
        ports: int,
        table: Mapping[Mac, Sequence[int]],
        *,
        cos_to_class: Sequence[int] = tuple(range(8)),
        marks_above: Mapping[int, int] | None = None,
        policy: Policy = Policy.DROP,
        seed: int = 0,
    ) -> None:
        """`table` has the ports of each destination, `marks_above` the octets of each class's queue above which frames
        are marked, and `seed` makes the hashes of switches differ.
        """
        if sorted({*cos_to_class} - {*range(8)}) or len(cos_to_class) != 8:
            raise EsunSwitchError("cos_to_class has the traffic class, 0 to 7, of each of 8 values")
        for mac, out in table.items():
            if not out or sorted({*out} - {*range(ports)}):
                raise EsunSwitchError(
                    f"{mac}: ports are {list(out)}; the switch has 0 to {ports - 1}, and one is needed"
                )
        self.ports, self.table = ports, {mac: tuple(out) for mac, out in table.items()}
        self.counters: Counter[str] = Counter()
        """Frames received, sent, marked, and dropped by reason."""
        self._classes, self._marks, self._policy, self._seed = (
            tuple(cos_to_class),
            dict(marks_above or {}),
            policy,
            seed,
        )

    def receive(self, port: int, octets: bytes, waiting: Mapping[tuple[int, int], int] | None = None) -> list[Sent]:
        """Forward a frame with FCS that came in by a port; `waiting` are octets in the queues, by port and class."""
        self.counters["received"] += 1
        if not header.is_intact(octets):
            return self._drop(Drop.FCS)
        try:
            frame = header.parse(octets[:-FCS_OCTETS])
        except EsunError:
            return self._drop(Drop.NOT_ESUN)
        if frame.header.revision != REVISION:
            return self._drop(Drop.REVISION)
        if frame.header.ttl < _LEAST_TTL:
            return self._drop(Drop.TTL)
        out = self._out(port, frame)
        if not out:
            return self._drop(Drop.NO_PORT)
        number, sent = self._classes[frame.header.cos], []
        for one in out:
            changed = replace(frame.header, ttl=frame.header.ttl - 1)
            threshold = self._marks.get(number)
            queued = (waiting or {}).get((one, number), 0)
            if threshold is not None and queued > threshold and changed.ecn != NOT_ECT:
                self.counters["marked"] += changed.ecn != CE
                changed = replace(changed, ecn=CE)
            sent.append(Sent(one, number, header.with_fcs(frame._replace(header=changed).encode())))
        self.counters["sent"] += len(sent)
        return sent

    def _out(self, port: int, frame: EsunFrame) -> list[int]:
        out = () if frame.destination.octets[0] & _GROUP else self.table.get(frame.destination, ())
        if not out:
            return [one for one in range(self.ports) if one != port] if self._policy is Policy.FLOOD else []
        label = frame.header.flow_label.to_bytes(2) if frame.header.flow_bit else b""
        hashed = crc32(frame.destination.octets + frame.source.octets + label, self._seed)
        chosen = out[(hashed >> 16 ^ hashed) % len(out)]
        return [] if chosen == port else [chosen]

    def _drop(self, reason: Drop) -> list[Sent]:
        self.counters[reason] += 1
        return []
