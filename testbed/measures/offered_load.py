"""A load of RoCE flows over a topology, as `xoff workload` offers it: its settings, and what is measured of it.

Cables that are pulled while flows run: what `--pull PORT@TIME` and `PORT@TIME+TIME` ask for, and doing it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from testbed.errors import UsageError, nearest
from testbed.experiment.run import Run
from testbed.measures.own_files import rate_control
from testbed.measures.random_flows import FRAMING, flow_completions, line_of
from testbed.net.build.network import Network, network
from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.port import ROCE, Port
from testbed.net.fabric.routes import Graph
from testbed.net.shell import topologies
from testbed.net.traffic import Flow, Flows
from testbed.net.traffic.roce import Roce
from testbed.roce import rates
from testbed.roce.nic import Recovery, recovery_named
from testbed.roce.rates import Maker
from testbed.switch.ecn.curve import EcnCurve
from testbed.units import Duration, Rate, Scale, Size
from testbed.workload.arrivals import Pattern, arrivals, read_load
from testbed.workload.sizes import Distribution, distribution, distributions, read_distribution
from testbed.workload.statistics import percentile
from testbed.workload.transfers import WorkloadError


@dataclass(frozen=True)
class Pull:
    """A cable that is pulled out at a port, counted from the begin of the flows."""

    port: str
    at: Duration
    lasts: Duration | None
    """The time until it is plugged in again; None: never."""

    @classmethod
    def parse(cls, text: str) -> Pull:
        """Return the pull that a word such as leaf1-eth2@100us or leaf1-eth2@100us+50us stands for."""
        port, at, times = text.rpartition("@")
        begin, plus, lasts = times.partition("+")
        try:
            found = cls(port, Duration(begin), Duration(lasts) if plus else None)
        except UsageError:
            at = ""
        if not at or not port:
            raise UsageError(f"--pull {text[:60]}: PORT@TIME is expected, or PORT@TIME+TIME to have it back, as in "
                             "leaf1-eth2@100us+50us")  # fmt: skip
        return found


def read_pulls(text: str, ports: Iterable[str]) -> tuple[Pull, ...]:
    """Return the pulls in a list with commas; UsageError for a port that the topology has not."""
    known = list(ports)
    found = tuple(Pull.parse(word) for word in text.split(",") if word)
    for one in found:
        if one.port not in known:
            raise UsageError(f"--pull: there is no port {one.port[:40]}; {nearest(one.port, known)}")
    return found


def pull_cables(net: Network, pulls: Sequence[Pull], begin_lab_ns: int) -> None:
    """Pull cables, and plug them in again, each at its moment after the begin of the flows."""
    moments = [(one.at.ps, net.fabric.cabling.pull, one.port) for one in pulls]
    moments += [(one.at.ps + one.lasts.ps, net.fabric.cabling.plug, one.port) for one in pulls if one.lasts is not None]
    for ps, act, port in sorted(moments, key=lambda moment: moment[0]):
        wait_ns = begin_lab_ns + net.lab_ns(Duration.from_ps(ps)) - time.monotonic_ns()
        time.sleep(max(0, wait_ns) / 1e9)
        act(port)


MOST_FLOWS = 5000
FLOWS = 100
"""The flows of a run that names neither their number nor a time."""
_CELLS = 12_000
"""The cells of 208 octets of each switch's buffer: 2.5 MB."""
_DELAY = "1us"
"""The delay of each cable, if the topology names none."""
_MARKS = ("40kB", "160kB", "20%")
"""The curve of ECN for a line of 10 Gb/s; the thresholds grow with the line."""
_PERCENTS = ((50, "median"), (95, "95th percentile"), (99, "99th percentile"))


@dataclass(frozen=True)
class OfferedLoad:
    """The settings of a workload, all of which have been checked."""

    topology: str
    sizes: Distribution
    load: float
    control: str | Maker
    pattern: Pattern
    flows: int
    lasts: Duration | None
    pfc: bool
    marks: bool
    recovery: str
    pulls: tuple[Pull, ...]
    hosts: tuple[str, ...]
    line: Rate
    _topo: LosslessTopo = field(repr=False)

    @classmethod
    def of(
        cls,
        *,
        topo: str,
        sizes: str,
        table: str | None,
        load: str,
        control: str,
        pattern: str,
        flows: int,
        lasts: Duration,
        hosts: int,
        pfc: bool,
        ecn: str,
        recovery: str = Recovery.GO_BACK_N,
        pulls: str = "",
    ) -> OfferedLoad:
        """Check settings and return them; UsageError with one line and the way out.

        `table` is the text of the file that `sizes` names, or None if `sizes` is the name of a published distribution.
        With 0 for `hosts` all hosts take part, and without `lasts` there are so many `flows`.
        """
        found = distribution(sizes) if table is None else read_distribution(table, sizes)
        part, who = read_load(load), Pattern.parse(pattern)
        chosen = rate_control(control)
        makes_marks = needs_marks(chosen) if ecn == "auto" else ecn == "on"
        plain = built(topo)
        line, names = line_of(plain, topo), plain.hosts()
        if hosts > len(names):
            raise WorkloadError(f"--hosts {hosts}: {topo} has {len(names)}; take fewer, or a larger topology")
        names = names[:hosts] if hosts else names
        who.require(len(names), f"{topo} with --hosts {hosts}" if hosts else topo)
        port = Port(ecn={ROCE: curve_of(line)} if makes_marks else {})
        host = Port()
        if not pfc:
            port, host = port.without_pfc(), host.without_pfc()
        made = built(topo, port=port, hopts={"port": host})
        time = lasts if lasts.ps else None
        if time is None and not 0 < flows <= MOST_FLOWS:
            raise WorkloadError(f"--flows {flows}: a run has 1 to {MOST_FLOWS} flows")
        again = recovery_named(recovery)
        ports = [port for ways in Graph.of_topo(plain).neighbours.values() for port, _ in ways]
        return cls(
            topo, found, part, chosen, who, flows, time, pfc, makes_marks, again, read_pulls(pulls, ports),
            tuple(names), line, made,
        )  # fmt: skip

    def transfers(self, dice: Any) -> list[Any]:
        """Return the flows as transfers; UsageError if there are none, or too many."""
        flows = arrivals(
            self.hosts, self.pattern, self.sizes, load=self.load, line=self.line, framing=FRAMING, dice=dice,
            count=0 if self.lasts else self.flows, lasts=self.lasts,
        )  # fmt: skip
        if not flows:
            raise WorkloadError(
                f"no flow arrives in {self.lasts}: the mean size is {self.sizes.mean}; a longer --duration, a higher "
                "--load or another --seed has some"
            )
        if len(flows) > MOST_FLOWS:
            raise WorkloadError(f"{len(flows)} flows arrive in {self.lasts}; a run has up to {MOST_FLOWS}: shorten it")
        return flows


def perform(run: Run, wanted: OfferedLoad) -> None:
    """Run the workload in a network of its own, and report and claim what came of it."""
    transfers = wanted.transfers(run.rng)
    transport = Roce(recovery=wanted.recovery)
    flows = [
        Flow(one.source, one.target, size=one.size, start=one.start, transport=transport, rate_control=wanted.control)
        for one in transfers
    ]
    with network(wanted._topo) as net:
        with Flows(flows) as running:
            pull_cables(net, wanted.pulls, running.begin_lab_ns)
            running.wait()
        dropped = net.fabric.dropped()
        ports = [port for port in net.fabric.ports.values() if port.node in net.switches]
        xoffs = sum(net.fabric.group(port.name, ROCE).xoffs for port in ports)
        reports = running.reports
    rows = running.log
    complete = [row for row in rows if row["completion_ns"] is not None]
    slowdowns = [one.slowdown for one in flow_completions(running)]
    span = max((one.start for one in transfers), default=Duration("0s"))
    run.figure("flows", len(rows))
    run.figure("data of all flows", Size.from_bytes(sum(one.size.bytes for one in transfers)))
    run.figure(
        "data of all flows, with headers, preamble and gap",
        Size.from_bytes(sum(FRAMING.on_wire(one.size).bytes for one in transfers)),
    )
    run.figure("time in which flows begin", span)
    run.claim("flows that are complete", len(complete), equals=len(rows))
    run.claim("every octet as it was sent", all(report.intact for report in reports), equals=True)  # type: ignore[attr-defined]
    if wanted.pfc:
        run.claim("frames dropped by switches", dropped, equals=0)
    else:
        run.figure("frames dropped by switches", dropped)
    if slowdowns:
        run.claim("smallest slowdown", round(min(slowdowns), 4), at_least=1)
    _percentiles(run, "completion time", [row["completion_ns"] for row in complete], "ns")
    _percentiles(run, "slowdown", slowdowns, "")
    run.figure("times a switch paused a neighbour", xoffs)
    run.figure("packets marked by ECN", sum(row["marked"] or 0 for row in rows))
    run.figure("CNPs", sum(row["cnps"] or 0 for row in rows))
    run.figure("packets sent again", sum(row["retransmitted"] or 0 for row in rows))
    run.figure("packets that came out of order", sum(row["out_of_order"] for row in rows))


def _percentiles(run: Run, name: str, values: Sequence[float], unit: str) -> None:
    for percent, word in _PERCENTS if values else ():
        run.figure(f"{name}, {word}", round(percentile(values, percent), 3), unit)


def known_sizes() -> str:
    """Return the names of the published distributions, for messages."""
    return ", ".join(distributions())


def needs_marks(control: str | Maker) -> bool:
    """Return True if a rate control goes by ECN marks."""
    line = rates.Line(Rate("10Mb/s"), Scale(1000))
    return bool(rates.control(control, line).needs_marks)


def curve_of(line: Rate) -> EcnCurve:
    """Return the marks of switches for a line: those for 10 Gb/s in proportion."""
    kmin, kmax, most = _MARKS
    times = max(1, round(line.bps / 10**10 * 100)) / 100
    low, high = (Size.from_bytes(round(Size(one).bytes * times)) for one in (kmin, kmax))
    return EcnCurve(low, high, most)


def built(topo: str, **options: Any) -> LosslessTopo:
    """Return the topology of this name and arguments, with the buffer and the delay of cables that workloads have."""
    delayed = {} if any(f"{word}=" in topo for word in ("delay", "length", "cable")) else {"delay": _DELAY}
    kind = topologies.find(topo.partition(",")[0])
    if not (isinstance(kind, type) and issubclass(kind, LosslessTopo)):
        raise UsageError(f"topology {topo} has no lossless ports, which RoCE flows take; fat-tree,4 has some")
    defaults: dict[str, Any] = {"total": _CELLS, **delayed, **options}
    made: LosslessTopo = topologies.build(topo, **defaults)
    return made
