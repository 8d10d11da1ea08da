"""L06: frames of 64, 512, 1518 and 9216 octets, in a storm and where they fill a buffer."""

from experiments.conformance._case import Bench, Control, case, without_headroom
from experiments.conformance._congestion import congest
from experiments.conformance._storm import storm_of
from xoff import Size

_FCS = 4
_SIZES = (64, 512, 1518, 9216)


def _lost(octets: int) -> str:
    return f"frames of {octets} octets lost"


@case(ports=3, control=Control("no headroom", without_headroom, fails=list(map(_lost, _SIZES))), timeout="300s")
def l06_frame_sizes(bench: Bench) -> None:
    """A storm stops frames of each size, and two senders at line rate for one port lose none of them."""
    priority = bench.lossless[0]
    for octets in _SIZES:
        frame = Size.from_bytes(octets - _FCS)
        with bench.network(hosts=3, mtu=max(1500, frame.bytes - 14)) as net:
            seen = congest(bench, net, [bench.flow(host, "h3", priority, frame) for host in ("h1", "h2")])
        bench.claim(_lost(octets), seen.lost, equals=0)
        bench.claim(f"XOFF sent for frames of {octets} octets", seen.xoffs, at_least=2)
        if not bench.is_control:
            storm_of(bench, 1, lossy=1, frames={frame: 1}, name=f"{octets} octets in a storm: ")
        bench.figure(f"headroom used by frames of {octets} octets", Size.from_bytes(seen.most_headroom))
