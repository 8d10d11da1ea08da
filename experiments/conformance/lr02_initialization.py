"""LR02: the sequence of initialization."""

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import LARGE, READY, link, no_llr
from xoff import Jam

SETS = "INITs and ECHOs sent and received at the switch"
_NAMES = [f"{way}_{what}_CTL_OS" for way in ("TX", "RX") for what in ("INIT", "INIT_ECHO")]


@case(control=no_llr(SETS))
def lr02_initialization(bench: Bench) -> None:
    """One INIT and one ECHO each way make both ends ready; without an ECHO the sender stays in INIT and asks again."""
    with link(bench) as on:
        bench.claim(SETS, on.of(on.dut, *_NAMES), equals=[1] * 4)
        bench.claim("at the tester", on.of(on.tester, *_NAMES), equals=[1] * 4)
        on.ready()
        profile = on.fabric.port(on.dut).cable.retry
        bench.claim("frames and octets of the buffer", (profile.frames, profile.octets) if profile else None,
                    equals=(LARGE.frames, LARGE.octets))  # fmt: skip
        bench.claim("frames in the buffer", on.report(on.dut).kept, equals=0)
        on.jam(on.tester, Jam("echo", "lost", 1, 10**6))
        on.fabric.core.cabling.pull(on.dut)
        on.wait("1us")
        on.fabric.core.cabling.plug(on.dut)
        on.net.sleep("30us")  # the replay timer is the same at each speed
        bench.claim("without an echo: sender", on.report(on.dut).state, equals="INIT")
        bench.claim("without an echo: INITs", on.of(on.dut, "TX_INIT_CTL_OS")[0], at_least=4)
        on.jam(on.tester)
        on.net.sleep("30us")
        bench.claim("with echoes again", on.states(on.dut, on.tester), equals=READY)
        on.whole(on.send(100))
