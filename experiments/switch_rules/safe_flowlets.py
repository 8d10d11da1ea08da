"""A choice among ways of one's own: a flow leaves an uplink once its last frame has, if another one has less load."""

from collections.abc import Sequence

from xoff import (
    Duration,
    Flow,
    Flows,
    ForwardedFrame,
    LeafSpine,
    Roce,
    RoceReport,
    RoceSettings,
    Run,
    SwitchLine,
    WayLoad,
    WayRule,
    Ways,
    experiment,
    network,
    way_rule,
)

SPINES = HOSTS = 4
SIZE = "500kB"
WINDOW = 40
"""Packets without an acknowledgement: 35 us of the line, and the acknowledgement of the last takes 45 us."""
BETTER = 6_000
"""The octets by which another uplink has to be less loaded."""
MARGIN = 3
"""The frames that are allowed for: this one, the one that is leaving, and one for the difference of ways behind."""
ON_THE_WIRE = 1.03
"""The octets of a frame with preamble, FCS and gap, over those that wait in queues."""
ENTRIES = 240
PORT = 50_000
TWO_SHARE = 21
"""A seed by which the third and the fourth flow have one uplink."""


class SafeFlowlets(WayRule):
    """A flow begins with the uplink of its hash, and moves when none of its frames waits there.

    For each flow the rule keeps when its last frame will have left the uplink. Until then another uplink could be
    faster, and later frames would overtake it. So no time of silence has to be chosen.
    """

    def __init__(self, line: SwitchLine) -> None:
        super().__init__(line)
        self.octet_lab_ns = 8e9 / line.rate.bps
        self.gone_lab_ns = [0] * ENTRIES
        self.moves = 0

    def choose(self, frame: ForwardedFrame, ways: Sequence[WayLoad]) -> int:
        way = frame.last
        if way < 0 or not ways[way].is_there:
            way = frame.hash % len(ways)
        elif frame.now_lab_ns >= self.gone_lab_ns[frame.hash % ENTRIES]:
            least = self._load(ways[way]) - BETTER
            for place in range(len(ways)):
                if ways[place].is_there and self._load(ways[place]) < least:
                    way = place
                    least = self._load(ways[place])
            self.moves += way != frame.last
        wait = (ways[way].queued_octets + MARGIN * frame.octets) * self.octet_lab_ns * ON_THE_WIRE
        self.gone_lab_ns[frame.hash % ENTRIES] = frame.now_lab_ns + int(wait)
        return way

    def _load(self, way: WayLoad) -> int:
        return way.queued_octets + way.given_octets

    def state(self) -> dict[str, float]:
        return {"moves": self.moves}


@experiment(timeout="120s", free_cpu=True)
def safe_flowlets(run: Run) -> None:
    """Four hosts send 500 kB each over four uplinks, of which a hash gives two flows the same one.

    By the hash (ECMP) these two are late, by a fifth or more. A rule of this file begins with the same hash, keeps for
    each flow when its last frame will have left the uplink, and lets it move from then on: four flows take at most a
    tenth longer than one alone, and none of their packets comes out of order.
    """
    alone, _, _ = _run(run, "one flow", Ways(rule=SafeFlowlets, seed=TWO_SHARE), 1)
    hashed, used, _ = _run(run, "hash", Ways(seed=TWO_SHARE), HOSTS)
    run.claim("hash: uplinks", used, equals=SPINES - 1)
    run.claim("hash: slowest flow", hashed, at_least=alone * 6 // 5)
    own, used, again = _run(run, "rule", Ways(rule=SafeFlowlets, seed=TWO_SHARE), HOSTS)
    run.claim("rule: uplinks", used, equals=SPINES)
    run.claim("rule: out of order, sent again", again, equals=[0, 0])
    run.claim("rule: slowest flow", own, at_most=alone * 11 // 10)


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
        if ways.rule is not None:
            run.figure(f"{case}: moves", int(way_rule(net.fabric, "leaf1").state["moves"]))
    reports = running.reports_of(RoceReport)
    run.figure(f"{case}: slowest flow", running.completion)
    run.figure(f"{case}: octets of uplinks", octets)
    run.claim(f"{case}: every octet as it was sent", all(one.intact for one in reports), equals=True)
    again = [sum(one.out_of_order for one in reports), sum(one.retransmitted for one in reports)]
    return running.completion, sum(count * 10 >= sum(octets) for count in octets), again
