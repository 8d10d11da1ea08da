"""RDMA over commodity Ethernet at scale: NICs that begin a message again after a loss deliver nothing."""

from xoff import (
    Cable,
    Duration,
    Flow,
    Incast,
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

SOURCE = "Guo et al., RDMA over Commodity Ethernet at Scale, SIGCOMM 2016, section 4.1"
DIFFERS = "frames are lost by chance, one in 256, and not by the last octet of their IP identification"
LINE = Rate("40Gb/s")
LOSS = "1/256"
MESSAGE = Size("4MB")
LASTS = Duration("5ms")


@experiment(timeout="120s")
def livelock(run: Run) -> None:
    """Goodput of a NIC that begins a message of 4 MB again at each loss, at one lost frame in 256.

    Sends, writes and reads between two hosts, whose line is busy all the time. With go-back-0 no message ever arrives,
    as published. Go-back-N, the published cure, delivers. The control case is go-back-0 without loss.
    """
    for operation in ("send", "write", "read"):
        goodput, busy = _goodput(f"{operation}, go-back-0", operation, "go-back-0", LOSS)
        run.published(
            f"{operation}, go-back-0: goodput", goodput, value=Rate("0b/s"), within=0, source=SOURCE, differs=DIFFERS
        )
        # "While the link was fully utilized": all but what a loss costs until the NAK of it is there.
        run.claim(f"{operation}, go-back-0: part of the line that is busy", busy, at_least=0.75)
        cured, _ = _goodput(f"{operation}, go-back-N", operation, "go-back-N", LOSS)
        run.claim(f"{operation}, go-back-N: goodput", cured, at_least=LINE // 4)
    goodput, _ = _goodput("write, go-back-0, nothing lost", "write", "go-back-0", "0")
    run.claim("write, go-back-0, nothing lost: goodput", goodput, at_least=LINE * 3 // 4)


def _goodput(case: str, operation: str, recovery: str, loss: str) -> tuple[Rate, float]:
    """Return the goodput of whole messages, and the part of the line that the sender's frames took."""
    with network(Incast(1, cable=Cable(LINE, delay="1us", loss=loss)), case=case) as net:
        # A packet that is lost at the end has no NAK; a NIC's usual timer would wait longer for it than all else takes.
        settings = RoceSettings(retransmit_after=Duration("1ms"))
        transport = Roce(recovery=recovery, operation=operation, message=MESSAGE, settings=settings)
        with flowing(Flow("h1", "r", transport=transport, duration=LASTS)) as flows:
            net.sleep(LASTS)
            frames = sum(net.fabric.sent(net.port("h1", "s1")).sent_frames)
        (report,) = flows.reports_of(RoceReport)
        busy = float(frames * report.wire_bits / LINE.bits_in(LASTS))
        delivered = report.messages * MESSAGE.bits
    time = max(report.completion, LASTS)  # the message under way at the end is sent to its last octet
    return Rate.from_bps(delivered * 10**9 // time.ns), round(busy, 3)
