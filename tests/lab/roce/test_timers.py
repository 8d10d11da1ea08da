"""Retransmission of RoCE: losses that lie far apart, pauses that are longer than a timer, and what is said of both."""

from __future__ import annotations

import io
from contextlib import redirect_stderr

from testbed.roce.settings import Settings
from xoff import (
    Cable,
    Duration,
    Flow,
    Flows,
    Incast,
    Nic,
    PfcFrame,
    Port,
    RawPort,
    Roce,
    RoceReport,
    Run,
    Size,
    experiment,
    network,
)


def _of(running: Flows) -> RoceReport:
    return running.reports_of(RoceReport)[0]


@experiment(timeout="100s")
def test_timers_that_end_without_a_loss_are_warned_of(run: Run) -> None:
    """A round trip takes 200 us; the same flow with a timer below it, and with the default."""
    with network(Incast(1, delay="50us")) as net:
        for settings, warnings in ((Settings(retransmit_after=Duration("50us"), retries=254), 1), (Settings(), 0)):
            flow = Flow(net["h1"], net["r"], transport=Roce(settings=settings), size="100kB")
            with Flows([flow]) as running:
                running.wait()
            said = Roce.remarks([(flow, running.reports[0])])
            run.claim(f"warnings with {settings.retransmit_after}", len(said), equals=warnings)
            for text in said:
                run.claim("the warning", "and 0 frames were lost in the network (h1 to r)" in text, equals=True)


@experiment(timeout="100s")
def test_losses_far_apart_cost_one_round_trip_together(run: Run) -> None:
    """40 MB at 100 Gb/s over 200 km: some forty losses, nearly all further apart than an acknowledgement tells."""
    window, found = 1 << 16, []
    for loss in ("0", "1/2000"):
        with network(Incast(1, port=Port().without_pfc(), cable=Cable("100Gb/s", delay="500us", loss=loss))):
            nic = Nic(bdp_packets=window, timeout_low=Duration("100ms"), timeout_high=Duration("100ms"))
            transport = Roce("write", Size("40MB"), Settings(window=window), recovery="selective repeat", nic=nic)
            with Flows([Flow("h1", "r", transport=transport, size="40MB")]) as running:
                running.wait()
            found.append(_of(running))
    whole, repaired = found
    run.claim("without a loss: sent again", whole.retransmitted, equals=0)
    run.claim("without a loss: completion", whole.completion, equals=Duration("4456207.187ns"))
    run.claim("lost packets that were sent again", repaired.retransmitted, at_least=40, at_most=50)
    run.claim("time-outs", repaired.timeouts, equals=0)
    run.claim("octets as they were sent", repaired.intact, equals=True)
    # The NAK of the last loss, and its packet again, beside the time of those that were sent twice.
    more = repaired.completion - whole.completion
    run.claim("more time", more, at_least=Duration("1.9ms"), at_most=Duration("2ms") + Duration("5us"))


@experiment(timeout="100s")
def test_a_burst_that_stands_for_8_ms_is_not_sent_again(run: Run) -> None:
    """The receiver pauses for 8 ms of hardware: nothing is sent again by default, and much with a timer of 1 ms."""
    pause, every = Duration("8ms"), Duration("1ms")
    for settings, warnings in ((Settings(), 0), (Settings(retransmit_after=Duration("1ms"), retries=254), 1)):
        with network(Incast(4)) as net:
            xoff, xon = (PfcFrame.of(net.fabric.port("r-eth0").mac, {3: quanta}).encode() for quanta in (65535, 0))
            flows = [Flow(net[f"h{n}"], net["r"], transport=Roce(settings=settings), size="1MB") for n in range(1, 5)]
            with RawPort(net["r"], "r-eth0") as wire, Flows(flows) as running:
                last_ns = wire.repeat(xoff, net.lab_ns(every), pause // every)
                wire.send_at(xon, last_ns + net.lab_ns(every))
                running.wait()
            said = Roce.remarks(list(zip(flows, running.reports, strict=True)))
            reports = running.reports_of(RoceReport)
        case = f"timer {settings.retransmit_after}"
        run.figure(f"{case}: completion", running.completion)
        again = [report.retransmitted for report in reports]
        run.figure(f"{case}: sent again", again)
        run.claim(
            f"{case}: all flows sent packets again, or none", sorted({one > 0 for one in again}), equals=[warnings > 0]
        )
        run.claim(f"{case}: lost", running.lost, equals=0)
        run.claim(f"{case}: warnings", len(said), equals=warnings)
        if not warnings:
            run.claim(f"{case}: completion", running.completion, equals=Duration("11439335.615ns"))


@experiment(timeout="100s")
def test_flows_that_wait_for_their_timer_say_so_while_they_wait(run: Run) -> None:
    """The last packets of a flow are lost with its cable: nothing but the timer, 67 s of the lab, finds that."""
    with network(Incast(1, delay="1us")) as net, redirect_stderr(io.StringIO()) as said:
        with Flows([Flow("h1", "r", transport="roce", size="100kB")]) as running:
            net.sleep("50us")
            net.fabric.cabling.pull("h1-eth0")
            net.sleep("200us")
            net.fabric.cabling.plug("h1-eth0")
            running.wait()
        run.claim("time-outs", _of(running).timeouts, equals=1)
        run.claim("warnings", [line for line in said.getvalue().splitlines() if line.startswith("warning: ")], equals=[
            "warning: flows h1 to r have not moved for 10 s of the lab or more: RoCE finds the loss of the last packets"
            " under way by its retransmission timer alone, as NICs do: 67.108864ms, which are 67.108864s of the lab; "
            "Settings(retransmit_after=...) shortens it"
        ])  # fmt: skip


@experiment(timeout="100s")
def test_a_window_that_the_messages_under_way_do_not_fill_is_warned_of(run: Run) -> None:
    """64 messages are under way at most: a longer window needs longer ones."""
    settings = Settings(window=8192)
    with network(Incast(1)), redirect_stderr(io.StringIO()) as said:
        for message, size in (("64kB", "5MB"), ("64kB", "4MB"), ("256kB", "5MB")):
            with Flows([Flow("h1", "r", transport=Roce("write", Size(message), settings), size=size)]) as running:
                running.wait()
    run.claim("warnings", said.getvalue().splitlines(), equals=[
        "warning: a window of 8192 packets is never full: 64 messages of 64kB are under way at most (flows: h1 to r); "
        "Roce(message=...) makes them longer"
    ])  # fmt: skip
