"""The victim of PFC: a flow whose own path is free is slowed, because it shares a cable with one that is not."""

from typing import Annotated, NamedTuple

from xoff import Between, Dumbbell, Duration, Flow, Port, Rate, Run, experiment, network, steady_rates

OFFERED = Rate("4Gb/s")
LASTS = Duration("2ms")
SETTLED, STEADY = Duration("500us"), Duration("1400us")
OTHERS = ("r2", "r3", "r4", "r5")
CONGESTED, APART = 3, 4


class Outcome(NamedTuple):
    goodput: Rate
    """The goodput of the victim."""
    lost: int
    """Datagrams that all flows lost together."""
    pauses: int
    """Pauses of the shared cable, of the victim's priority."""


@experiment(timeout="60s")
def victim(run: Run, delay: Annotated[Duration, Between("0s", "1us")] = Duration("0s")) -> None:
    """A flow whose own path is free is slowed by PFC, because it shares a cable with one whose path is not.

    h1 and r2 to r5 overload the port to r1; h2 sends to r6, whose port is idle. h1 and h2 share the cable s1-s2. PFC
    cannot tell h2's frames on the cable from h1's: s2 pauses all of the priority. h1 and h2 together send 9 of the
    cable's 10 Gb/s, so without the others, the first control case, h2 gets all that it sends. So it does in the second,
    where the overload is the same and h2 has another lossless priority. In no case is a frame lost. `delay` is that
    of the shared cable.
    """
    slowed = _run(run, delay, CONGESTED, OTHERS)
    label = "an overloaded port elsewhere"
    # h1 gets a fifth of the port to r1, 2 Gb/s, and h2 about as much: frames of both enter the cable by turns.
    run.claim(f"{label}: goodput of the victim", slowed.goodput, at_most=OFFERED * 60 // 100)
    run.claim(f"{label}: pauses of the shared cable", slowed.pauses, at_least=5)
    run.claim(f"{label}: lost", slowed.lost, equals=0)

    for label, free in (
        ("no overload", _run(run, delay, CONGESTED, ())),
        ("an overloaded port elsewhere, and a priority of its own", _run(run, delay, APART, OTHERS)),
    ):
        run.claim(f"{label}: goodput of the victim", free.goodput, at_least=OFFERED * 99 // 100)
        run.claim(f"{label}: pauses of the shared cable", free.pauses, equals=0)
        run.claim(f"{label}: lost", free.lost, equals=0)


def _run(run: Run, delay: Duration, priority: int, others: tuple[str, ...]) -> Outcome:
    port = Port().with_pfc(CONGESTED, APART)
    with network(Dumbbell(n=6, between=delay, port=port, total=2000)) as net:
        flows = [
            Flow("h2", "r6", priority, rate=OFFERED, duration=LASTS),
            Flow("h1", "r1", CONGESTED, rate=Rate("5Gb/s"), duration=LASTS),
        ]
        flows += [Flow(host, "r1", CONGESTED, duration=LASTS) for host in others]
        running = net.run(*flows)
        pauses = net.fabric.pfc(net.port("s1", "s2"), priority)["xoff_received"]
    reports = running.reports
    rates = steady_rates(reports, SETTLED, STEADY)
    run.figure(f"goodput of h2, h1, r2 ..., {len(others)} others, victim of priority {priority}", rates)
    return Outcome(rates[0], sum(report.lost for report in reports), pauses)
