"""Category 2, congestion: marks by the length of a queue, PFC under incast, DCQCN, a storm and deadlocks."""

import time
from collections.abc import Sequence

from experiments._benchmark.load import lossless, offer, pauses, row, share
from experiments.congestion._held import FRAME, Held, Marking
from testbed.measures.fabric_under_test import FabricUnderTest
from testbed.workload.statistics import jain
from xoff import (
    LONGEST_PAUSE,
    ROCE_PRIORITY,
    Duration,
    Ecn,
    Flows,
    Mac,
    PfcFrame,
    Rate,
    RawPort,
    Roce,
    RoceReport,
    Run,
    Size,
    network,
    progress,
)

_SENDERS, _FEW_SENDERS = (2, 4, 8, 16, 32, 64), (8, 64)
_PARTS = (25, 50, 75)
_PACKETS = 12_000
"""The packets that a run of DCQCN may have, which decides how long it is."""
_WINDOW = Duration("500us")
_NEAR = 10
"""The percentage of the fair share within which a rate has converged."""
_EVEN = 0.95
_RECEIVER = Mac.parse("02:00:00:00:00:01")
_STORM, _SPREAD, _REPEAT = Duration("1ms"), Duration("300us"), Duration("5us")
_CELL = 208


def ecn(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """The port's curve on a queue that is held at known lengths, in a switch without PFC."""
    curve = fabric.curve
    if curve is None:
        run.figure("the port to the last host: not applicable", "it does not mark")
        return
    low, high, octets = curve.kmin.bytes, curve.kmax.bytes, FRAME.bytes
    lengths = [("half of the lower threshold", low // 2 // octets)]
    lengths += [(f"{part} % between both", (low + (high - low) * part // 100) // octets) for part in _PARTS]
    lengths += [("the upper threshold", -(-high // octets) + 1)]
    frames = 500 if quick else 5000
    with network(Marking(curve, total=(lengths[-1][1] + 200) * -(-octets // _CELL))) as net:
        held, waiting = Held(net), 0
        for name, wanted in lengths:
            held.grow(f"to {name}", wanted - waiting)
            held.hold(name, frames)
            waiting = max(waiting, wanted)
        seen = held.run()
    worst = 0.0
    for name, waiting in lengths:
        expected = round(100 * float(curve.fraction(waiting * octets)), 2)
        marked = round(100 * seen[name].marked / seen[name].sent, 2)
        worst = max(worst, abs(marked - expected))
        row(
            run, name, queue=FRAME * waiting, configured_percent=expected, marked_percent=marked,
            deviation_in_points=round(marked - expected, 2),
        )  # fmt: skip
    run.claim(f"{lengths[0][0]}: packets marked", seen[lengths[0][0]].marked, equals=0)
    run.claim(f"{lengths[-1][0]}: packets marked of {frames}", seen[lengths[-1][0]].marked, equals=frames)
    run.figure("all lengths: largest deviation in points", round(worst, 2))


def incast(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """Senders at line rate to the last host at one moment, with a fixed rate and with the fabric's rate control."""
    target, whole = fabric.hosts[-1], Size("4MB") if quick else Size("16MB")
    for control in dict.fromkeys(("fixed", fabric.control)):
        for many in _SENDERS if control == "fixed" or not quick else _FEW_SENDERS:
            size = Size.from_bytes(whole.bytes // many)
            name = f"N = {many}, {control}"
            flows = [
                fabric.flow(one, target, transport=Roce(), size=size, rate_control=control)
                for one in fabric.senders(many)
            ]
            load = offer(fabric, flows, name)
            rates = [one.size.bits / max(1, one.completion.ps) for one in load.reports]
            row(
                run, name, senders=min(many, len(fabric.hosts) - 1), throughput=load.goodput,
                of_the_line_percent=share(load.goodput, fabric.line), PAUSE_frames=load.pauses.frames,
                PAUSE_frames_per_second=load.per_second(load.pauses.frames),
                longest_pause_of_a_port=load.pauses.longest, deepest_queue=load.deepest, JFI=round(jain(rates), 3),
                marked_percent=load.marked, sent_again=load.sent_again,
            )  # fmt: skip
            lossless(run, fabric, name, load)


def dcqcn(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """M flows to one host, and as many more from a moment on: when has each of them its fair share?"""
    packet = Size("1106B")
    half = min(Duration("8ms"), fabric.line.time_for(packet * (_PACKETS if quick else 4 * _PACKETS)) * 4 // 5)
    begin = half // 4
    for many in (4,) if quick else (4, 16, 64):
        for control in ("dcqcn", "dcqcn-mlx"):
            name = f"M = {many}, {control}"
            flows = [
                fabric.flow(
                    one, fabric.hosts[-1], transport=Roce(), rate_control=control,
                    start=begin if place >= many else Duration("0s"),
                    duration=half if place >= many else half + begin,
                )
                for place, one in enumerate(fabric.senders(2 * many))
            ]  # fmt: skip
            load = offer(fabric, flows, name, marks=True)
            rates = _rates(load.reports, load.reports[many].begin_lab_ns, half)
            near = next((place for place, all_ in enumerate(rates) if _is_near(all_)), None)
            even = next((place for place, all_ in enumerate(rates) if jain([one.bps for one in all_]) >= _EVEN), None)
            last = rates[-1] if rates else []
            total = sum(one.bps for one in last)
            row(
                run, name, within_10_percent_after=_after(near, half), **{"JFI of 0.95 after": _after(even, half)},
                JFI_at_the_end=round(jain([one.bps for one in last]), 3),
                of_the_line_percent=round(100 * total / fabric.line.bps, 2),
                marked_percent=load.marked, CNPs=sum(one.cnps_received for one in load.reports),
                PAUSE_frames=load.pauses.frames, sent_again=load.sent_again, time_observed=half,
            )  # fmt: skip
            lossless(run, fabric, name, load)


def _rates(reports: Sequence[RoceReport], begin_ns: int, lasts: Duration) -> list[list[Rate]]:
    """Return the rates of all flows in a window that moves on by a fifth of its length."""
    step, scale = _WINDOW // 5, reports[0].scale
    moments = range((lasts - _WINDOW) // step + 1)
    begins = [begin_ns + scale.lab(step * number).ns for number in moments]
    window_ns = scale.lab(_WINDOW).ns
    return [[one.goodput_between(since_ns, since_ns + window_ns) for one in reports] for since_ns in begins]


def _is_near(rates: list[Rate]) -> bool:
    fair = sum(rate.bps for rate in rates) / len(rates)
    return fair > 0 and all(abs(rate.bps - fair) * 100 <= _NEAR * fair for rate in rates)


def _after(place: int | None, lasts: Duration) -> Duration | str:
    """Return the end of a window, or that there was none."""
    return f"not in {lasts}" if place is None else _WINDOW // 5 * place + _WINDOW


def storm(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """A host that pauses its switch without end, and all hosts at line rate in a permutation, with a search for
    deadlocks."""
    _storm(run, fabric)
    lasts = Duration("500us") if quick else Duration("10ms")
    lasts = min(lasts, fabric.line.time_for(Size("1538B") * (400 if quick else 8000)))
    with network(fabric.topo(deadlock_poll=Duration("10us")), case="permutation at line rate") as net:
        seen = progress(
            [fabric.flow(one, other, ecn=Ecn.ECT_0) for one, other in fabric.across()], lasts, Duration("2ms")
        )
        found, dropped, pfc = net.fabric.deadlocks(), net.fabric.dropped(), pauses(net)
    row(
        run, "permutation at line rate", deadlocks_found=len(found),
        received_in_the_second_half=seen.at_the_end - seen.halfway,
        PAUSE_frames=pfc.frames, longest_pause_of_a_port=pfc.longest, time_observed=lasts,
    )  # fmt: skip
    run.claim("permutation at line rate: deadlocks", len(found), equals=0)
    if fabric.pfc:
        run.claim("permutation at line rate: frames dropped", dropped, equals=0)


def _storm(run: Run, fabric: FabricUnderTest) -> None:
    hosts, rate = fabric.hosts, fabric.line * 3 // 10
    flows = {
        "storm, flow to its host": fabric.flow(hosts[0], hosts[-1], rate=rate, ecn=Ecn.ECT_0),
        "storm, same sender to another host": fabric.flow(hosts[0], hosts[1], rate=rate, ecn=Ecn.ECT_0),
    }
    if len(hosts) > 3:
        flows["storm, between two others"] = fabric.flow(hosts[1], hosts[2], rate=rate, ecn=Ecn.ECT_0)
    with network(fabric.topo(), case="storm") as net, RawPort(net[hosts[-1]], f"{hosts[-1]}-eth0") as wire:
        with Flows([*flows.values()]) as running:
            net.sleep("200us")
            begin_ns = time.monotonic_ns()
            quanta = min(LONGEST_PAUSE, fabric.line.bits_in(_REPEAT * 4) // 512)  # four repetitions may be late
            xoff = PfcFrame.xoff(_RECEIVER, [ROCE_PRIORITY], quanta).encode()
            wire.repeat(xoff, net.lab_ns(_REPEAT), _STORM // _REPEAT)
            end_ns = time.monotonic_ns()
            net.sleep(_STORM // 2)
        reports = dict(zip(flows, running.reports, strict=True))
        stormed = begin_ns + net.lab_ns(_SPREAD), begin_ns + net.lab_ns(_STORM)
        over = end_ns + net.lab_ns("50us"), end_ns + net.lab_ns(_STORM // 2 - Duration("50us"))
        storms = sum(one.kind == "storm_detected" for one in net.fabric.events())
    for name, report in reports.items():
        during, after = report.goodput_between(*stormed), report.goodput_between(*over)
        row(run, name, of_its_rate_during_the_storm_percent=share(during, rate), afterwards_percent=share(after, rate))
        if fabric.pfc:
            run.claim(f"{name}: lost", report.lost, equals=0)
    row(run, "storm", storms_found_by_watchdogs=storms)
