"""DCQCN over a long cable: a notification that comes late lets the queue grow for as long."""

from typing import Annotated

from xoff import (
    Between,
    Cable,
    Duration,
    EcnCurve,
    Flow,
    Length,
    LosslessTopo,
    Rate,
    RoceOutcome,
    Run,
    experiment,
    jain_index,
    marking,
    roce_outcome,
)

LINE = Rate("10Gb/s")
LASTS, SETTLED, STEADY = Duration("8ms"), Duration("5ms"), Duration("2500us")


@experiment(timeout="60s")
def long_haul(run: Run, length: Annotated[Length, Between("20km", "75km")] = Length("50km")) -> None:
    """A flow over a long cable and one from next door share a port that marks; PFC has the headroom for the cable.

    The far sender has the notification of a mark one way later, and what it sent until then is on the way: the queue
    goes on growing for a round trip, 500 us at 50 km and ten times the 50 us that DCQCN counts in, while the flow next
    door gives way. Notifications also go on for a round trip after the far sender has slowed down, so it slows down too
    far. In the control case both senders are next door: the queue is a half at most, and the line is full. Nothing is
    lost either way.
    """
    near = _run(run, "next door", None)
    far = _run(run, "long cable", length)
    run.claim("next door: utilisation", near.utilisation(LINE, SETTLED, STEADY), at_least=0.9)
    run.claim("long cable: utilisation", far.utilisation(LINE, SETTLED, STEADY), at_least=0.3, at_most=0.9)
    run.claim("long cable: longest queue", far.longest_queue, at_least=near.longest_queue * 2)
    # What comes in too much for a round trip: the far sender's line rate, beside a flow that slows down at once.
    trip = length.propagation() * 2
    more = LINE.time_for(far.longest_queue - near.longest_queue)
    run.claim("long cable: time in the queue, more than next door", more, at_most=trip * 2)


def _run(run: Run, case: str, length: Length | None) -> RoceOutcome:
    class Far(LosslessTopo):
        """h1 --- s1 === s2 --- r, and h2 --- s2: h1 is far from r, h2 is not."""

        def build(self) -> None:
            for switch in ("s1", "s2"):
                self.addSwitch(switch)
            self.addLink(self.addHost("h1"), "s1")
            self.addLink("s1", "s2", cable=Cable("10Gb/s", length))
            for host in ("h2", "r"):
                self.addLink(self.addHost(host), "s2")

    curve = EcnCurve.step("20kB")
    topology = Far(total=12_000, xoff=4000, xon_offset=16, **marking(curve))
    flows = [Flow(host, "r", transport="roce", duration=LASTS, rate_control="dcqcn") for host in ("h1", "h2")]
    found = roce_outcome(topology, flows, case)
    rates = found.rates(SETTLED, STEADY)
    run.figure(f"{case}: goodput of h1 and h2", rates)
    run.figure(f"{case}: Jain's index", jain_index(rates))
    run.figure(f"{case}: longest queue", found.longest_queue)
    run.figure(f"{case}: pauses", found.pauses)
    run.figure(f"{case}: CNPs", [report.cnps_received for report in found.reports])
    run.claim(f"{case}: lost or sent twice", found.lost, equals=0)
    run.claim(f"{case}: every octet as it was sent", found.is_intact, equals=True)
    return found
