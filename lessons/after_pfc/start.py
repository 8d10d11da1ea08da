"""Lesson 7: after PFC. Edit the first part; run it with `xoff run FILE --report`."""

from xoff import Cable, Dumbbell, Flow, Incast, Llr, Port, RoceReport, Run, experiment, network

# ---- Your part -------------------------------------------------------------------------------------------------------

TRIMMED_TO: int | None = None
"""Step 1: the octets that are left of a frame without room. None: it is dropped."""

REPLAY_FRAMES = 0
"""Step 2: the frames that a sender keeps until they are acknowledged. 0: the cable has no Link Layer Retry."""

CELLS = 40
"""Step 3: the cells that a switch keeps for a port with credits."""


# ---- Keep this part --------------------------------------------------------------------------------------------------


@experiment(timeout="180s")
def after_pfc(run: Run) -> None:
    """A full buffer without PFC, a damaged cable, and a cable with credits: as you set them."""
    _full(run)
    _damaged(run)
    _credits(run)


def _full(run: Run) -> None:
    """Four hosts send to one, without PFC."""
    port = Port(strict=frozenset({6})).without_pfc()
    if TRIMMED_TO is not None:
        port = port.with_trimming(3, size=TRIMMED_TO, dscp=48, queue=6)
    with network(Incast(n=4, port=port, total=1500), case="full") as net:
        *hosts, target = net.hosts
        flows = net.run(*(Flow(host, target, 3, "1514B", count=400) for host in hosts))
        trimmed = net.fabric.trimmed(net.port("s1", target.name))
    run.figure("full: lost", flows.lost)
    run.figure("full: rests", trimmed.sent_frames)


def _damaged(run: Run) -> None:
    """RoCE over a cable that damages one frame in 200."""
    repair = Llr(frames=REPLAY_FRAMES) if REPLAY_FRAMES else False
    cable = Cable("100Gb/s", "40m", loss="1/200", llr=repair)
    with network(Incast(n=1, cable=cable), case="damaged") as net:
        flows = net.run(Flow("h1", "r", transport="roce", rate_control="fixed", size="2MB"))
        replays = net.fabric.llr("h1-eth0")["TX_REPLAY"] if repair else 0
    (report,) = flows.reports_of(RoceReport)
    run.figure("damaged: sent again by RoCE", report.retransmitted)
    run.figure("damaged: goodput", report.goodput)
    run.figure("damaged: replays of the first cable", replays)


def _credits(run: Run) -> None:
    """One host sends to another over two switches and 2 km, or 10 us, with credits; a cell has 208 octets."""
    port = Port().with_credits(3, cells=CELLS)
    with network(Dumbbell(n=1, between="10us", port=port), case="credits") as net:
        flows = net.run(Flow("h1", "r1", 3, "1514B", duration="1ms"))
        used = net.fabric.credits(net.port("s1", "s2")).vcs[3].sender_credits_used_watermark
    run.figure("credits: goodput", flows.reports[0].goodput)
    run.figure("credits: lost", flows.lost)
    run.figure("credits: cells", CELLS)
    run.figure("credits: most that were out", used)
