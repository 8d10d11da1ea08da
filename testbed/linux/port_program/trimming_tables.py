"""The tables of trimming in the port program: what ports do, the exceptions, and the counters of rests."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import NamedTuple

from testbed.linux.port_program.records import PRIORITIES
from testbed.switch.trimming.settings import MOST_EXCEPTIONS, TrimException, Trimming

TRIMMING = struct.Struct("=IBBBBQ" + "8Q" * 6)
EXCEPTION = struct.Struct("=4I10I10I2Q")
_SETTINGS = struct.Struct("=IBBBB")
_NUMBER_OF_EXCEPTIONS = struct.Struct("=Q")
_AS_ITS_CLASS = 0xFF


class Trimmed(NamedTuple):
    """Counters of a port's trimming, of one queue or of several: frames, and octets without FCS."""

    frames: int = 0
    """The frames for the queue that were cut. Each is one that was sent or one that was dropped."""
    octets: int = 0
    """Their octets before they were cut."""
    sent_frames: int = 0
    """The rests that found room in their queue."""
    sent_octets: int = 0
    dropped_frames: int = 0
    """The rests that found none."""
    dropped_octets: int = 0

    def __add__(self, other: object) -> Trimmed:
        """Return the sums."""
        if not isinstance(other, Trimmed):
            return NotImplemented
        return Trimmed(*(one + another for one, another in zip(self, other, strict=True)))


class TrimmingTables:
    """The entries of all ports of a network, by slot."""

    def __init__(self, trimmings: mmap.mmap | bytearray, exceptions: mmap.mmap | bytearray) -> None:
        self.memory, self.exceptions = trimmings, exceptions

    def set(self, slot: int, trimming: Trimming | None) -> None:
        """Set what a port does with frames that have no room, from the next frame on; its counters stay."""
        fields = (0,) * 5
        if trimming is not None:
            queue, tc = (_AS_ITS_CLASS if one is None else one for one in (trimming.queue, trimming.tc))
            fields = (trimming.size, sum(1 << one for one in trimming.queues), trimming.dscp, tc, queue)
        _SETTINGS.pack_into(self.memory, slot * TRIMMING.size, *fields)

    def set_exceptions(self, slot: int, exceptions: Sequence[TrimException]) -> None:
        """Set the frames coming in by a port that are never trimmed. The counters of exceptions begin at zero."""
        place = slot * TRIMMING.size + _SETTINGS.size
        _NUMBER_OF_EXCEPTIONS.pack_into(self.memory, place, 0)
        for number, one in enumerate(exceptions):
            start = (slot * MOST_EXCEPTIONS + number) * EXCEPTION.size
            self.exceptions[start : start + EXCEPTION.size] = _encoded(one)
        _NUMBER_OF_EXCEPTIONS.pack_into(self.memory, place, len(exceptions))

    def dscps(self) -> frozenset[int]:
        """Return the DSCPs that ports which trim give to rests."""
        found = (_SETTINGS.unpack_from(self.memory, place) for place in range(0, len(self.memory), TRIMMING.size))
        return frozenset(dscp for octets, queues, dscp, *_ in found if octets and queues)

    def trimmed(self, slot: int) -> tuple[Trimmed, ...]:
        """Return what a port has trimmed, by the queue that was full."""
        _, _, _, _, _, _, *counts = TRIMMING.unpack_from(self.memory, slot * TRIMMING.size)
        return tuple(Trimmed(*counts[queue::PRIORITIES]) for queue in range(PRIORITIES))

    def excepted(self, slot: int) -> tuple[tuple[int, int], ...]:
        """Return the frames and octets that each exception of a port has fitted."""
        (number,) = _NUMBER_OF_EXCEPTIONS.unpack_from(self.memory, slot * TRIMMING.size + _SETTINGS.size)
        found = []
        for place in range(slot * MOST_EXCEPTIONS, slot * MOST_EXCEPTIONS + number):
            *_, frames, octets = EXCEPTION.unpack_from(self.exceptions, place * EXCEPTION.size)
            found.append((frames, octets))
        return tuple(found)


def _encoded(one: TrimException) -> bytes:
    """Return an exception as words and masks: source, destination, ports, protocol (`struct hashed`)."""
    words, masks = [0] * 10, [0] * 10
    for place, network in ((0, one.source), (4, one.destination)):
        if network is not None and not isinstance(network, str):
            width = 1 if isinstance(network, IPv4Network) else 4
            for given, target in ((network.network_address, words), (network.netmask, masks)):
                target[place : place + width] = struct.unpack(f">{width}I", given.packed)
    for shift, port in ((16, one.source_port), (0, one.destination_port)):
        if port is not None:
            words[8] |= port << shift
            masks[8] |= 0xFFFF << shift
    if one.protocol is not None:
        words[9], masks[9] = int(one.protocol), 0xFF
    dscp = (0, 0) if one.dscp is None else (one.dscp, 0x3F)
    return EXCEPTION.pack(one.version or 0, *dscp, 0, *words, *masks, 0, 0)
