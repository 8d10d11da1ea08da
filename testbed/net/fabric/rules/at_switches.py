"""Rules of one's own by which the switches of a network choose among equal ways."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from testbed.bytecode.values import Refusal
from testbed.errors import listed, warn
from testbed.experiment.run import Run
from testbed.linux.queue_rule import RuleDevice
from testbed.net.fabric.ports import FabricError, PortState
from testbed.net.fabric.rules.at_ports import program_of, shown
from testbed.switch.rules import way_code
from testbed.switch.rules.choosing import SwitchLine, WayRuleMaker, made
from testbed.switch.rules.rule_code import RuleCode

if TYPE_CHECKING:
    from testbed.net.fabric.fabric import Fabric


@dataclass(frozen=True)
class WayRuleReading:
    """The state of a rule that chooses among ways at a switch, and its faults so far."""

    asked: int
    """The frames that it was asked of."""
    state: dict[str, float]
    """The return value of its `state()`."""
    fault: str
    """The fault after which the hash chooses, with its place in the class; empty if there was none."""
    fault_lab_ns: int | None
    """The moment of the fault by the lab's clock."""


class SwitchRules:
    """The rules of all switches of a network, from when it starts until it ends."""

    def __init__(self) -> None:
        self._device = RuleDevice()
        self._codes: dict[str, tuple[int, RuleCode]] = {}

    def add(self, switch: str, maker: WayRuleMaker, first: PortState, seed: int) -> int:
        """Give the kernel the rule of a switch, and return its number; FabricError if it has no code."""
        rule = made(maker, SwitchLine(first.lab_cable.rate, first.units, switch, seed))
        name = type(rule).__name__
        code = way_code.code_of(rule)
        if isinstance(code, Refusal):
            raise FabricError(f"{switch}: the rule {name} has no code: {code}")
        run = Run.current()
        if run is not None:
            run.ran_switch_rule(name, f"code in the kernel, at most {code.cost}")
        number = self._device.add(program_of(code))
        self._codes[switch] = number, code
        return number

    def reading(self, switch: str) -> WayRuleReading:
        """Return what the rule of a switch has done so far."""
        if switch not in self._codes:
            raise FabricError(f"{switch} has no rule that chooses among ways; {listed(self._codes)} have")
        number, code = self._codes[switch]
        read = self._device.reading(number)
        fault = code.program.fault(read.fault, read.fault_at) if read.fault else ""
        return WayRuleReading(read.asked, shown(code, read), fault, read.fault_ns if read.fault else None)

    def warn(self) -> None:
        """Warn of faults, and of rules that were not asked, when the network ends."""
        faults, asked = defaultdict[str, list[str]](list), defaultdict[str, int](int)
        for switch, (_, code) in self._codes.items():
            read = self.reading(switch)
            asked[code.name] += read.asked
            if read.fault:
                faults[f"{code.name} has a fault: {read.fault}"].append(switch)
        for fault, switches in faults.items():
            warn(f"rule {fault}; from then on {listed(switches, 8)} chose ways by the hash")
        for name, times in asked.items():
            if not times:
                warn(f"rule {name} had no effect: no frame came to a switch where it has a choice")

    def close(self) -> None:
        """Take the rules away."""
        self._device.close()


def way_rule(fabric: Fabric, switch: str) -> WayRuleReading:
    """Return the state of the rule by which a switch chooses among ways, and its fault if it had one."""
    ways = fabric.core.ways
    if ways is None or ways.rules is None:
        raise FabricError(f"{switch} has no rule that chooses among ways; write Ways(rule=MyRule)")
    return ways.rules.reading(switch)
