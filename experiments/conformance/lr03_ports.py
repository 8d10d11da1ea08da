"""LR03: initialization of several ports."""

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import link, no_llr

READY_PORTS = "ports whose sender is in ADVANCE and whose receiver is in SEND_ACKS"
_NAMES = ("TX_INIT_CTL_OS", "RX_INIT_CTL_OS", "TX_INIT_ECHO_CTL_OS", "RX_INIT_ECHO_CTL_OS")


@case(ports=3, control=no_llr(READY_PORTS))
def lr03_ports(bench: Bench) -> None:
    """Three ports begin by themselves; one that begins anew leaves the others alone."""
    with link(bench, hosts=3, others=True) as on:
        ports = [bench.port(on.net, f"h{number}") for number in (1, 2, 3)]
        ready = [on.states(port, port) for port in ports].count(("ADVANCE", "SEND_ACKS"))
        bench.claim(READY_PORTS, ready, equals=3)
        bench.claim("INITs and ECHOs of each", [on.of(port, *_NAMES) for port in ports], equals=[[1] * 4] * 3)
        on.fabric.core.cabling.pull(on.dut)
        on.wait("1us")
        on.fabric.core.cabling.plug(on.dut)
        on.wait("30us")
        again = [on.of(port, "TX_INIT_CTL_OS")[0] for port in ports]
        bench.claim("INITs of the others", [again[0], again[2]], equals=[1, 1])
        bench.claim("INITs of the port that was pulled", again[1], at_least=2)
        on.whole(on.send(200))
        came = [on.of(f"h{number}-eth0", "RX_EXPECTED_SEQ_GOOD")[0] for number in (1, 2, 3)]
        bench.claim("frames of each port", came, equals=[0, 200, 0])
