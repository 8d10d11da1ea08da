"""PT03: the DSCP of trimmed packets."""

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._trimming import (
    DSCP,
    FRAMES,
    HOST_DSCP,
    SHORT,
    SIZE,
    SPINE_DSCP,
    asymmetric,
    trimmed,
    trims,
    without_trimming,
)

CAME = "symmetric: size and DSCP of what arrived"


@case(ports=3, tables=trims, timeout="240s", control=Control("the action drop", without_trimming, fails=[CAME]))
def pt03_dscp(bench: Bench) -> None:
    """Trimmed packets have the configured DSCP, by port if it is from-tc; short ones stay whole; others keep theirs."""
    with trimmed(bench) as on:
        priority, other = on.lossy[0], on.lossy[-1]
        on.congest("h3", priority)
        on.send(on.frame("h3", priority))
        long = on.arrived("h3")
        on.send(on.frame("h3", priority, SHORT))
        short = on.arrived("h3")
        on.relieve("h3", priority)
    bench.claim(CAME, sorted({(one.octets, one.dscp) for one in long}), equals=[(SIZE, DSCP)])
    bench.claim("frames that arrived", len(long), equals=FRAMES)
    bench.claim("short frames, with size and DSCP", sorted({(one.octets, one.dscp) for one in short}),
                equals=[(SHORT, DSCP)])  # fmt: skip
    with trimmed(bench, asymmetric(bench.tables, [bench.port_of("h2"), bench.port_of("h3")])) as on:
        found, untouched = {}, {}
        for host in ("h2", "h3"):
            on.congest(host, priority)
            on.send(on.frame(host, priority))
            found[host] = sorted({(one.octets, one.dscp) for one in on.arrived(host)})
            on.send(on.frame(host, other))
            untouched[host] = sorted({(one.octets, one.dscp) for one in on.arrived(host)})
            on.relieve(host, priority)
    bench.claim("asymmetric: size and DSCP at each port", found,
                equals={"h2": [(SIZE, HOST_DSCP)], "h3": [(SIZE, SPINE_DSCP)]})  # fmt: skip
    bench.claim("asymmetric: frames of other queues", untouched,
                equals={host: [(1500, bench.given.dscp(other))] for host in ("h2", "h3")})  # fmt: skip
