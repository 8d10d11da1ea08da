"""Link Layer Retry on a cable between two switches, frame by frame: losses, damage, replays, giving up, pulling."""

from __future__ import annotations

from typing import Any

from testbed.lab import Run, experiment

FRAME = "1514B"
FRAME_NS = (1514 + 24) * 800
"""The time of a frame on the lab's lines of 10 Mb/s."""


def _pair(**cable: Any) -> Any:
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.cable import Cable

    class Pair(LosslessTopo):
        """Two hosts, two switches, and the cable between these."""

        def build(self) -> None:
            for number in (1, 2):
                self.addSwitch(f"s{number}")
                self.addLink(self.addHost(f"h{number}"), f"s{number}", cable=Cable("10Gb/s", "5m"))
            self.addLink("s1", "s2", cable=Cable("10Gb/s", "100m", **cable))

    return Pair(scale=1000)


def _send(net: Any, count: int, **flow: Any) -> Any:
    from testbed.net.traffic import Flow

    (report,) = net.run(Flow("h1", "h2", frame=FRAME, count=count, **flow)).reports
    return report


@experiment(timeout="60s")
def test_a_lost_frame_is_asked_for_and_replayed_once_and_costs_the_line_its_time(run: Run) -> None:
    """Scale-Up Test Standard, LLR-01, 02 and 04: what the counters say, and when the last frame arrives."""
    from testbed.net.build.network import network
    from testbed.switch.link.jam import Jam

    took = {}
    for case, jams in (
        ("none", ()),
        ("lost", (Jam("frame", "lost", 50),)),
        ("damaged", (Jam("frame", "damaged", 50),)),
    ):
        with network(_pair(llr=True), run, case=case) as net:
            net.fabric.core.cabling.jam("s1-eth2", *jams)
            report = _send(net, 100)
            took[case] = report.last_lab_ns - report.first_lab_ns
            sender, receiver = net.fabric.llr("s1-eth2"), net.fabric.llr("s2-eth2")
            run.claim(f"{case}: frames lost", (report.lost, report.doubled, report.out_of_order), equals=(0, 0, 0))
            seen = sender["RX_NACK_CTL_OS"], sender["TX_REPLAY"], sender["TX_DISCARD"]
            run.claim(f"{case}: NACKs, replays, frames given up", seen, equals=(int(bool(jams)), int(bool(jams)), 0))
            again = sender["TX_OK"] - 100
            run.claim(f"{case}: frames sent again", again, equals=2 if jams else 0)  # it and the one after it
            good = receiver["RX_EXPECTED_SEQ_GOOD"], receiver["RX_DUPLICATE_SEQ"], receiver["RX_REPLAY"]
            run.claim(f"{case}: frames passed on, doubled, replays seen", good, equals=(100, 0, int(bool(jams))))
            bad = receiver["RX_BAD"], receiver["RX_EXPECTED_SEQ_BAD"]
            run.claim(f"{case}: damaged frames", bad, equals=(int(case == "damaged"),) * 2)
            run.claim(f"{case}: states", (sender.state, receiver.receiver), equals=("ADVANCE", "SEND_ACKS"))
            run.claim(f"{case}: ACKs that were sent came", sender["RX_ACK_CTL_OS"], equals=receiver["TX_ACK_CTL_OS"])
        if jams:
            delayed = took[case] - took["none"]
            run.claim(
                f"{case}: delay of what follows", delayed, at_least=again * FRAME_NS, at_most=again * FRAME_NS + 130
            )


@experiment(timeout="60s")
def test_without_an_acknowledgement_a_sender_gives_up_or_begins_again(run: Run) -> None:
    """LLR-03 and 08: three replays, then FLUSH, or INIT and its echo; what was given up had arrived all the same."""
    from testbed.net.build.network import network
    from testbed.switch.link.jam import Jam
    from testbed.switch.link.retry import Llr

    for begins, state in ((False, "FLUSH"), (True, "ADVANCE")):
        with network(_pair(llr=Llr(replay_count=3, re_init=begins)), run, case=state) as net:
            net.fabric.core.cabling.jam("s2-eth2", Jam("ack", "lost", 1, 10**6))
            report = _send(net, 3)
            net.sleep("100us")
            sender = net.fabric.llr("s1-eth2")
            run.claim(f"{state}: frames that arrived", report.received, equals=3)
            run.claim(f"{state}: state", sender.state, equals=state)
            run.claim(f"{state}: replays, flushes", (sender["TX_REPLAY"], sender.flushes), equals=(3, 1))
            run.claim(f"{state}: INITs", sender["TX_INIT_CTL_OS"], equals=1 + begins)
            events = [(one.kind, one.port, one.detail["frames"]) for one in net.fabric.events() if "llr" in one.kind]
            replays = [("llr_replay", "s1-eth2", 3)] * 3
            run.claim(f"{state}: events", events, equals=[*replays, ("llr_flush", "s1-eth2", 3)])
            net.fabric.core.cabling.jam("s2-eth2")
            run.claim(f"{state}: more frames arrive", _send(net, 50).received, equals=50)


@experiment(timeout="60s")
def test_bit_errors_lose_frames_without_llr_and_none_with_it(run: Run) -> None:
    """The same bits are damaged in both runs, so the first damaged frame is the same one."""
    from testbed.net.build.network import network
    from testbed.switch.link.errors import BitErrors, FecErrors

    for errors in (BitErrors("2e-6"), FecErrors("2e-3", 4)):
        lost = {}
        for llr in (False, True):
            with network(_pair(errors=errors, llr=llr), run, case=f"{errors}, {llr}") as net:
                report = _send(net, 500)
                found = net.fabric.llr("s1-eth2")
                lost[llr] = report.lost
                if not llr:
                    run.claim(f"{errors}: each lost frame is a damaged one", found.damaged, equals=report.lost)
        run.claim(f"{errors}: without LLR frames are lost", lost[False], at_least=2, at_most=60)
        run.claim(f"{errors}: with LLR", lost[True], equals=0)


@experiment(timeout="60s")
def test_a_cable_that_was_pulled_begins_anew(run: Run) -> None:
    from testbed.net.build.network import network

    with network(_pair(llr=True), run) as net:
        _send(net, 20)
        net.fabric.core.cabling.pull("s1-eth2")
        net.sleep("50us")
        net.fabric.core.cabling.plug("s1-eth2")
        net.sleep("50us")
        sender = net.fabric.llr("s1-eth2")
        run.claim("state", sender.state, equals="ADVANCE")
        run.claim("INITs", sender["TX_INIT_CTL_OS"], at_least=2)
        run.claim("frames arrive again", _send(net, 20).received, equals=20)


@experiment(timeout="60s")
def test_a_full_replay_buffer_stops_the_port(run: Run) -> None:
    """LLR-06: four frames without acknowledgement and no more; what waits is in the switch's buffer."""
    from testbed.net.build.network import network
    from testbed.switch.link.jam import Jam
    from testbed.switch.link.retry import Llr

    with network(_pair(llr=Llr(frames=4)), run) as net:
        net.fabric.core.cabling.jam("s2-eth2", Jam("ack", "lost", 2, 6))
        report = _send(net, 60)
        sender = net.fabric.llr("s1-eth2")
        run.claim("frames that arrived, in their order", (report.received, report.out_of_order), equals=(60, 0))
        run.claim("replays", sender["TX_REPLAY"], at_least=1)
        run.claim("frames of a replay", sender["TX_OK"] - 60, at_least=1, at_most=4 * sender["TX_REPLAY"])
        run.claim("frames kept and held", (sender.kept, sender.held), equals=(0, 0))


@experiment(timeout="60s")
def test_llr_is_switched_off_and_on_at_one_end_while_the_network_runs(run: Run) -> None:
    """Nothing is repaired while it is off, a frame is while it is on, and the other end's settings stay."""
    from testbed.net.build.network import network
    from testbed.net.fabric.cable import BOTH_WAYS, NO_LLR
    from testbed.switch.link.jam import Jam
    from testbed.switch.link.retry import Llr

    with network(_pair(llr=True), run) as net:
        cabling = net.fabric.core.cabling
        cabling.set_retry("s1-eth2", Llr(frames=4), NO_LLR)
        cabling.set_retry("s2-eth2", None, NO_LLR)
        cabling.jam("s1-eth2", Jam("frame", "lost", 10))
        run.claim("modes", (cabling.retry_mode("s1-eth2"), cabling.retry_mode("s1-eth1")), equals=(NO_LLR, NO_LLR))
        before = net.fabric.llr("s1-eth2")
        run.claim("frames that arrive while it is off", _send(net, 20).received, equals=20)
        off = net.fabric.llr("s1-eth2")
        run.claim("state while it is off", (off.state, off.receiver), equals=("OFF", "OFF"))
        run.claim("frames with a number while it is off", off["TX_OK"] - before["TX_OK"], equals=0)
        for port in ("s2-eth2", "s1-eth2"):
            cabling.set_retry(port, Llr(frames=4) if port == "s1-eth2" else None, BOTH_WAYS)
        cabling.set_retry("s2-eth2", None, NO_LLR)
        cabling.set_retry("s2-eth2", None, BOTH_WAYS)
        net.sleep("20us")
        report = _send(net, 20)
        sender = net.fabric.llr("s1-eth2")
        run.claim("states", (sender.state, sender.receiver), equals=("ADVANCE", "SEND_ACKS"))
        run.claim("a frame that is lost is replayed", (report.lost, sender["TX_REPLAY"]), equals=(0, 1))
        run.claim("frames sent again", sender["TX_OK"] - 20, equals=sender.replayed)
        run.claim("octets sent again", sender.replayed_octets, equals=1518 * sender.replayed)
        run.claim("numbers", (sender.next_sequence, net.fabric.llr("s2-eth2").expected), equals=(20, 20))


@experiment(timeout="60s")
def test_the_live_views_rows_have_the_counters_of_llr_and_of_credits(run: Run) -> None:
    """Rows of ports as metrics are made of them agree with a network's own views."""
    from testbed.net.build.network import network
    from testbed.net.fabric.cable import Cable
    from testbed.net.fabric.port import Port
    from testbed.net.live.sampler import CounterSampler
    from testbed.net.traffic import Flow
    from testbed.switch.link.jam import Jam
    from topologies.incast import Incast

    cable = Cable("10Gb/s", "100m", llr=True)
    with network(Incast(1, cable=cable, port=Port().with_credits(3)), run) as net:
        sampler = CounterSampler(net.fabric)
        sampler.changes()
        net.fabric.core.cabling.jam("h1-eth0", Jam("frame", "lost", 50))
        net.run(Flow("h1", "r", 3, frame=FRAME, count=100))
        rows = {row["of"]: row for row in sampler.changes()}
        report, credits = net.fabric.llr("h1-eth0"), net.fabric.credits("h1-eth0")
        llr = rows["h1-eth0"]["llr"]
        run.claim("replays", (llr["counters"]["TX_REPLAY"], llr["lost"], llr["flushes"]), equals=(1, 1, 0))
        counters = {name.removeprefix("LLR_"): count for name, count in report.counters.items()}
        run.claim("all counters", llr["counters"], equals=counters)
        channel = rows["h1-eth0"]["credits"]["vcs"]["3"]
        run.claim("credits", channel["sender_credits_consumed"], equals=credits.vcs[3].sender_credits_consumed)
        run.claim("some credits", channel["sender_credits_consumed"], at_least=100)
