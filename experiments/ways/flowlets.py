"""Flowlets: a flow changes its way where it is silent, and stays in order."""

from xoff import Duration, Flow, Flows, LeafSpine, Roce, RoceReport, RoceSettings, Run, Ways, experiment, network

SPINES = HOSTS = 4
SIZE = "500kB"
WINDOW = 40
"""Packets without an acknowledgement: 35 us of the line, and the acknowledgement of the last takes 45 us."""
GAP, LONG_GAP = "8us", "1ms"
PORT = 50_000
TWO_SHARE = 21
"""A seed by which the third and the fourth flow have one uplink."""


@experiment(timeout="120s", free_cpu=True)
def flowlets(run: Run) -> None:
    """Four hosts send 500 kB each over four uplinks, in windows that leave the line silent for 10 us.

    By a hash two of the flows have one uplink and are late. A leaf that looks for silence of 8 us gives a flow the
    least loaded uplink after each window: a flow that is alone goes over all four, four flows are as fast as one, and
    no packet comes out of order. Control cases: with a gap of 1 ms nothing is silent for as long, and a flow keeps its
    first uplink. By chance for each frame, without regard to silence, packets overtake each other, and receivers that
    take them in order alone have them sent again.
    """
    alone, used, _ = _run(run, "one flow, gap of 8 us", Ways("adaptive flowlet", gap=GAP), 1)
    run.claim("one flow, gap of 8 us: uplinks", used, equals=SPINES)
    _, used, _ = _run(run, "one flow, gap of 1 ms", Ways("adaptive flowlet", gap=LONG_GAP), 1)
    run.claim("one flow, gap of 1 ms: uplinks", used, equals=1)
    hashed, used, again = _run(run, "hash", Ways(seed=TWO_SHARE), HOSTS)
    run.claim("hash: uplinks", used, equals=SPINES - 1)
    run.claim("hash: out of order, sent again", again, equals=[0, 0])
    run.claim("hash: slowest flow", hashed, at_least=alone * 6 // 5)
    flowlet, used, again = _run(run, "flowlets", Ways("adaptive flowlet", gap=GAP), HOSTS)
    run.claim("flowlets: uplinks", used, equals=SPINES)
    run.claim("flowlets: out of order, sent again", again, equals=[0, 0])
    run.claim("flowlets: slowest flow", flowlet, at_most=alone * 21 // 20)
    chance, used, again = _run(run, "by chance", Ways("random", seed=TWO_SHARE), HOSTS)
    run.figure("by chance: out of order, sent again", again)
    run.claim("by chance: the fewer of both", min(again), at_least=1000)
    run.claim("by chance: slowest flow", chance, at_least=hashed * 2)


def _run(run: Run, case: str, ways: Ways, hosts: int) -> tuple[Duration, int, list[int]]:
    """Return the slowest flow's time, how many uplinks carry a tenth of the data or more, and how many packets came out
    of order and were sent again.
    """
    with network(LeafSpine(2, SPINES, HOSTS, delay="5us", ways=ways), case=case) as net:
        roce = Roce(settings=RoceSettings(window=WINDOW))
        flows = [
            Flow(f"h{number}", f"h{number + HOSTS}", transport=roce, size=SIZE, source_port=PORT)
            for number in range(1, hosts + 1)
        ]
        with Flows(flows) as running:
            running.wait()
        octets = [one.octets for one in net.ways("leaf1")]
    reports = running.reports_of(RoceReport)
    run.figure(f"{case}: slowest flow", running.completion)
    run.figure(f"{case}: octets of uplinks", octets)
    run.claim(f"{case}: every octet as it was sent", all(one.intact for one in reports), equals=True)
    again = [sum(one.out_of_order for one in reports), sum(one.retransmitted for one in reports)]
    return running.completion, sum(count * 10 >= sum(octets) for count in octets), again
