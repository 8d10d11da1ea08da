"""Category 4, collectives: completion and bus bandwidth of all-reduce, all-to-all and all-gather by each strategy."""

from collections.abc import Callable, Sequence

from experiments._benchmark.load import STRATEGIES, Load, balance_of, lossless, offer, rate_of, row, share
from testbed.measures.fabric_under_test import FabricUnderTest
from testbed.net.traffic import workload
from testbed.workload import transfers
from testbed.workload.transfers import Transfer
from xoff import Flow, Nic, Rate, Roce, Run, Size

Collective = Callable[[Sequence[str], Size], list[Transfer]]
ALL_REDUCES: dict[str, Collective] = {
    "ring": transfers.ring_all_reduce,
    "tree": transfers.tree_all_reduce,
    "halving-doubling": transfers.halving_doubling_all_reduce,
}


def all_reduce(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """All-reduce in a ring, in a tree, and by halving and doubling; the last takes a power of two of the hosts."""
    for size in ("128kB",) if quick else ("128kB", "1MB"):
        for algorithm, make in ALL_REDUCES.items():
            hosts = fabric.hosts
            if algorithm == "halving-doubling":
                hosts = hosts[: 1 << len(hosts).bit_length() - 1]
            _by_strategy(run, fabric, f"{algorithm}, {size}", make(hosts, Size(size)), Size(size), all_reduces=True)


def all_to_all(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """Each host sends an equal part of the size to each of the others at once."""
    many = len(fabric.hosts)
    for size in ("128kB",) if quick else ("128kB", "1MB"):
        each = Size.from_bytes(-(-Size(size).bytes // many))
        pattern = transfers.all_to_all(fabric.hosts, each)
        _by_strategy(run, fabric, size, pattern, Size(size))


def all_gather(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """All-gather in a ring."""
    for size in ("128kB",) if quick else ("128kB", "1MB"):
        pattern = transfers.ring_all_gather(fabric.hosts, Size(size))
        _by_strategy(run, fabric, size, pattern, Size(size))


def _by_strategy(
    run: Run, fabric: FabricUnderTest, name: str, pattern: list[Transfer], size: Size, *, all_reduces: bool = False
) -> None:
    """Run a collective by each strategy; an all-reduce moves the size over each line twice."""
    many = len({one.source for one in pattern})
    part = (many - 1) / many * (2 if all_reduces else 1)
    for strategy, (ways, nic) in STRATEGIES.items():
        label = f"{name}, {strategy}"
        load = offer(fabric, flows(fabric, pattern, nic=nic), label, ways=ways)
        bus = bus_bandwidth(load, size, part)
        row(
            run, label, hosts=many, completion=load.completion, bus_bandwidth=bus,
            of_the_line_percent=share(bus, fabric.line), **balance_of(load), out_of_order_percent=load.out_of_order,
            sent_again=load.sent_again, PAUSE_frames=load.pauses.frames, marked_percent=load.marked,
        )  # fmt: skip
        lossless(run, fabric, label, load)


def bus_bandwidth(load: Load, size: Size, part: float) -> Rate:
    """Return the bus bandwidth, by which collectives are compared: the part of the size that each line has to carry,
    divided by the time."""
    return rate_of(round(size.bytes * part), load.completion)


def flows(fabric: FabricUnderTest, pattern: Sequence[Transfer], nic: Nic = Nic(), first: int = 0) -> list[Flow]:
    """Return the flows of a collective with the fabric's priority and rate control."""
    plain = workload.flows(pattern, Roce(nic=nic), first)
    return [
        fabric.flow(
            str(one.source), str(one.target), transport=one.transport, size=one.size, start=one.start,
            rate_control=fabric.control,
        )
        for one in plain
    ]  # fmt: skip
