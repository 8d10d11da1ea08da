"""L07: a mix of frame sizes as on the Internet, in a storm and where it fills a buffer."""

from experiments.conformance._case import Bench, Control, case, without_headroom
from experiments.conformance._congestion import congest
from experiments.conformance._storm import storm_of
from xoff import Size

_MIX = {64: 7, 594: 4, 1518: 1}
"""Frames of each size in twelve."""
_FCS, _OVERHEAD = 4, 20


@case(ports=3, control=Control("no headroom", without_headroom, fails=["frames lost"]))
def l07_imix(bench: Bench) -> None:
    """7 : 4 : 1 frames of 64, 594 and 1518 octets: a storm stops them, and two senders for one port lose none."""
    priority = bench.lossless[0]
    octets = sum((size + _OVERHEAD) * many for size, many in _MIX.items())
    with bench.network(hosts=3) as net:
        flows = [
            bench.flow(
                host, "h3", priority, Size.from_bytes(size - _FCS), bench.line * (size + _OVERHEAD) * many // octets
            )
            for host in ("h1", "h2")
            for size, many in _MIX.items()
        ]
        seen = congest(bench, net, flows)
    bench.claim("frames lost", seen.lost, equals=0)
    bench.claim("XOFF sent", seen.xoffs, at_least=2)
    if not bench.is_control:
        mix = {Size.from_bytes(size - _FCS): many for size, many in _MIX.items()}
        storm_of(bench, 1, lossy=2, frames=mix, name="in a storm: ")
    bench.figure("headroom used", Size.from_bytes(seen.most_headroom))
