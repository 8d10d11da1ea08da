"""LR17: the configuration after a restart."""

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import READY, link, no_llr
from xoff import Llr

AGAIN = "states after the restart"
_PROFILE = Llr(frames=500, octets=60_000, replay_timer="9us", replay_count=7, spacing=4096, flush_action="block")


@case(ports=2, control=no_llr(AGAIN))
def lr17_restart(bench: Bench) -> None:
    """A switch of the configuration that was read back has the same profiles, begins with INIT, and repairs losses."""
    with link(bench, _PROFILE, others=True) as on:
        before = [on.fabric.port(bench.port(on.net, host)).cable.retry for host in ("h1", "h2")]
        on.whole(on.send(100), "before: lost, doubled, out of order")
    with link(bench, before[1] or False, others=True) as on:
        after = [on.fabric.port(bench.port(on.net, host)).cable.retry for host in ("h1", "h2")]
        bench.claim("profiles of the ports, as before", after == before, equals=True)
        bench.claim(AGAIN, on.states(on.dut, on.tester), equals=READY)
        sets = on.of(on.dut, "TX_INIT_CTL_OS", "RX_INIT_CTL_OS", "TX_INIT_ECHO_CTL_OS", "RX_INIT_ECHO_CTL_OS")
        bench.claim("INITs and ECHOs after the restart", sets, equals=[1] * 4)
        on.jam_frames("lost", after=49)
        on.whole(on.send(100))
        counted = [*on.of(on.dut, "TX_REPLAY"), *on.of(on.tester, "RX_EXPECTED_SEQ_GOOD")]
        bench.claim("replays, frames in order", counted, equals=[1, 100])
