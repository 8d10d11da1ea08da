"""Go-back-N: RoCE over a cable that loses frames. Every octet arrives, at a price."""

from typing import Annotated, Any

from xoff import (
    Between,
    Cable,
    Duration,
    Flow,
    Flows,
    Incast,
    Roce,
    RoceReport,
    RoceSettings,
    Run,
    Size,
    experiment,
    network,
)

SIZE = Size("2MB")
TIMER = Duration("250us")
"""The retransmission timer, which helps where a packet that was sent again, or the NAK, is lost; 1 ms is usual."""
PACKETS = 2000
"""The packets of the flow, about."""


@experiment(timeout="120s")
def go_back_n(run: Run, loss_percent: Annotated[int, Between(1, 5)] = 1) -> None:
    """2 MB by writes, sends and reads over a cable that loses frames, and over one that does not.

    The receiver takes packets in order alone, and asks by a NAK for the one that is missing; the sender goes back to it
    and sends everything from there again. What has arrived has the SHA-256 of what was sent. On the cable without loss
    no packet is sent twice, and the flow is done sooner.
    """
    for operation in ("write", "send", "read"):
        clean = _run(run, f"{operation}, no loss", operation, 0)
        run.claim(f"{operation}, no loss: sent again", clean.retransmitted, equals=0)
        lossy = _run(run, f"{operation}, {loss_percent} % loss", operation, loss_percent)
        case = f"{operation}, loss"
        run.claim(f"{case}: sent again", lossy.retransmitted, at_least=PACKETS * loss_percent // 200)
        run.claim(f"{case}: times gone back", lossy.went_back, at_least=PACKETS * loss_percent // 200)
        run.claim(f"{case}: completion", lossy.completion, at_least=clean.completion + Duration("1us"))


def _run(run: Run, case: str, operation: str, loss_percent: int) -> Any:
    cable = Cable("100Gb/s", delay="1us", loss=f"{loss_percent}/100")
    with network(Incast(n=1, cable=cable), case=case):
        transport = Roce(operation=operation, settings=RoceSettings(retransmit_after=TIMER))
        with Flows([Flow("h1", "r", transport=transport, size=SIZE)]) as flows:
            flows.wait()
        (report,) = flows.reports_of(RoceReport)
        run.figure(f"{case}: completion", report.completion)
        run.figure(f"{case}: goodput", report.goodput)
        run.claim(f"{case}: received", report.size, equals=SIZE)
        run.claim(f"{case}: every octet as it was sent", report.intact, equals=True)
        run.claim(f"{case}: packets", report.received, equals=_packets())
        return report


def _packets() -> int:
    """Return the packets of a flow: full messages of 63, and the rest."""
    messages, rest = divmod(SIZE.bytes, 64_000)
    return messages * -(-64_000 // 1024) + -(-rest // 1024)
