"""L05: all ports stormed at once."""

from experiments.conformance._case import Bench, Control, case, without_pfc
from experiments.conformance._storm import GOODPUT, storm_of


@case(control=Control("no PFC", without_pfc, fails=[GOODPUT]))
def l05_storm_at_all_ports(bench: Bench) -> None:
    """A storm at each port at once, each with lossless and lossy flows to the next one: no frame is lost."""
    hosts = [f"h{number + 1}" for number in range(len(bench.ports))]
    storm_of(bench, len(bench.lossless), list(zip(hosts, hosts[1:] + hosts[:1], strict=True)), lossy=2)
