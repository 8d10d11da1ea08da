"""Ways of RoCE to recover from loss, at one lost frame in 256: go-back-0, go-back-N, selective repeat."""

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
    RoceSettings,
    Run,
    Size,
    experiment,
    flowing,
    network,
)

LOSS = "1/256"
TIME = "3ms"
TIMER = Duration("250us")
LIMITS = {"go-back-N": ("15Gb/s", "75Gb/s"), "selective repeat": ("60Gb/s", "100Gb/s")}
"""Ranges in which the goodput is with any seed: go-back-N sends about as much again as it delivers. With both, a packet
that is lost again waits for the timer: up to four times in 3 ms, which leaves two thirds of what there is without."""


@experiment(timeout="120s", free_cpu=True)
def roce_recovery(run: Run, message: Annotated[str, OneOf("2MB", "4MB")] = "4MB") -> None:
    """Goodput at one lost frame in 256, by the way in which RoCE recovers.

    Writes of 4 MB over a line of 100 Gb/s, for 3 ms. With go-back-0 a loss lets the message begin again, and of some
    3900 packets one is always lost: no message ever arrives. Go-back-N sends again what was under way, and selective
    repeat what was lost alone. What arrives is as it was sent in each case.
    """
    for recovery in ("go-back-0", "go-back-N", "selective repeat"):
        with network(Incast(1, cable=Cable("100Gb/s", delay="1us", loss=LOSS)), case=recovery) as net:
            transport = Roce(recovery=recovery, message=Size(message), settings=RoceSettings(retransmit_after=TIMER))
            flow = Flow("h1", "r", transport=transport, duration=TIME)
            with flowing(flow) as flows:
                net.sleep(TIME)
            (report,) = flows.reports_of(RoceReport)
        run.figure(f"{recovery}: messages", report.messages)
        bits = report.messages * Size(message).bytes * 8
        goodput = Rate.from_bps(bits * 10**9 // report.completion.ns)
        run.figure(f"{recovery}: goodput of whole messages", goodput)
        run.claim(f"{recovery}: every octet as it was sent", report.intact, equals=True)
        if recovery == "go-back-0":
            run.claim(f"{recovery}: whole messages", report.messages, equals=0)
        else:
            least, most = LIMITS[recovery]
            run.claim(f"{recovery}: goodput", goodput, at_least=Rate(least), at_most=Rate(most))
