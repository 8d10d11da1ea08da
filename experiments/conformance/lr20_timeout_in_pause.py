"""LR20: the replay timer while PFC has stopped the queue."""

from experiments.conformance._case import Bench, Control, case, without_pfc
from experiments.conformance._retry import link
from xoff import LONGEST_PAUSE, PfcFrame, RawPort

STOPPED = "frames in order that came in the pause"


@case(control=Control("no PFC", without_pfc, fails=[STOPPED]))
def lr20_timeout_in_pause(bench: Bench) -> None:
    """Without ACKs frames are sent again by the replay timer in a pause, too; none is new, and none is given up."""
    with link(bench, in_control=True) as on, RawPort(on.net["h2"], on.tester) as wire:
        mac = on.fabric.port(on.tester).mac
        with on.sending(on.flow(2000)):
            on.wait("20us")
            on.drop_acks()
            wire.send(PfcFrame.xoff(mac, [on.priority], LONGEST_PAUSE).encode())
            on.wait("4us")
            paused = on.counters(on.dut), on.counters(on.tester)
            on.wait("100us")
            later = on.counters(on.dut), on.counters(on.tester)
            good = [one["LLR_RX_EXPECTED_SEQ_GOOD"] for one in (paused[1], later[1])]
            bench.claim(STOPPED, good[1] - good[0], equals=0)
            replays = later[0]["LLR_TX_REPLAY"] - paused[0]["LLR_TX_REPLAY"]
            bench.claim("replays in the pause", replays, at_least=1)
            bench.claim("ACKs that came in the pause", later[0]["LLR_RX_ACK_CTL_OS"] - paused[0]["LLR_RX_ACK_CTL_OS"],
                        equals=0)  # fmt: skip
            bench.claim("frames that were given up", later[0]["LLR_TX_DISCARD"], equals=0)
            bench.claim("state of the receiver", on.report(on.tester).receiver, equals="SEND_ACKS")
            on.drop_acks(False)
            wire.send(PfcFrame.xon(mac, [on.priority]).encode())
            on.wait("300us")
            bench.claim("frames in order afterwards", on.of(on.tester, "RX_EXPECTED_SEQ_GOOD")[0], equals=2000)
        bench.claim("frames dropped", on.fabric.dropped(), equals=0)
        on.ready()
