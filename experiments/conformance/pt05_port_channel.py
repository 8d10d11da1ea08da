"""PT05: trimming at a port, and at the same port as member of a port channel."""

from dataclasses import replace

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._trimming import FRAMES, SIZE, trimmed, trims, without_trimming

CAME = "frames that arrived trimmed"


@case(ports=3, tables=trims, timeout="240s", control=Control("the action drop", without_trimming, fails=[CAME]))
def pt05_port_channel(bench: Bench) -> None:
    """A port trims by itself, and as the member of a port channel."""
    found = {}
    channel = replace(bench.tables, channels={"PortChannel1": (bench.port_of("h3"),)})
    for name, tables in (("a port", bench.tables), ("member of PortChannel1", channel)):
        with trimmed(bench, tables) as on:
            priority = on.lossy[0]
            on.congest("h3", priority)
            on.send(on.frame("h3", priority))
            found[name] = sum(one.octets == SIZE for one in on.arrived("h3"))
            on.relieve("h3", priority)
    bench.claim(CAME, found, equals=dict.fromkeys(found, FRAMES))
