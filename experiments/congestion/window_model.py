"""Swift and HPCC in the lab beside a packet-level model in pure Python: the same rates, for 1, 2 and 8 flows?"""

from collections.abc import Callable
from typing import Any

from experiments.congestion._windows import Queue, simulate
from xoff import (
    Duration,
    Flow,
    Hpcc,
    HpccParameters,
    Incast,
    Line,
    Port,
    Rate,
    Roce,
    Run,
    Scale,
    Size,
    experiment,
    jain_index,
    roce_outcome,
)

LINE, SCALE = Rate("10Gb/s"), Scale(1000)
DELAY = Duration("2500ns")
LASTS, SETTLED, STEADY = Duration("2500us"), Duration("1ms"), Duration("1400us")
PART = Duration("100us")
MESSAGE = Size.from_bytes(64 * 1024)
"""A message of full packets alone, as in the model."""
WIRE_OCTETS, AREA_OCTETS = 1106, 84
"""A full packet on the wire, and what telemetry adds to it."""


def _hpcc(line: Line) -> Hpcc:
    return Hpcc(line, HpccParameters(flows=8))


@experiment(timeout="120s", free_cpu=True)
def window_model(run: Run) -> None:
    """1, 2 and 8 flows start together and share a port. The cables have 500 m, a round trip is 10 us.

    Once rates are found, the line's load is within 3 % of what the model computes. With 2 and 8 flows the rates in
    their order are within 15 %: windows are whole packets, of which one of 8 flows of HPCC has one or two. The longest
    queue, that of the start, is within 10 % and two packets. The model is `experiments/congestion/_windows.py`:
    windows, paced sources, a queue that stamps, acknowledgements, and nothing of the lab's network.
    """
    for name, rate_control, extra in (("Swift", "swift", 0), ("HPCC", _hpcc, AREA_OCTETS)):
        for number in (1, 2, 8):
            _compare(run, f"{name}, {number} flows", rate_control, extra, number)


def _compare(run: Run, case: str, rate_control: str | Callable[[Line], Any], extra: int, number: int) -> None:
    flows = [
        Flow(f"h{place}", "r", transport=Roce(message=MESSAGE), duration=LASTS, rate_control=rate_control)
        for place in range(1, number + 1)
    ]
    topology = Incast(n=number, total=20_000, xoff=2000, delay=DELAY, port=Port(telemetry=True))
    found = roce_outcome(topology, flows, case)
    run.claim(f"{case}: lost or sent twice", found.lost, equals=0)
    run.claim(f"{case}: every octet as it was sent", found.is_intact, equals=True)
    run.claim(f"{case}: pauses", found.pauses, equals=0)

    line, wire = Line(SCALE.lab(LINE), SCALE), WIRE_OCTETS + extra
    delay_ns = SCALE.lab(DELAY).ns
    model = simulate(
        Queue(line, rate_control, delay_ns, 3 * delay_ns, wire, wire - 24),
        [report.first_lab_ns - found.first_lab_ns for report in found.reports],
        SCALE.lab(LASTS).ns,
        SCALE.lab(PART).ns,
    )
    first, many = SETTLED // PART, STEADY // PART
    wanted = [sum(flow.windows[first : first + many]) * wire * 8 * 10**12 // STEADY.ps for flow in model.flows]
    rates = [rate.bps for rate in found.rates(SETTLED, STEADY)]
    run.figure(f"{case}, in the lab: rate of each", rates, "b/s")
    run.figure(f"{case}, in the model: rate of each", wanted, "b/s")
    share = round(sum(rates) * 100 / sum(wanted), 1)
    run.claim(f"{case}: load, in % of the model's", share, at_least=97.0, at_most=103.0)
    each = [round(one * 100 / other, 1) for one, other in zip(sorted(rates), sorted(wanted), strict=True)]
    apart = 3.0 if number == 1 else 15.0
    run.claim(f"{case}: rates in their order, in % of the model's: the least", min(each), at_least=100 - apart)
    run.claim(f"{case}: rates in their order, in % of the model's: the most", max(each), at_most=100 + apart)
    indices = [jain_index([Rate.from_bps(rate) for rate in some]) for some in (rates, wanted)]
    run.claim(f"{case}: Jain's index, lab and model", min(indices), at_least=0.97)
    longest = Size.from_bytes(model.longest_queue)
    run.figure(f"{case}: longest queue in the lab and in the model", [found.longest_queue, longest])
    apart_octets = abs(found.longest_queue.bytes - longest.bytes)
    run.claim(f"{case}: longest queues apart", apart_octets, at_most=longest.bytes // 10 + 2 * wire)
