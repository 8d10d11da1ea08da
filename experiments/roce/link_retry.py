"""RoCE over a line that loses one frame in ten thousand, with Link Layer Retry (LLR) and without."""

from typing import Annotated

from xoff import (
    Cable,
    Duration,
    Flow,
    Incast,
    OneOf,
    Rate,
    Roce,
    RoceReport,
    Run,
    Size,
    experiment,
    flowing,
    network,
)

RATE, LENGTH = "200Gb/s", "40m"
TIME = Duration("4ms")
MESSAGE = Size("4MB")


@experiment(timeout="120s", free_cpu=True)
def link_retry(
    run: Run,
    loss: Annotated[str, OneOf("1/10000", "1/1000")] = "1/10000",
    recovery: Annotated[str, OneOf("go-back-N", "selective repeat")] = "go-back-N",
) -> None:
    """Goodput of RoCE where both cables of its way lose frames, and what LLR makes of them.

    Without LLR each lost frame costs the NIC a recovery from end to end. With it the cable replays the frame, and the
    NIC sees nothing: it retransmits nothing, and has the goodput of cables that lose nothing, less the time of replays.
    """
    goodput = {}
    for case, lossy, llr in (("no loss", False, False), ("loss", True, False), ("loss, LLR", True, True)):
        cable = Cable(RATE, LENGTH, loss=loss if lossy else 0, llr=llr)
        with network(Incast(1, cable=cable), case=case) as net:
            flow = Flow("h1", "r", transport=Roce(recovery=recovery, message=MESSAGE), duration=TIME)
            with flowing(flow) as flows:
                net.sleep(TIME)
            (report,) = flows.reports_of(RoceReport)
            goodput[case] = Rate.from_bps(report.size.bytes * 8 * 10**9 // report.completion.ns)
            run.figure(f"{case}: goodput", goodput[case])
            run.figure(f"{case}: packets sent again", report.retransmitted)
            run.claim(f"{case}: every octet as it was sent", report.intact, equals=True)
            if not llr:
                run.claim(f"{case}: some were sent again", report.retransmitted > 0, equals=lossy)
                continue
            ends = [net.fabric.llr(port) for port in net.fabric.names()]
            lost = sum(end.lost for end in ends)
            run.figure(f"{case}: frames that the cables lost", lost)
            run.figure(f"{case}: replays of the cables", sum(end["TX_REPLAY"] for end in ends))
            run.claim(f"{case}: frames that the cables lost", lost, at_least=1)
            run.claim(f"{case}: packets sent again", report.retransmitted, equals=0)
            run.claim(f"{case}: frames given up by LLR", sum(end["TX_DISCARD"] for end in ends), equals=0)
    least = goodput["no loss"] * 99 // 100
    run.claim("with LLR as much as without loss", goodput["loss, LLR"], at_least=least)
    run.claim("without LLR less than that", goodput["loss"], at_most=goodput["loss, LLR"])
