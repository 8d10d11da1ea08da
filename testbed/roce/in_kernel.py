"""The words for what the kernel's RoCE reports by numbers, and the numbers by which its Soft-RoCE is told of DCQCN.

See enum xr_refusal and enum xr_why in testbed/lab/um/linux/xoff_roce.h, and the attributes of xoff_rxe_dcqcn.c.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from testbed.bytecode.code import Program
from testbed.frames.roce import Nak, Opcode, RoceReason
from testbed.roce.memory import UNLIMITED
from testbed.roce.rates import Line, RateControlError, control
from testbed.roce.rates.base import KernelRate
from testbed.roce.settings import Settings, Timing

REFUSALS: tuple[str, ...] = (
    RoceReason.TOO_SHORT,
    RoceReason.WRONG_VERSION,
    RoceReason.OPCODE_NOT_KNOWN,
    RoceReason.BAD_PADDING,
    RoceReason.BAD_SYNDROME,
    RoceReason.BAD_ICRC,
    "queue_pair_not_ready",
    RoceReason.BAD_TELEMETRY,
    RoceReason.TRIMMED,
    RoceReason.OTHER_SERVICE,
)
"""The reasons why a datagram was refused, from number 1 on."""

_FAILURES = (
    "",
    "no acknowledgement after {0} retransmissions",
    "the far end refuses packet {0}: {nak}",
    "read response {0} has {1} octets",
    "read response {0}: {1} octets for address {2}{next}",
    "a read of {0} octets at {1} with key {2:#x}",
    "a write of {0} octets at {1} with key {2:#x}",
    "a read begins within a message",
    "more than {0} reads at a time",
    "{opcode} within a message",
    "{opcode} without its first packet",
    "{opcode} with {1} octets",
    "a send, for which there is no memory",
    "{0} octets for address {1}; {2} is next",
    "{0} octets for address {1} of memory that is only read",
    "{0} octets at address {1} of memory that is only written",
    "the far end has no receive for packet {0} after {1} retries",
    "an atomic operation at {0} with key {1:#x}",
    "an atomic operation begins within a message",
    "an atomic operation at {0}, which is no multiple of 8",
    "a send invalidates key {0:#x}, which no memory has",
    "its rate control has a fault: number {0}, at instruction {1} of its code",
)
_RATE_CONTROL = len(_FAILURES) - 1


def failure(numbers: Sequence[int], control: Program | None = None) -> str:
    """Return the sentence of a failure, which is a reason and four numbers; empty without one. `control` is the code of
    the queue pair's rate control, if that is code.
    """
    why, *numbers = numbers
    if why == _RATE_CONTROL and control is not None:
        return f"its rate control has a fault: {control.fault(*numbers[:2])}"
    first, second, _, fourth = numbers
    return _FAILURES[why].format(
        *numbers,
        nak=Nak(second).name.lower().replace("_", " ") if second in list(Nak) else second,
        opcode=Opcode(first).name if first in list(Opcode) else first,
        next=f"; {fourth} is next" if fourth <= UNLIMITED else " of memory that is only read",
    )


def settings(of: Settings, timing: Timing, rests: Collection[int] = ()) -> dict[str, int]:
    """Return the settings of an endpoint by name, as struct xr_settings has them. `rests` are the DSCPs of rests."""
    whole = {name: getattr(of, name) for name in ("mtu", "ack_every", "window", "retries")}
    mask = sum(1 << one for one in set(rests))
    return whole | {"retransmit_ns": timing.retransmit_ns, "cnp_ns": timing.cnp_ns, "rests": mask}


_PARTS = 1024
"""Soft-RoCE has g and alpha in parts of 1024, as firmware of ConnectX cards has."""


def soft_roce_settings(rate_control: str, line: Line) -> dict[str, int]:
    """Return the settings of a Soft-RoCE device that make its DCQCN this rate control, by their names in cc_params."""
    kind, numbers = control(rate_control, line).in_kernel() or (None, {})
    if kind is not KernelRate.DCQCN:
        raise RateControlError(
            f"Soft-RoCE knows the rate controls dcqcn and dcqcn-mlx, and not {rate_control}; take one of them, or "
            "fixed, which sends at the rate of the line"
        )
    fractions = {"rp_dce_tcp_g": numbers["gain"], "rp_initial_alpha_value": numbers["alpha"]}
    for name, value in fractions.items():
        if (value * _PARTS) % 1:
            raise RateControlError(f"{rate_control}: {name} is {value}; Soft-RoCE has whole parts of {_PARTS}")
    return {name: int(value * _PARTS) for name, value in fractions.items()} | {
        "np_min_time_between_cnps": line.scale.lab(Settings().cnp_interval).ns,
        "rp_max_rate": int(numbers["line_bps"]),
        "rp_min_rate": int(numbers["minimum_bps"]),
        "rp_ai_rate": int(numbers["additive_bps"]),
        "rp_hai_rate": int(numbers["hyper_bps"]),
        "rp_dce_tcp_rtt": int(numbers["alpha_ns"]),
        "rp_time_reset": int(numbers["increase_ns"]),
        "rp_rate_reduce_monitor_period": int(numbers["decrease_ns"]),
        "rp_byte_reset": int(numbers["bytes"]),
        "rp_threshold": int(numbers["recovery"]),
    }
