"""Who serves a flow with its rate control: the kernel by itself, the kernel with the code of a class, or Python.

The kernel of the engine `um` has some rate controls of its own, and interprets what `testbed.roce.control` makes of the
others. What has no code is served by a process in Python, and so is all on `vm`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from testbed.bytecode.values import Refusal
from testbed.errors import UsageError
from testbed.experiment.run import Run
from testbed.linux import roce_device
from testbed.net.traffic.flow import Flow
from testbed.net.traffic.roce_flow import line_of, maker_of_source, transport_of
from testbed.roce.control.rate_code import Code, code_of
from testbed.roce.rates import Line, RateControl
from testbed.roce.rates.base import KernelRate


class ServedBy(StrEnum):
    """Who can be asked for by `Roce(served_by=...)`."""

    KERNEL = "kernel"
    PYTHON = "python"


@dataclass(frozen=True)
class RateInKernel:
    """A rate control as the kernel takes it."""

    kind: int
    numbers: Mapping[str, float]
    code: Code | None = None


def rate_in_kernel(control: RateControl) -> RateInKernel | Refusal:
    """Return a rate control as the kernel takes it, or what it cannot take."""
    if known := control.in_kernel():
        return RateInKernel(*known)
    code = code_of(control)
    return code if isinstance(code, Refusal) else RateInKernel(KernelRate.OWN, code.numbers, code)


def is_for_kernel(flows: Mapping[int, Flow], sends: Collection[int], line: Line) -> bool:
    """Return True if the kernel serves the queue pairs of a host: that of `um`, if it can for all flows from here."""
    controls = {index: maker_of_source(flows[index])(line) for index in sends}
    taken = {index: rate_in_kernel(control) for index, control in controls.items()}
    wanted = {index: transport_of(flows[index]).served_by for index in sends}
    for index, by in wanted.items():
        refusal = taken[index]
        if by == ServedBy.KERNEL and isinstance(refusal, Refusal):
            raise UsageError(
                f"flow {index} has served_by='kernel', and its rate control {_name(controls[index])} has no code: "
                f"{refusal}"
            )
        if by == ServedBy.KERNEL and not roce_device.is_there():
            raise UsageError(f"flow {index} has served_by='kernel'; only the kernel of the engine um serves RoCE")
    is_in_kernel = (
        roce_device.is_there()
        and ServedBy.PYTHON not in wanted.values()
        and not any(isinstance(one, Refusal) for one in taken.values())
    )
    _tell(controls, taken, is_in_kernel)
    return is_in_kernel


def in_python(flows: Collection[Flow]) -> list[str]:
    """Return a warning for each rate control that the kernel could serve if it had code."""
    if not roce_device.is_there():
        return []
    refused = dict[str, Refusal]()
    for flow in flows:
        if transport_of(flow).served_by is None:
            control = maker_of_source(flow)(line_of(flow.source))
            if isinstance(taken := rate_in_kernel(control), Refusal):
                refused[_name(control)] = taken
    return [
        f"rate control {name} runs in Python, and the protocol of its hosts with it, which takes several times as "
        f"long: {refusal}. Roce(served_by='python') asks for that"
        for name, refusal in refused.items()
    ]


def _tell(controls: Mapping[int, RateControl], taken: Mapping[int, RateInKernel | Refusal], in_kernel: bool) -> None:
    """Have the run's result say how rate controls ran that the kernel does not have."""
    run = Run.current()
    for index, control in controls.items():
        own = taken[index]
        if run is not None and (isinstance(own, Refusal) or own.code is not None):
            run.ran_rate_control(_name(control), "code in the kernel" if in_kernel else "Python")


def _name(control: RateControl) -> str:
    return type(control).__name__
