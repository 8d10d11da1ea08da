"""Rules of one's own at the ports of a network: their code before it starts, and what the kernel tells of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.agent.event_log import Record
from testbed.agent.events import SwitchEvent
from testbed.bytecode.values import Refusal
from testbed.errors import listed, warn
from testbed.experiment.run import Run
from testbed.linux import queue_rule
from testbed.linux.netlink import qdiscs
from testbed.linux.netlink.messages import Socket
from testbed.linux.process import kernel
from testbed.linux.queue_rule import RuleProgram, RuleReading
from testbed.net.fabric.ports import FabricError, PortState
from testbed.switch.pfc import mask_of
from testbed.switch.rules.marking import Marking, PortLine
from testbed.switch.rules.rule_code import RuleCode, code_of

_SEED = 1
"""The seed of a network outside of a run, as in the shell."""


@dataclass(frozen=True)
class MarkingReading:
    """The state of a marking rule at a port, and its faults so far."""

    asked: int
    """The frames that it was asked of; one that arrives and departs counts twice if the rule has both methods."""
    state: dict[str, float]
    """The return value of its `state()`."""
    fault: str
    """The fault after which the port's curves mark, with its place in the class; empty if there was none."""
    fault_lab_ns: int | None
    """The moment of the fault by the lab's clock."""


def code_for(port: PortState, marking: Marking) -> RuleCode:
    """Return the code of a port's marking rule; FabricError if it cannot run here."""
    run = Run.current()
    rule = marking.made(PortLine(port.lab_cable.rate, port.units, port.name, run.seed if run else _SEED))
    name = type(rule).__name__
    if not kernel.cpu_work_takes_no_time():
        raise FabricError(
            f"{port.name} has the {_kind(marking)} {name}, which only the kernel of the engine um can ask: here it is "
            "a stock one, whose qdisc red has a curve and no place for code; take --engine um, or leave "
            f"{'with_rule' if marking.hooks else 'with_marking'} out"
        )
    code = code_of(rule)
    if isinstance(code, Refusal):
        raise FabricError(f"{port.name}: the {_kind(marking)} {name} has no code: {code}")
    if rule.has("on_stamp") and not (port.settings and port.settings.telemetry):
        raise FabricError(
            f"{port.name}: {name} has on_stamp(), and the port stamps nothing; write Port(telemetry=True)"
        )
    if rule.has("on_weight") and port.settings and (strict := sorted(marking.queues & port.settings.strict)):
        raise FabricError(
            f"{port.name}: {name} has on_weight(), and queue {strict[0]} is strict, so it has no weight; name the "
            f"others in with_rule({name}, ...)"
        )
    if run is not None:
        run.ran_switch_rule(name, f"code in the kernel, at most {code.cost}")
    return code


def program_of(code: RuleCode) -> RuleProgram:
    """Return a rule's code as the kernel takes it."""
    program = code.program
    return RuleProgram(
        program.octets, len(program.instructions), program.cells, program.entries, code.frame, program.more
    )


def shown(code: RuleCode, read: RuleReading) -> dict[str, float]:
    """Return the numbers of a rule's state by their names."""
    numbers = zip(code.program.shown, read.shown, strict=False)
    return {name: number if kind == "float" else int(number) for (name, kind), number in numbers}


def _kind(marking: Marking) -> str:
    return "rule" if marking.hooks else "marking rule"


def reading(port: PortState, socket: Socket) -> MarkingReading:
    """Return what the marking rule of a port has done so far."""
    for _, code, read in _readings([port], socket):
        fault = code.program.fault(read.fault, read.fault_at) if read.fault else ""
        return MarkingReading(read.asked, shown(code, read), fault, read.fault_ns if read.fault else None)
    raise FabricError(f"{port.name} has no rule; write Port(ecn={{...}}).with_marking(...)")


def ended(by_node: Iterable[Sequence[PortState]], socket_of: Callable[[Any], Socket]) -> list[Record]:
    """Return an event for each rule that had a fault in a network that ends, after warnings of what did not work."""
    found, asked, faults = list[Record](), Counter[str](), defaultdict[str, list[str]](list)
    for ports in by_node:
        having = [port for port in ports if port.rule is not None]
        for port, code, read in _readings(having, socket_of(ports[0].node)) if having else ():
            asked[code.name] += read.asked
            if read.fault:
                found.append(_fault(port, code, read))
                faults[f"{code.name} has a fault: {code.program.fault(read.fault, read.fault_at)}"].append(port.name)
    for fault, names in faults.items():
        warn(f"marking rule {fault}; from then on the curves of {listed(names, 8)} marked in its place")
    for name, times in asked.items():
        if not times:
            warn(f"marking rule {name} had no effect: no frame came to a queue that has it")
    return found


def _fault(port: PortState, code: RuleCode, read: RuleReading) -> Record:
    assert port.settings is not None and port.settings.marking is not None
    line = code.program.places[read.fault_at].line
    return (
        read.fault_ns,
        SwitchEvent.RULE_FAULT,
        port.slot,
        mask_of(port.settings.marking.queues),
        read.fault << 32 | line,
    )


def _readings(ports: Sequence[PortState], socket: Socket) -> Iterator[tuple[PortState, RuleCode, RuleReading]]:
    """Yield the rules of ports of one node, with what the kernel tells of them."""
    told = {(interface, own): statistics for interface, own, _, statistics in qdiscs.listed(socket)}
    for port in ports:
        if port.rule is None or port.queues is None:
            continue
        read = queue_rule.reading(told.get((port.interface, port.queues.rule_handles()[0]), b""))
        if read is not None:
            yield port, port.rule, read
