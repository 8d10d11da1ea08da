"""LR19: a NACK while PFC has stopped the queue."""

from experiments.conformance._case import Bench, Control, case, without_pfc
from experiments.conformance._retry import link
from xoff import LONGEST_PAUSE, PfcFrame, RawPort

STOPPED = "new frames that came in the pause"


@case(control=Control("no PFC", without_pfc, fails=[STOPPED]))
def lr19_nack_in_pause(bench: Bench) -> None:
    """Frames that come damaged when their queue has been stopped are asked for and sent again; no new ones are sent."""
    with link(bench, in_control=True) as on, RawPort(on.net["h2"], on.tester) as wire:
        mac = on.fabric.port(on.tester).mac
        with on.sending(on.flow(2000)):
            on.wait("20us")
            on.jam_frames("damaged", after=0, count=8)
            wire.send(PfcFrame.xoff(mac, [on.priority], LONGEST_PAUSE).encode())
            on.net.sleep("1us")
            paused, kept = (on.counters(on.dut), on.counters(on.tester)), on.report(on.dut).kept
            on.net.sleep("30us")
            later = on.counters(on.dut), on.counters(on.tester)
            good = [one["LLR_RX_EXPECTED_SEQ_GOOD"] for one in (paused[1], later[1])]
            bench.claim(STOPPED, max(0, good[1] - good[0] - kept), equals=0)  # those that were sent before come, too
            nacks = later[1]["LLR_TX_NACK_CTL_OS"] - paused[1]["LLR_TX_NACK_CTL_OS"]
            bench.claim("NACKs in the pause", nacks, at_least=1)
            bench.claim("NACKs that came", later[0]["LLR_RX_NACK_CTL_OS"], equals=later[1]["LLR_TX_NACK_CTL_OS"])
            replays = later[0]["LLR_TX_REPLAY"] - paused[0]["LLR_TX_REPLAY"]
            bench.claim("replays in the pause", replays, at_least=1)
            bench.claim("frames that wait for an ACK at the end of the pause", on.report(on.dut).kept, equals=0)
            on.jam(on.dut)
            wire.send(PfcFrame.xon(mac, [on.priority]).encode())
            on.wait("300us")
            bench.claim("frames in order afterwards", on.of(on.tester, "RX_EXPECTED_SEQ_GOOD")[0], equals=2000)
        bench.claim("frames dropped", on.fabric.dropped(), equals=0)
        on.ready()
