"""PT04: trimming with both buffer models, which are columns of the matrix."""

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._trimming import (
    DSCP,
    FRAMES,
    HOST_DSCP,
    SIZE,
    SPINE_DSCP,
    asymmetric,
    trimmed,
    trims,
    without_trimming,
)

CAME = "symmetric: frames that arrived with 256 octets and DSCP 48"


@case(ports=3, tables=trims, timeout="240s", control=Control("the action drop", without_trimming, fails=[CAME]))
def pt04_buffer_models(bench: Bench) -> None:
    """Trimming works with this buffer model's thresholds, symmetric and asymmetric, at two ports at once."""
    with trimmed(bench) as on:
        priority = on.lossy[0]
        on.congest("h3", priority)
        on.send(on.frame("h3", priority))
        bench.claim(CAME, sum((one.octets, one.dscp) == (SIZE, DSCP) for one in on.arrived("h3")), equals=FRAMES)
        on.relieve("h3", priority)
    with trimmed(bench, asymmetric(bench.tables, [bench.port_of("h2"), bench.port_of("h3")])) as on:
        for host in ("h2", "h3"):
            on.congest(host, priority)
        found = {}
        for host, dscp in (("h2", HOST_DSCP), ("h3", SPINE_DSCP)):
            on.forget()
            on.send(on.frame(host, priority))
            found[host] = sum((one.octets, one.dscp) == (SIZE, dscp) for one in on.arrived(host))
        for host in ("h2", "h3"):
            on.relieve(host, priority)
    bench.claim("asymmetric: such frames at each port", found, equals={"h2": FRAMES, "h3": FRAMES})
