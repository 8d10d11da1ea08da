"""TC7: a leaf spreads queue pairs over its uplinks."""

from experiments.conformance._case import Bench, Control, case, without_ecn
from experiments.conformance._ranks import MB, RANKS, Ranks
from xoff import Flow, Network, Ways

_SPINES, _PAIRS = 4, 16
_SPREAD = "uplinks with sixteen queue pairs of one pair of ranks"
_ADDRESSES = ("source", "destination")


@case(ports=1, timeout="240s", tables=without_ecn, control=Control("a hash of addresses alone", fails=[_SPREAD]))
def tc07_hashing(bench: Bench) -> None:
    """One queue pair takes one uplink, sixteen take several, and those of four pairs of ranks take all, in order."""
    ranks, half = Ranks(bench), RANKS // 2
    priority, used, out_of_order = ranks.lossless[0], [], 0
    ways = Ways(fields=_ADDRESSES) if bench.is_control else Ways()
    steps: list[list[Flow]] = [
        [ranks.flow(0, 4, priority, 2 * MB)],
        [ranks.flow(0, 4, priority, 4 * MB, message=MB // 8, queue_pairs=_PAIRS)],
        [
            ranks.flow(rank, rank + half, priority, 4 * MB, message=MB // 8, queue_pairs=_PAIRS)
            for rank in range(half)
        ],
    ]  # fmt: skip
    with ranks.leaf_spine(_SPINES, ways=ways) as net:
        for flows in steps:
            before = _frames(net)
            running = ranks.run(net, flows)
            grown = {port: frames - before[port] for port, frames in _frames(net).items()}
            # Messages of the connection manager take ways of their own.
            used.append(sum(frames * 100 > sum(grown.values()) for frames in grown.values()))
            out_of_order += sum(report.out_of_order for report in running.reports)
            bench.figure(f"frames by uplink, step {len(used)}", list(grown.values()))
            ranks.complete(net, flows, running)
    bench.claim(_SPREAD, used[1], at_least=2)
    bench.claim("uplinks with one queue pair", used[0], equals=1)
    bench.claim("uplinks with sixteen queue pairs of four pairs of ranks", used[2], equals=_SPINES)
    bench.claim("frames out of order", out_of_order, equals=0)


def _frames(net: Network) -> dict[str, int]:
    """Return the frames that the first leaf has given to each uplink."""
    return {way.port: way.frames for way in net.ways("leaf1")}
