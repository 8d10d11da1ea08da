"""The fabric that a benchmark measures: a topology, one of a user's file, or what a subject makes of other files.

Its hosts and the way to make it anew for each network are the same for all tests. A test changes what it is about: the
rule of equal ways, PFC, or the interval at which deadlocks are looked for. Switches of config_db.json have the marks,
buffers and priorities of their files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from testbed import subject
from testbed.errors import UsageError
from testbed.measures import offered_load
from testbed.measures.own_files import rate_control
from testbed.measures.own_files import shown as shown_control
from testbed.measures.random_flows import line_of
from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.port import ROCE, Port
from testbed.net.traffic import Flow
from testbed.net.traffic.roce import Roce
from testbed.roce.nic import Recovery, recovery_named
from testbed.roce.rates import Maker
from testbed.switch.ecn.curve import EcnCurve
from testbed.switch.ways.settings import Ways, ways_of
from testbed.units import Rate, Size

MOST_HOSTS = 64
LEAST_HOSTS = 3
"""An incast has two senders."""


@dataclass(frozen=True)
class FabricUnderTest:
    """A fabric whose settings have been checked."""

    name: str
    """What was asked for: a topology with its arguments, or the names of files."""
    hosts: tuple[str, ...]
    line: Rate
    """The rate of the slowest line of a host."""
    control: str | Maker
    """The rate control of flows, where a test does not choose its own."""
    ways: Ways | None
    """The rule of equal ways that was asked for, where a test does not choose its own; None for the fabric's own."""
    curve: EcnCurve | None
    """The marks at the port to the last host; None if it does not mark."""
    settings: tuple[tuple[str, str], ...]
    """What the fabric is made of, in words: name and value."""
    recovery: Recovery = Recovery.GO_BACK_N
    """The recovery of RoCE flows: the packets that are sent again after a loss."""
    pfc: bool = True
    """True if switches pause the priority of the flows."""
    of_file: bool = False
    """True if its switches are those of config_db.json files, which say what ports do."""
    _make: Callable[..., LosslessTopo] = field(repr=False, default=LosslessTopo)
    _dscp: Mapping[str, int] = field(repr=False, default_factory=dict)

    @classmethod
    def of(
        cls, topo: str = "", files: Sequence[Path] = (), *, control: str = "dcqcn", pfc: bool = True, ecn: str = "auto",
        recovery: str = Recovery.GO_BACK_N,
    ) -> FabricUnderTest:  # fmt: skip
        """Check what is asked for; UsageError with one line and the way out.

        `files` are config_db.json files, or one file of Python that has the topology `topo`, which may be empty.
        """
        again, chosen = recovery_named(recovery), rate_control(control)
        if files and files[0].suffix != ".py":
            if topo:
                raise UsageError(
                    f"{topo[:60]!r} is beside {files[0].name}, whose switches are the topology; leave it out"
                )
            for make in subject.loaded("fabric"):
                found: FabricUnderTest = make(files, chosen, again)
                return found
            raise UsageError(f"{files[0].name}: Xoff has no subject that reads such a file; name a topology")
        if len(files) > 1:
            raise UsageError(f"{files[0].name} and {len(files) - 1} more: a topology is in one file of Python")
        marks = offered_load.needs_marks(chosen) if ecn == "auto" else ecn == "on"
        wanted, shown = (f"{files[0]}{topo}", f"{files[0].name}{topo}") if files else (topo, topo)
        return _of_topology((wanted, shown), chosen, pfc, marks, again)

    def topo(self, ways: Ways | str | None = None, **options: Any) -> LosslessTopo:
        """Return the topology for a network; `pfc` and `marks` change what ports do, where no file says it."""
        chosen = self.ways if ways is None else ways_of(ways)
        return self._make(**({} if chosen is None else {"ways": chosen}), **options)

    def flow(self, source: str, target: str, **options: Any) -> Flow:
        """Return a flow of the priority that is lossless, with the DSCP that the sender's switch takes for it."""
        given = {"priority": ROCE} | options
        if isinstance(transport := given.get("transport"), Roce):
            given["transport"] = replace(transport, recovery=self.recovery)
        if source in self._dscp:
            given["dscp"] = self._dscp[source]
        return Flow(source, target, **given)

    def across(self) -> list[tuple[str, str]]:
        """Return a permutation: each host sends to the one half of all hosts further on."""
        many = len(self.hosts)
        return [(host, self.hosts[(place + many // 2) % many]) for place, host in enumerate(self.hosts)]

    def senders(self, many: int) -> list[str]:
        """Return so many senders of an incast to the last host; hosts have several flows if there are too few."""
        others = self.hosts[:-1]
        return [others[place % len(others)] for place in range(many)]


def _of_topology(
    names: tuple[str, str], control: str | Maker, pfc: bool, marks: bool, recovery: Recovery
) -> FabricUnderTest:
    wanted, shown = names
    words = wanted.split(",")
    named = [word.partition("=")[2] for word in words if word.startswith("ways=")]
    plain = ",".join(word for word in words if not word.startswith("ways="))
    built = offered_load.built(plain)
    line, hosts = line_of(built, plain), tuple(built.hosts())
    if not LEAST_HOSTS <= len(hosts) <= MOST_HOSTS:
        raise UsageError(f"{shown} has {len(hosts)} hosts; a benchmark takes {LEAST_HOSTS} to {MOST_HOSTS}")
    curve = offered_load.curve_of(line)

    def make(pfc: bool = pfc, marks: bool = marks, **options: Any) -> LosslessTopo:
        port, host = Port(ecn={ROCE: curve} if marks else {}), Port()
        if not pfc:
            port, host = port.without_pfc(), host.without_pfc()
        return offered_load.built(plain, **{"port": port, "hopts": {"port": host}} | options)

    ways = ways_of(named[0]) if named else None
    total = Size.from_bytes(built.buffer.total * built.buffer.cell)
    settings = (
        ("topology", shown),
        ("hosts", f"{len(hosts)}, with lines of {line}"),
        ("switches", str(len(built.switches()))),
        ("leaf oversubscription", oversubscription_shown(built)),
        ("buffer of a switch", f"{total}, cells of {built.buffer.cell} B"),
        ("PFC", f"priority {ROCE}" if pfc else "off"),
        ("ECN", curve_shown(curve if marks else None)),
        ("equal ways", str((ways or ways_of(built.ways)).by)),
        ("rate control", shown_control(control)),
        ("recovery", recovery_shown(recovery, ways or ways_of(built.ways))),
    )
    marked = curve if marks else None
    return FabricUnderTest(shown, hosts, line, control, ways, marked, settings, recovery, pfc, False, make)


def oversubscription_shown(topo: LosslessTopo) -> str:
    """Return the rate of a switch's hosts over that of its cables to other switches, of the switch where it is most."""
    down, up = dict.fromkeys(topo.switches(), 0), dict.fromkeys(topo.switches(), 0)
    for one, other, info in topo.links(withInfo=True):
        rate = getattr(info.get("cable"), "rate", Rate("0b/s")).bps
        for switch, far in ((one, other), (other, one)):
            if switch in down:
                (up if far in up else down)[switch] += rate
    ratios = [down[switch] / up[switch] for switch in down if down[switch] and up[switch]]
    return f"{max(ratios):g}:1" if ratios else "no leaf has a cable to another switch"


def recovery_shown(recovery: Recovery, ways: Ways) -> str:
    if recovery is Recovery.SELECTIVE_REPEAT or not ways.is_by_frame:
        return str(recovery)
    return f"{recovery}; ways by {str(ways.by)!r} change the order of packets, and what comes late is sent again"


def curve_shown(curve: EcnCurve | None) -> str:
    if curve is None:
        return "no marks"
    return f"{float(curve.pmax) * 100:g} % at most, from {curve.kmin} to {curve.kmax} of queue, all above"
