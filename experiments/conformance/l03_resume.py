"""L03: a pause that XON ends before its quanta do."""

import time

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._paused_flow import paused_flow
from xoff import LONGEST_PAUSE, Duration

_PAUSED = Duration("20us")
"""The time until XON at 100 Gb/s, beside two round trips; 65535 quanta are 335 us there."""
_PART = "resume latency, % of what was left of the pause"


@case(control=Control("no XON", fails=[_PART]))
def l03_resume(bench: Bench) -> None:
    """A pause that quanta of 0 end: how long after them the next frame arrives; in the control they are not sent."""
    with paused_flow(bench) as flow:
        trip, whole = flow.round_trip, bench.line.time_for_quanta(LONGEST_PAUSE)
        paused = min(bench.paced(_PAUSED) + trip * 2, whole // 2)
        with bench.run.measuring():
            flow.arrivals.wait(bench.paced("100us") + flow.begun)
            off_ns = time.monotonic_ns()
            flow.wire.send(flow.xoff())
            on_ns = off_ns + bench.lab_ns(paused)
            if not bench.is_control:
                flow.wire.send_at(flow.xon(), on_ns)
            flow.arrivals.wait(bench.paced("500us") + trip)
        arrived = flow.arrivals.taken()
    left, trip_ns = whole - paused, bench.lab_ns(trip)
    # What arrives in the first round trip after a PFC frame was on its way already.
    resumed_ns = next(t_ns for t_ns in arrived if t_ns >= on_ns + trip_ns)
    bench.claim("resume latency", bench.measured(resumed_ns - on_ns), at_most=Duration("1ms"))
    beyond = bench.measured(resumed_ns - on_ns - trip_ns)
    bench.claim(_PART, round(float(beyond / left * 100), 2), at_most=50)
    resumed = [t_ns for t_ns in arrived if t_ns >= resumed_ns]
    share = bench.frame_time() * (len(resumed) - 1) / bench.measured(resumed[-1] - resumed[0])
    bench.claim("share of the line from then on, in percent", round(float(share * 100), 1), at_least=98, at_most=102)
    before = [t_ns for t_ns in arrived if off_ns + trip_ns + bench.lab_ns(paused) // 2 <= t_ns < on_ns + trip_ns]
    bench.claim("frames that arrived in the second half of the pause", len(before), equals=0)
