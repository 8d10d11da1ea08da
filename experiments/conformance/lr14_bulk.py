"""LR14: all ports begin at the same time."""

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import READY, link, no_llr
from xoff import Duration

READY_PORTS = "ports ready in each of five rounds"
_ROUNDS, _MOST = 5, Duration("10s")


@case(ports=4, timeout="240s", control=no_llr(READY_PORTS))
def lr14_bulk(bench: Bench) -> None:
    """All ports begin anew at one moment, five times: each is ready every time, and in far less than 10 s."""
    with link(bench, hosts=4, others=True) as on:
        ports = [bench.port(on.net, host.name) for host in on.net.hosts]
        took, ready = [], []
        for _ in range(_ROUNDS):
            for port in ports:
                on.fabric.core.cabling.pull(port)
            on.wait("1us")
            for port in ports:
                on.fabric.core.cabling.plug(port)
            begin_ns = on.now_ns()
            end_ns = on.until(lambda: all(on.states(port, port) == READY for port in ports), "50us")
            ready.append(sum(on.states(port, port) == READY for port in ports))
            took.append(bench.measured(max(0, end_ns - begin_ns)))
        bench.claim(READY_PORTS, ready, equals=[4] * _ROUNDS)
        bench.claim("longest time", max(took), at_most=_MOST)
        bench.figure("shortest time", min(took))
        bench.figure("mean time", Duration.from_ps(sum(one.ps for one in took) // _ROUNDS))
        counted = [on.of(port, "TX_INIT_CTL_OS", "RX_INIT_ECHO_CTL_OS") for port in ports]
        bench.claim("INITs of each port", min(one for one, _ in counted), at_least=1 + _ROUNDS)
        bench.claim("ECHOs of each port", min(one for _, one in counted), at_least=1 + _ROUNDS)
        on.whole(on.send(100))
