"""A training job of execution traces over a fabric: job completion time, and what of it communication takes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.errors import UsageError
from testbed.experiment.run import Run
from testbed.measures.background import Background
from testbed.measures.fabric_under_test import FabricUnderTest
from testbed.net.build.network import Network, network
from testbed.net.fabric.port import ROCE
from testbed.net.traffic import Flow, Flows
from testbed.net.traffic.roce import Roce, RoceReport
from testbed.net.traffic.workload import flows
from testbed.units import Duration
from testbed.workload.chakra import TraceNode, read_trace
from testbed.workload.training_job import TrainingJob, Wave
from testbed.workload.transfers import WorkloadError

_MOST_WAVES = 200
_LOOK = "20us"
"""The interval at which a wave among other flows is looked at: these are stopped when it has arrived."""


@dataclass(frozen=True)
class TrainingLoad:
    """A job and the fabric that carries it; all of it has been checked."""

    fabric: FabricUnderTest
    traces: tuple[tuple[TraceNode, ...], ...]
    shrink: int
    stragglers: Mapping[int, float]
    beside: Background | None = None
    """Other flows, between all hosts of the fabric; None: the job has the network alone."""

    @classmethod
    def of(
        cls, fabric: FabricUnderTest, files: Sequence[tuple[str, bytes]], *, ranks: int, shrink: int, stragglers: str,
        beside: Background | None = None,
    ) -> TrainingLoad:  # fmt: skip
        """Check names and contents of traces and return the load.

        One file is the trace of all `ranks`, of as many as the fabric has hosts if `ranks` is 0.
        """
        if beside is not None:
            beside.pattern.require(len(fabric.hosts), fabric.name)
        traces = [read_trace(content, name) for name, content in files]
        if len(traces) == 1:
            traces *= ranks or len(fabric.hosts)
        elif ranks and ranks != len(traces):
            raise WorkloadError(f"--hosts {ranks}: there are {len(traces)} traces, one for each rank; leave it out")
        load = cls(fabric, tuple(traces), shrink, read_stragglers(stragglers), beside)
        load.job()
        return load

    def job(self) -> TrainingJob:
        return TrainingJob(self.traces, self.fabric.hosts, shrink=self.shrink, stragglers=self.stragglers)


def read_stragglers(text: str) -> dict[int, float]:
    """Return by how much each straggler computes longer, from text such as 3=1.5,7=2."""
    factors: dict[int, float] = {}
    for word in filter(None, text.split(",")):
        rank, equals, factor = word.partition("=")
        try:
            factors[int(rank)] = float(factor)
        except ValueError:
            equals = ""
        if not equals or not 0 < factors[int(rank)] <= 1000:
            raise UsageError(f"straggler {word[:40]}: RANK=FACTOR is expected, as in 3=1.5 for half as long again")
    return factors


@dataclass(frozen=True)
class Carried:
    """A job that the network has carried."""

    job: TrainingJob
    waves: tuple[tuple[str, Duration], ...]
    """The operations of each wave of communication, and when the last of them was complete."""
    octets: int
    sent_again: int
    """The packets that were sent again."""
    intact: bool
    dropped: int
    others: int
    """The flows beside the job that had begun when a wave had arrived, those before it included."""
    paused: int
    """The number of times that switches paused a neighbour."""

    @property
    def slowest(self) -> Duration:
        """The computing of the slowest rank, which is the job's time without any communication."""
        return max(self.job.computing.values())


def carried(load: TrainingLoad, case: str = "", dice: random.Random | None = None) -> Carried:
    """Play the job in a network of its own; `dice` draws the flows beside it."""
    job, intact, data, again, others = load.job(), True, 0, 0, 0
    waves: list[tuple[str, Duration]] = []
    with network(load.fabric.topo(), case=case) as net:
        while (wave := job.wave()) is not None:
            if len(waves) == _MOST_WAVES:
                raise WorkloadError(f"the job has more than {_MOST_WAVES} waves of communication; cut the traces")
            if load.beside is None or dice is None:
                arrivals, reports = _carried(load.fabric, wave)
            else:
                arrivals, reports, beside = _carried_beside(net, load.fabric, wave, load.beside, dice.getrandbits(64))
                others += beside
            job.ended(wave, arrivals)
            intact = intact and all(one.intact for one in reports)
            data += sum(one.size.bytes for one in reports)
            again += sum(one.retransmitted for one in reports)
            waves.append((", ".join(dict.fromkeys(one.name for one in wave.operations)), max(arrivals)))
        dropped = net.fabric.dropped()
        ports = [port.name for port in net.fabric.ports.values() if port.node in net.switches]
        paused = sum(net.fabric.group(name, ROCE).xoffs for name in ports)
    return Carried(job, tuple(waves), data, again, intact, dropped, others, paused)


def perform(run: Run, load: TrainingLoad) -> None:
    """Play the job, and report and claim what came of it."""
    done = carried(load, dice=run.rng)
    job, slowest = done.job, done.slowest
    for count, (names, completion) in enumerate(done.waves, 1):
        run.figure(f"wave {count}, {names[:60]}: completion", completion)
    run.figure("ranks", job.ranks)
    run.figure("data sent, in octets", done.octets)
    run.figure("job completion time", job.completion)
    run.figure("computing of the slowest rank", slowest)
    run.figure("communication that computing does not hide", Duration.from_ps(job.completion.ps - slowest.ps))
    run.figure("part of the time that is not hidden", round(100 * (1 - slowest.ps / job.completion.ps), 2), "%")
    if load.beside is not None:
        run.figure("flows at random that began beside the job", done.others)
    run.figure("times a switch paused a neighbour", done.paused)
    run.figure("packets sent again", done.sent_again)
    run.claim("every octet as it was sent", done.intact, equals=True)
    run.claim("job completion time, at least the computing", job.completion, at_least=slowest)
    if load.fabric.pfc:
        run.claim("frames dropped by switches", done.dropped, equals=0)
    else:
        run.figure("frames dropped by switches", done.dropped)


def _carried(fabric: FabricUnderTest, wave: Wave) -> tuple[list[Duration], list[RoceReport]]:
    """Have the network carry a wave, and return when each transfer was complete, counted from the wave's begin."""
    with Flows(_flows_of(fabric, wave)) as running:
        running.wait()
    return _outcome(wave, running)


def _carried_beside(
    net: Network, fabric: FabricUnderTest, wave: Wave, background: Background, seed: int
) -> tuple[list[Duration], list[RoceReport], int]:
    """Have the network carry a wave among other flows, and return how many of these had begun when it had arrived.

    They arrive for as long as the wave should take. If it takes longer, all of it is done again with twice the time.
    """
    lead, lasts = background.lead(fabric.line), background.lasts(wave.transfers, fabric.line)
    job = _flows_of(fabric, wave, lead)
    expected = [flow.transport.frames(flow) or 0 for flow in job]
    while True:
        others = background.transfers(fabric.hosts, fabric.line, lead + lasts, seed)
        beside = [
            fabric.flow(
                one.source, one.target, transport=Roce(), size=one.size, start=one.start, rate_control=fabric.control
            )
            for one in others
        ]  # fmt: skip
        with Flows([*job, *beside]) as running:
            for _ in range((lead + lasts) // Duration(_LOOK)):
                net.sleep(_LOOK)
                if all(running.received_by(place) >= frames for place, frames in enumerate(expected)):
                    break
            else:
                running.wait()
        arrivals, reports = _outcome(wave, running)
        if (until := max(arrivals)) <= lasts or any(one.failure for one in reports):
            return arrivals, reports, sum(one.start < lead + until for one in others)
        lasts = lasts * 2


def _flows_of(fabric: FabricUnderTest, wave: Wave, lead: Duration = Duration("0s")) -> list[Flow]:
    return [
        fabric.flow(
            str(one.source), str(one.target), transport=one.transport, size=one.size, start=one.start + lead,
            rate_control=fabric.control,
        )
        for one in flows(wave.transfers)
    ]  # fmt: skip


def _outcome(wave: Wave, running: Flows) -> tuple[list[Duration], list[RoceReport]]:
    """Return when each transfer of a wave was complete, counted from the wave's begin, and the reports of them."""
    reports = running.reports_of(RoceReport)[: len(wave.transfers)]
    arrivals = [
        Duration.from_ps(transfer.start.ps + report.completion.ps)
        for transfer, report in zip(wave.transfers, reports, strict=True)
    ]
    return arrivals, reports
