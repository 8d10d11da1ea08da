"""TC7: a leaf spreads queue pairs over its uplinks."""

from collections.abc import Iterable

from experiments.conformance._case import Bench, Control, case, without_ecn
from experiments.conformance._ranks import FRAME, MB, RANKS, Ranks
from xoff import Duration, Network, Report, Ways

_SPINES, _PAIRS = 4, 16
_SPREAD = "step 2: uplinks with sixteen queue pairs of one pair of ranks"
_ADDRESSES = ("source", "destination")
_PORTS = range(0xC000, 0xC400)
_NEVER_SILENT = Duration("10ms")
"""A silence that no flow of the case has: a queue pair keeps the uplink that it got with its first frame."""
_LATER = Duration("10us")
"""The time between two starts of a staggered transmission, at 100 Gb/s."""


@case(ports=1, timeout="300s", tables=without_ecn, control=Control("a hash of addresses alone", fails=[_SPREAD]))
def tc07_hashing(bench: Bench) -> None:
    """One queue pair takes one uplink, sixteen take several, and those that the hash puts on one uplink share it."""
    ranks = Ranks(bench)
    hashed = _Steps(bench, ranks, Ways(fields=_ADDRESSES) if bench.is_control else Ways())
    with ranks.leaf_spine(_SPINES, ways=hashed.ways) as net:
        # Messages of the connection manager take ways of their own, a few frames each.
        used, _ = hashed.run(net, "step 2", 1, _PAIRS)
        bench.claim(_SPREAD, used, at_least=2)
        if bench.is_control:
            return
        used, _ = hashed.run(net, "step 1", 1)
        bench.claim("step 1: uplinks with one queue pair", used, equals=1)
        for name, pairs in (("step 3", 2), ("step 6", 4)):
            used, shares = hashed.run(net, name, pairs, ports=_one_uplink(net, pairs))
            bench.claim(f"{name}: uplinks with {pairs} queue pairs of one hash", used, equals=1)
            bench.claim(f"{name}: largest share of the line, in percent", max(shares), at_most=110 // pairs)
        ports = _one_uplink(net, 4)
    by_load = _Steps(bench, ranks, Ways("adaptive flowlet", gap=_NEVER_SILENT))
    with ranks.leaf_spine(_SPINES, ways=by_load.ways) as net:
        for name, pairs in (("step 4", 2), ("step 7", 4)):
            used, shares = by_load.run(net, name, pairs, ports=ports[:pairs], later=bench.paced(_LATER))
            bench.claim(f"{name}: uplinks with {pairs} queue pairs one after the other", used, equals=pairs)
            bench.claim(f"{name}: least share of the line, in percent", min(shares), at_least=90)
        for name, pairs in (("step 5", 2), ("step 8", 4)):
            used, _ = by_load.run(net, name, pairs, _PAIRS, later=bench.paced(_LATER))
            bench.claim(f"{name}: uplinks with {_PAIRS} queue pairs of each of {pairs} ranks", used, at_least=2)
    bench.claim("frames out of order", hashed.out_of_order + by_load.out_of_order, equals=0)


class _Steps:
    """Steps of the plan with one rule of the leaves."""

    def __init__(self, bench: Bench, ranks: Ranks, ways: Ways) -> None:
        self.ways, self.out_of_order = ways, 0
        self._bench, self._ranks = bench, ranks

    def run(
        self, net: Network, name: str, pairs: int, queue_pairs: int = 1, *,
        ports: Iterable[int | None] = (None,) * RANKS, later: Duration | None = None,
    ) -> tuple[int, list[int]]:  # fmt: skip
        """Run flows of so many pairs of ranks, each some time after the one before.

        Return how many uplinks had more than two percent of the frames, and the share of the line that each flow had.
        """
        half, bench = RANKS // 2, self._bench
        flows = [
            self._ranks.flow(
                rank, rank + half, self._ranks.lossless[0], 2 * MB, message=MB // 8 if queue_pairs > 1 else MB,
                queue_pairs=queue_pairs, source_port=port, start=(later or Duration("0s")) * rank,
            )
            for rank, port in zip(range(pairs), ports, strict=False)
        ]  # fmt: skip
        before = _frames(net)
        running = self._ranks.run(net, flows)
        grown = [frames - before[port] for port, frames in _frames(net).items()]
        bench.figure(f"frames by uplink, {name}", grown)
        self._ranks.complete(net, flows, running, name)
        self.out_of_order += sum(report.out_of_order for report in running.reports)
        return sum(frames * 50 > sum(grown) for frames in grown), [self._share(report) for report in running.reports]

    def _share(self, report: Report) -> int:
        return self._bench.frame_time(FRAME) * report.received * 100 // report.completion


def _one_uplink(net: Network, pairs: int) -> list[int]:
    """Return source ports with which the hash gives one uplink to a queue pair of each of so many pairs of ranks."""

    def uplink(rank: int, port: int) -> str:
        return net.path(f"h{rank + 1}", f"h{rank + 1 + RANKS // 2}", source_port=port).ports[1]

    wanted = uplink(0, _PORTS[0])
    return [next(port for port in _PORTS if uplink(rank, port) == wanted) for rank in range(pairs)]


def _frames(net: Network) -> dict[str, int]:
    """Return the frames that the first leaf has given to each uplink."""
    return {way.port: way.frames for way in net.ways("leaf1")}
