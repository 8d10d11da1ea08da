"""L08: the switch pauses before it loses anything."""

from experiments.conformance._case import Bench, Control, case, without_pfc
from experiments.conformance._congestion import congest


@case(ports=3, control=Control("no PFC", without_pfc, fails=["frames dropped before the first XOFF", "XOFF sent"]))
def l08_burst(bench: Bench) -> None:
    """A burst of two senders at line rate for one port: XOFF is sent before any frame is lost, and none is."""
    with bench.network(hosts=3) as net:
        seen = congest(bench, net, [bench.flow(host, "h3", bench.lossless[0]) for host in ("h1", "h2")])
    bench.claim("frames dropped before the first XOFF", seen.dropped_before_xoff, equals=0)
    bench.claim("XOFF sent", seen.xoffs, at_least=1)
    bench.claim("frames lost", seen.lost, equals=0)
