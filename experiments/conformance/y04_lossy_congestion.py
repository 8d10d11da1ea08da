"""Y04: congestion of a lossy priority."""

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._congestion import congest


@case(ports=3, control=Control("a lossless priority", fails=["XOFF sent", "frames dropped"]))
def y04_lossy_congestion(bench: Bench) -> None:
    """Two senders of a lossy priority for one port: frames are dropped, and no PFC frame is sent."""
    priority = (bench.lossless if bench.is_control else bench.lossy)[0]
    with bench.network(hosts=3) as net:
        seen = congest(bench, net, [bench.flow(host, "h3", priority) for host in ("h1", "h2")])
    bench.claim("XOFF sent", seen.xoffs, equals=0)
    bench.claim("frames dropped", seen.dropped, at_least=1)
    bench.claim("frames lost and not counted by the switch", seen.lost - seen.dropped, equals=0)
