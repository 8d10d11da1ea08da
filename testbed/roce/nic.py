"""The settings of the NICs of a RoCE flow: how they recover from loss, what they keep, and how long they take.

docs/nic.md sets them beside what is public of real NICs. All times are those of hardware.

Runs in C: `testbed/lab/um/linux/xoff_roce_user.c`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields
from functools import lru_cache

from testbed.roce.settings import RoceError
from testbed.units import Duration, Scale

RNR_UNIT = Duration("10us")
RNR_UNITS = (
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
    6144, 8192, 12288, 16384, 24576, 32768, 49152,
)  # fmt: skip
"""The times of the codes of an RNR NAK, in units of 10 us (InfiniBand, table 45)."""
NO_RNR_LIMIT = 7
"""InfiniBand's number of retries that means no limit."""
_MOST_PACKETS = 1 << 20
_MASK = (1 << 64) - 1

_OF_ANSWERS = (
    "ack_delay", "reads", "reorder_time", "reorder_packets", "rnr_timer", "rnr_retries", "bdp_packets", "timeout_low",
    "timeout_high", "low_packets",
)  # fmt: skip
"""The settings that need acknowledgements or other answers."""


class Recovery(enum.StrEnum):
    """The packets that are sent again after a loss."""

    GO_BACK_N = "go-back-N"  # the missing packet and all behind it
    GO_BACK_0 = "go-back-0"  # the whole message from its first packet
    SELECTIVE_REPEAT = "selective repeat"  # the missing packets alone


def recovery_named(name: str) -> Recovery:
    try:
        return Recovery(name)
    except ValueError:
        raise RoceError(f"recovery is {name!r}; there are {', '.join(repr(str(one)) for one in Recovery)}") from None


@dataclass(frozen=True)
class Nic:
    """A NIC; by default one without delays, which takes packets in order alone and always has a receive posted."""

    cnp_delay: Duration = Duration("0s")
    """The time from a marked packet to its CNP on the wire."""
    ack_delay: Duration = Duration("0s")
    """The time from a packet that is answered to its acknowledgement or NAK; it covers all that came until then."""
    doorbell_delay: Duration = Duration("0s")
    """The time from the doorbell, when a message is posted, to its first packet."""
    jitter: Duration = Duration("0s")
    """The most that is added to each of these three delays that is not 0, by the run's seed."""
    reads: int = 8
    """Reads and atomic operations that are under way at a time (max_rd_atomic)."""
    reorder_time: Duration = Duration("0s")
    """The time that a receiver waits for a missing packet before it asks for it. It keeps what comes meanwhile."""
    reorder_packets: int = 128
    """The distance from the missing packet at which a receiver that waits asks for it at once."""
    receives: int | None = None
    """Receives that the target of sends has posted; None: always enough."""
    receive_takes: Duration = Duration("0s")
    """The time until the target has done with a message and has posted its receive again, one message after another."""
    shares_receives: bool = False
    """True: they are those of a shared receive queue (SRQ), which all queue pairs of the host have whose NICs have the
    same three numbers."""
    receive_limit: int = 0
    """The shared receive queue tells when it has fewer receives than this, and again when it has had as many."""
    rnr_timer: Duration = Duration("640us")
    """The time that an RNR NAK asks a sender to wait for; one that InfiniBand has a code for."""
    rnr_retries: int = NO_RNR_LIMIT
    """The most RNR NAKs in a row, until the queue pair fails; 7: no limit."""
    bdp_packets: int = 128
    """Selective repeat: packets that may be sent without an acknowledgement, about a bandwidth-delay product."""
    timeout_low: Duration = Duration("100us")
    """Selective repeat: the retransmission timer while up to `low_packets` are without acknowledgement."""
    timeout_high: Duration = Duration("320us")
    """Selective repeat: the retransmission timer while more packets are."""
    low_packets: int = 3

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(one.default, Duration):
                try:
                    object.__setattr__(self, one.name, Duration(value))
                except (ValueError, TypeError) as error:
                    raise RoceError(f"Nic({one.name}=...): {error}") from None
        for name, least, most in (
            ("reads", 1, 16),
            ("reorder_packets", 1, _MOST_PACKETS),
            ("receives", 1, 1 << 20),
            ("receive_limit", 0, 1 << 20),
            ("rnr_retries", 0, NO_RNR_LIMIT),
            ("bdp_packets", 2, _MOST_PACKETS),
            ("low_packets", 0, _MOST_PACKETS),
        ):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not least <= value <= most):
                raise RoceError(f"Nic({name}={value!r}): it is a whole number from {least} to {most}")
        if type(self.shares_receives) is not bool:
            raise RoceError(f"Nic(shares_receives={self.shares_receives!r}): True or False is expected")
        if self.shares_receives and self.receives is None:
            raise RoceError("Nic(shares_receives=True) needs receives=..., how many the shared receive queue has")
        if self.receive_limit and not self.shares_receives:
            raise RoceError("Nic(receive_limit=...) is that of a shared receive queue; take shares_receives=True too")
        if self.receive_limit > (self.receives or 0):
            raise RoceError(
                f"Nic(receive_limit={self.receive_limit}): the shared receive queue has {self.receives} receives, "
                "fewer than that at any time"
            )
        for name in ("timeout_low", "timeout_high"):
            if not getattr(self, name).ns:
                raise RoceError(f"Nic({name}=0s): a sender that waits for no time sends for ever")
        if self.timeout_low > self.timeout_high:
            raise RoceError(f"Nic: timeout_low is {self.timeout_low}, above timeout_high, {self.timeout_high}")
        if self.rnr_timer.ns % RNR_UNIT.ns or self.rnr_timer.ns // RNR_UNIT.ns not in RNR_UNITS:
            near = min(RNR_UNITS, key=lambda units: abs(units * RNR_UNIT.ns - self.rnr_timer.ns))
            raise RoceError(
                f"Nic(rnr_timer={self.rnr_timer}): InfiniBand has no code for it; the nearest is {RNR_UNIT * near}"
            )

    def without_effect(self, recovery: Recovery, operation: str, service: str = "RC") -> list[str]:
        """Return the settings that are not the default and change nothing, each with the reason."""
        set_here = {one.name for one in fields(self) if getattr(self, one.name) != one.default}
        found = []
        if service != "RC":
            for name in _OF_ANSWERS:
                if name in set_here:
                    found.append(f"{name}: service is {service}, which answers nothing and sends nothing again")
            set_here -= set(_OF_ANSWERS)
        if "jitter" in set_here and not {"cnp_delay", "ack_delay", "doorbell_delay"} & set_here:
            found.append("jitter: there is no delay to which it is added")
        if recovery is not Recovery.SELECTIVE_REPEAT:
            names = [name for name in ("bdp_packets", "timeout_low", "timeout_high", "low_packets") if name in set_here]
            found += [f"{name}: recovery is {recovery}, and selective repeat alone has it" for name in names]
        if "reorder_packets" in set_here and not self.reorder_time.ns:
            found.append("reorder_packets: reorder_time is 0, so no receiver waits")
        if "reads" in set_here and operation in ("write", "send"):
            found.append(f"reads: operation is {operation}")
        for name in (
            "receives", "receive_takes", "shares_receives", "receive_limit", "rnr_timer", "rnr_retries",
        ):  # fmt: skip
            if name not in set_here:
                continue
            if operation != "send":
                found.append(f"{name}: operation is {operation}, which needs no receives")
            elif self.receives is None:
                found.append(f"{name}: receives is None, so there are always enough")
            elif not self.receive_takes.ns and not self.shares_receives:
                found.append(f"{name}: receive_takes is 0, so a receive is always posted")
        return found


@dataclass(frozen=True)
class NicTiming:
    """A NIC with its way of recovery, and with times in nanoseconds of the lab: what a queue pair needs."""

    recovery: Recovery = Recovery.GO_BACK_N
    cnp_ns: int = 0
    ack_ns: int = 0
    doorbell_ns: int = 0
    jitter_ns: int = 0
    reads: int = 8
    reorder_ns: int = 0
    reorder_packets: int = 128
    receives: int = 0
    """0: always enough."""
    receive_ns: int = 0
    rnr_code: int = 12
    rnr_unit_ns: int = RNR_UNIT.ns
    rnr_retries: int = NO_RNR_LIMIT
    bdp_packets: int = 128
    low_ns: int = 100_000
    high_ns: int = 320_000
    low_packets: int = 3
    seed: int = 0
    shares_receives: bool = False
    receive_limit: int = 0

    @classmethod
    @lru_cache(256)
    def of(cls, nic: Nic, recovery: Recovery, scale: Scale, seed: int = 0) -> NicTiming:
        def lab(time: Duration) -> int:
            return scale.lab(time).ns

        return cls(
            recovery, lab(nic.cnp_delay), lab(nic.ack_delay), lab(nic.doorbell_delay), lab(nic.jitter), nic.reads,
            lab(nic.reorder_time), nic.reorder_packets, nic.receives or 0, lab(nic.receive_takes),
            RNR_UNITS.index(nic.rnr_timer.ns // RNR_UNIT.ns), lab(RNR_UNIT), nic.rnr_retries, nic.bdp_packets,
            lab(nic.timeout_low), lab(nic.timeout_high), nic.low_packets, seed & _MASK, nic.shares_receives,
            nic.receive_limit,
        )  # fmt: skip

    def numbers(self) -> dict[str, int]:
        """Return all of it by name, as struct xr_nic has it (testbed/lab/um/linux/xoff_roce.h)."""
        return vars(self) | {"recovery": list(Recovery).index(self.recovery)}

    @property
    def is_selective(self) -> bool:
        return self.recovery is Recovery.SELECTIVE_REPEAT

    @property
    def keeps(self) -> int:
        """The packets behind a missing one that a receiver keeps."""
        if self.is_selective:
            return self.bdp_packets
        return self.reorder_packets if self.reorder_ns and self.recovery is Recovery.GO_BACK_N else 0

    @property
    def is_plain(self) -> bool:
        """True if packets may be sent and taken many at a time: nothing but their order counts."""
        delays = self.cnp_ns or self.ack_ns or self.doorbell_ns
        return self.recovery is Recovery.GO_BACK_N and not (delays or self.reorder_ns or self.receives)


PLAIN = NicTiming()


class Jitter:
    """The delays of one queue pair, with what is drawn by a seed (splitmix64)."""

    def __init__(self, seed: int, jitter_ns: int) -> None:
        self._state, self._jitter_ns = seed, jitter_ns

    def delay(self, delay_ns: int) -> int:
        if not delay_ns or not self._jitter_ns:
            return delay_ns
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        drawn = self._state
        drawn = ((drawn ^ drawn >> 30) * 0xBF58476D1CE4E5B9) & _MASK
        drawn = ((drawn ^ drawn >> 27) * 0x94D049BB133111EB) & _MASK
        return delay_ns + (drawn ^ drawn >> 31) % (self._jitter_ns + 1)
