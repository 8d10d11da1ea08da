"""WRED: the share of packets that are marked at known lengths of a queue."""

from fractions import Fraction
from math import sqrt
from typing import Any

from experiments.conformance._case import FRAME, Bench, CaseError, Control, case, without_ecn
from testbed.switch.ecn.red import red_parameters
from xoff import Duration, EcnCurve, Flows

PARTS = (Fraction(1, 2), Fraction(1, 4), Fraction(4, 5))
"""Lengths, as parts of the way from Kmin to Kmax; the matrix shows the first."""
MARKED = "marked half way from Kmin to Kmax, in percent"
_FRAMES, _BELOW = 4000, 500


@case(ports=3, control=Control("no ECN", without_ecn, fails=[MARKED]), timeout="120s")
def wred_probability(bench: Bench) -> None:
    """A queue is held at known lengths: marks follow the profile's curve there, and none are below Kmin."""
    priority = bench.lossless[0]
    settings = bench.given.ports[bench.ports[0]].settings
    curve = settings.ecn.get(settings.priorities.dot1p_to_local[priority])
    if curve is None:
        raise CaseError(f"the queue of priority {priority} has no WRED_PROFILE with ECN")
    bench.figure("Kmin, Kmax and Pmax", f"{curve.kmin}, {curve.kmax}, {float(curve.pmax):.0%}")
    lengths = [curve.kmin.bytes + int((curve.kmax.bytes - curve.kmin.bytes) * part) for part in PARTS]
    below = curve.kmin.bytes // 2
    reports, longest = _held(bench, priority, [below, *sorted(lengths)])
    for part, length in zip(PARTS, lengths, strict=True):
        name = MARKED if part == PARTS[0] else f"marked at {part} of the way, in percent"
        _claim(bench, name, curve, reports[length])
    # Where PFC stops senders earlier, frames wait in the hosts, and nothing is measured here.
    bench.claim("longest queue, in bytes", longest, at_least=max(lengths) * 98 // 100)
    bench.claim("marked below Kmin", reports[below].marked, equals=0)
    bench.claim("frames lost", sum(report.lost for report in reports.values()), equals=0)


def _claim(bench: Bench, name: str, curve: EcnCurve, report: Any) -> None:
    """Claim that marks at the length that these frames found are within four standard deviations of the curve."""
    waiting = bench.measured(report.worst_delay_lab_ns) // bench.frame_time()
    bench.figure(f"{name}: octets waiting", waiting * FRAME.bytes)
    bench.figure(f"{name}: the curve's", round(float(curve.fraction(waiting * FRAME.bytes)) * 100, 3))
    share = float(red_parameters(curve, plug_below=True).expected_fraction(waiting * FRAME.bytes))
    # Linux draws the distance between two marks evenly from 1 to `longest`.
    longest = 2 / share - 1 if share else 0.0
    spread = 4 * sqrt(report.sent * share**3 * max(0.0, longest**2 - 1) / 12) / report.sent if share else 0.0
    bench.claim(
        name, round(report.marked / report.sent * 100, 3),
        at_least=round((share - spread) * 100, 3), at_most=round((share + spread) * 100, 3),
    )  # fmt: skip


def _held(bench: Bench, priority: int, lengths: list[int]) -> tuple[dict[int, Any], int]:
    """Return the reports of the frames that found the queue at each length, shortest first, and the longest queue.

    Frames of the host with the shorter cable start so much later that they arrive as planned.
    Two hosts at line rate lengthen the queue to a third by a frame in each frame time; one alone keeps its length.
    """
    time, waiting = bench.frame_time(), 0
    delays = {host: bench.given.ports[bench.port_of(host)].length.propagation() for host in ("h1", "h2")}
    ahead = {host: max(delays.values()) - delay for host, delay in delays.items()}
    start = Duration("0s")
    flows, places = [], {}
    for length in lengths:
        frames = length // FRAME.bytes - waiting
        flows += [
            bench.flow(host, "h3", priority, rate=bench.line, count=frames, start=start + later)
            for host, later in ahead.items()
        ]
        start += time * frames
        places[length], waiting = len(flows), waiting + frames
        many = _BELOW if length == lengths[0] else _FRAMES
        flows.append(bench.flow("h2", "h3", priority, rate=bench.line, count=many, start=start + ahead["h2"]))
        start += time * many
    with bench.network(hosts=3) as net, Flows(flows, settle=bench.paced("2ms")) as running:
        running.wait()
        longest = max(net.fabric.sent(bench.port(net, "h3")).most_queued_bytes)
    return {length: running.reports[place] for length, place in places.items()}, longest
