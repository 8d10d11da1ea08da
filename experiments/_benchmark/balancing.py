"""Category 3, balancing of load over equal ways: ECMP by queue pairs, flowlets by gap, and spraying."""

from collections.abc import Iterator

from experiments._benchmark.load import REORDERS, balance_of, lossless, offer, row, share
from testbed.measures.fabric_under_test import FabricUnderTest
from xoff import Nic, Roce, Run, Size, Ways

_SIZE = Size("256kB")
_MESSAGE = Size("8kB")
_DYNAMIC = range(49_152, 65_536)
_PAIRS = 4
NO_WAYS = "no switch has equal ways, so there is nothing to balance"


def ecmp(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """A hash of addresses and ports, with more and more queue pairs between the same hosts, each with a port of its
    own."""
    for pairs in (1, 4, 16) if quick else (1, 4, 8, 16, 32):
        _balanced(run, fabric, f"Q = {pairs}", Ways("hash"), pairs=pairs)


def flowlet(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """Flowlets to the least loaded way, by the silence that a flow needs before it may change its way."""
    _balanced(run, fabric, "ECMP", Ways("hash"), pairs=_PAIRS)
    for gap in ("2us", "20us") if quick else ("1us", "2us", "5us", "20us", "100us"):
        _balanced(run, fabric, f"gap of {gap}", Ways("adaptive flowlet", gap=gap), pairs=_PAIRS)


def spray(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """Spraying by turns, by chance and by load, to NICs that take packets in order alone, and to NICs that wait."""
    for case, ways, nic in _sprays(quick):
        _balanced(run, fabric, case, ways, nic, pairs=1)


def _sprays(quick: bool) -> Iterator[tuple[str, Ways, Nic]]:
    for rule in ("spray", "least loaded") if quick else ("spray", "random", "least loaded"):
        yield f"{rule}, in order alone", Ways(rule), Nic()
        yield f"{rule}, NICs reorder", Ways(rule), REORDERS


def _balanced(run: Run, fabric: FabricUnderTest, name: str, ways: Ways, nic: Nic = Nic(), *, pairs: int) -> None:
    transport = Roce(queue_pairs=pairs, message=_MESSAGE, nic=nic)
    flows = [
        fabric.flow(one, other, transport=transport, size=_SIZE, source_port=_DYNAMIC, rate_control=fabric.control)
        for one, other in fabric.across()
    ]
    load = offer(fabric, flows, name, ways=ways)
    if load.balance is None:
        run.figure(f"{name}: not applicable", NO_WAYS)
        return
    of_lines = share(load.goodput, fabric.line * len(fabric.hosts))
    octets = [part for one in load.ways for part in one]
    fullest = max(octets)
    row(
        run, name, **balance_of(load), emptiest_of_the_fullest_percent=round(100 * min(octets) / fullest, 1),
        goodput=load.goodput, of_all_lines_percent=of_lines, completion=load.completion,
        out_of_order_percent=load.out_of_order, sent_again=load.sent_again,
    )  # fmt: skip
    lossless(run, fabric, name, load)
