"""The End.X.PFC SIDs of one router: the fate of the packets to each, by reason, and the errors that are sent.

`endx_pfc.process` does what the draft requires. Beside a kernel that does a part of it by itself, its errors are left
to it (`kernel_endx`), so that a sender gets each once. Errors are limited by a token bucket for the whole router, as
RFC 4443, section 2.4(f) asks; echo replies are no errors. Times come in as arguments.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv6Address

from testbed.frames import ipv6
from testbed.frames.ipv6 import PacketError
from testbed.subjects.srv6.protocol import endx_pfc
from testbed.subjects.srv6.protocol.domain import Srv6Error
from testbed.subjects.srv6.protocol.endx_pfc import (
    Cause,
    Deliver,
    Drop,
    DropReason,
    Forward,
    LocalSid,
    Measure,
    PauseJ,
    Result,
    SendIcmp,
    process,
)


class Silence(enum.StrEnum):
    """The reason why an error that a packet deserves is not sent from here."""

    KERNEL = "left_to_kernel"
    LIMIT = "limited"


@dataclass(frozen=True)
class Silent:
    """The end of a packet whose sender gets no answer."""

    cause: Cause
    why: Silence


class ErrorLimit:
    """The limit of ICMP errors of a router: some at once, and then one in each interval.

    The defaults are those that RFC 4443 names for a small or middle-sized device.
    """

    def __init__(self, at_once: int = 10, interval_ns: int = 100_000_000) -> None:
        self._most, self._interval_ns = at_once, interval_ns
        self._free_ns: int | None = None
        """The time when the token bucket is full again, if nothing is sent until then."""

    def allows(self, now_ns: int) -> bool:
        """Return True if an error may be sent now. Then it counts as sent."""
        full_ns = now_ns if self._free_ns is None else max(self._free_ns, now_ns)
        if full_ns - now_ns > (self._most - 1) * self._interval_ns:
            return False
        self._free_ns = full_ns + self._interval_ns
        return True


class EndXPfc:
    """All End.X.PFC SIDs of one router. With `kernel_endx` the kernel has its End.X behind the same addresses."""

    def __init__(
        self, sids: Iterable[LocalSid], *, beside_kernel: bool = False, limit: ErrorLimit | None = None
    ) -> None:
        self._sids: dict[IPv6Address, LocalSid] = {}
        for local in sids:
            if local.sid.address in self._sids:
                raise Srv6Error(f"{local.sid.name} is given twice; a SID has one set of adjacencies")
            self._sids[local.sid.address] = local
        self._beside_kernel, self._limit = beside_kernel, limit
        self._counters: dict[IPv6Address, Counter[str]] = {address: Counter() for address in self._sids}
        self._other: Counter[str] = Counter()

    def receive(self, data: bytes, now_ns: int = 0, from_outside: bool = False) -> Result | Silent:
        """Process a packet by its SID, and count the result."""
        if self._beside_kernel:
            data = endx_pfc.as_it_came(data, self._sids.keys())
        local = self._local(data)
        if local is None:
            ended = _not_ours(data)
            self._other[counter_name(ended)] += 1
            return ended
        result = self._sent(process(data, local, from_outside), data, local, now_ns)
        self._counters[local.sid.address][counter_name(result)] += 1
        return result

    def repeat(self, sid: IPv6Address, result: Result) -> None:
        """Count a packet like an earlier one with this result, as refreshes are the same packet."""
        self._counters[sid][counter_name(result)] += 1

    def counters(self) -> dict[str, dict[str, int]]:
        """Return the counters by SID, and under "other" those of packets to no SID of these. Zeros are left out."""
        counted = {str(address): dict(sorted(counter.items())) for address, counter in self._counters.items()}
        return counted | {"other": dict(sorted(self._other.items()))}

    def _local(self, data: bytes) -> LocalSid | None:
        destination = data[ipv6.DESTINATION_AT : ipv6.HEADER_OCTETS]
        return self._sids.get(IPv6Address(destination)) if len(destination) == len(IPv6Address(0).packed) else None

    def _sent(self, result: Result, data: bytes, local: LocalSid, now_ns: int) -> Result | Silent:
        """Return the same result, unless it is an error that the kernel sends or that is over the limit."""
        if not isinstance(result, SendIcmp) or result.cause is Cause.PING:
            return result
        if self._beside_kernel and endx_pfc.answers(result.cause, ipv6.whole(data), local):
            return Silent(result.cause, Silence.KERNEL)
        if self._limit is not None and not self._limit.allows(now_ns):
            return Silent(result.cause, Silence.LIMIT)
        return result


def counter_name(result: Result | Silent) -> str:
    match result:
        case Forward():
            return "forwarded"
        case PauseJ():
            return "paused"
        case Measure():
            return "measured"
        case Deliver():
            return "delivered"
        case SendIcmp():
            return f"answered {result.cause}"
        case Silent():
            return f"{result.why} {result.cause}"
        case Drop():
            return f"dropped {result.reason}"


def _not_ours(data: bytes) -> Drop:
    try:
        ipv6.whole(data)
    except PacketError as error:
        return Drop(error.reason)
    return Drop(DropReason.NOT_THIS_SID)
