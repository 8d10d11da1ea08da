"""A real line to the nanosecond: no frame begins before the last bit of the one before it has left, or in a pause.
PFC frames wait for the line and take their time on it, and cells come free with last bits.

The rate is 10 Mb/s in the lab, 800 ns for each octet, at a scale of 1000.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import pairwise
from typing import Any

from testbed.lab import Run, experiment
from testbed.switch.pfc.line import TakenLine
from testbed.units import Rate, Size

RATE = Rate("10Mb/s")
FRAME, PFC = 1514, 60
T_NS, PFC_NS = (FRAME + 24) * 800, (PFC + 24) * 800
DELAY_NS = 5_000_000
SENDS_NS, STOPS_NS, RESUMES_NS = 26_000, 40_000, 1000
"""From the threshold to PAUSE, from PAUSE to the stopped queue, and from a pause's end to the queue that resumes."""
TAP_NS = 501
"""By so much the times of a tap are later than those of agents: a system call of `um` and a reading of the clock."""
COUNT = 12
HEADERS, OCTET_NS = 14, 800
KINDS = ("queue_stopped", "pause_expired")
CASES = {
    "test_a_port_that_was_paused_sends_no_frame_before_its_line_is_free": [
        {"sender": sender, "transport": transport, "mtu": mtu}
        for sender in ("host", "switch")
        for transport in ("udp", "roce")
        for mtu in (1500, 9000)
    ]
}


@experiment(timeout="60s")
def test_pfc_frames_wait_for_the_line_and_take_their_time_on_it(run: Run) -> None:
    """Frames go back to the sender that is paused: each leaves when the reference says, PAUSE ahead of those that wait.

    On an ideal line PAUSE leaves at once, in the middle of a frame, and is there with its first bit.
    """
    left, noted = _back(run, "real")
    sent_ns = noted["frame_sent"]
    line = TakenLine(RATE)
    # Frames that come one after the other wait for the line, and PAUSE is ready when the second one waits.
    ready = [(left[0][0], FRAME), (sent_ns, PFC), *[(left[0][0], FRAME)] * (COUNT - 1)]
    wanted = [line.send(at, Size.from_bytes(octets + 4)) for at, octets in ready]
    run.claim("what leaves", [octets for _, octets in left], equals=[octets for _, octets in ready])
    late = [at - first for (at, _), (first, _) in zip(left, wanted, strict=True)]
    run.claim("each leaves when the reference says", late, equals=[0] * (1 + COUNT))
    pause_ns = left[1][0]
    run.claim("PAUSE waits", pause_ns - sent_ns, equals=T_NS - (sent_ns - left[0][0]))
    obeyed_ns = noted["queue_stopped"] - pause_ns
    wait_ns = obeyed_ns + TAP_NS - (DELAY_NS + PFC_NS + STOPS_NS)
    run.claim("PAUSE is obeyed after its last bit", wait_ns, equals=0)
    left, noted = _back(run, "ideal")
    pauses = [at for at, octets in left if octets == PFC]
    run.claim("ideal: PAUSE waits", pauses[0] - noted["frame_sent"] - TAP_NS, equals=0)
    obeyed_ns = noted["queue_stopped"] + TAP_NS - pauses[0] - (DELAY_NS + STOPS_NS)
    run.claim("ideal: PAUSE is obeyed after its first bit", obeyed_ns, equals=0)


def _back(run: Run, line: str) -> tuple[list[tuple[int, int]], dict[str, int]]:
    """Return what left the port to the sender, with its time, and when the agents noted what for the first time."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer, Port
    from testbed.net.shell.wire import Tap
    from testbed.net.traffic import Flow
    from testbed.switch.buffer.settings import Static
    from testbed.switch.pfc.settings import PfcSettings
    from topologies.incast import Incast

    buffer = Buffer(5000, xoff=Static(4), xon_offset=0, headroom=1000)
    port = Port(pfc=PfcSettings(enabled=frozenset({3}), send_xon=False))  # so XON does not wait for the line, too
    with (
        network(Incast(1, delay="5us", buffer=buffer, port=port, line=line), run) as net,
        Tap(net["s1"], "s1-eth1", outgoing=True) as leaving,
    ):
        net.run(Flow("h1", "r", 3, count=1, frame="1514B"), Flow("r", "h1", 0, count=COUNT, frame="1514B"))
        left = [(at, len(octets)) for at, octets in leaving.arrivals() if len(octets) in (FRAME, PFC)]
        events = net.fabric.events()
    noted: dict[str, int] = {}
    for event in events:
        noted.setdefault(event.kind, event.lab_ns)
    return left, noted


@experiment(timeout="60s")
def test_the_cells_of_a_frame_come_free_with_its_last_bit(run: Run) -> None:
    """No frame fits below the threshold, so each is a pause, which ends when its cells are free."""
    for line, wanted in (("real", T_NS), ("ideal", 0)):
        lasted, in_use = _pauses(run, line)
        late = [ns - wanted for ns in lasted]
        run.claim(f"{line}: each pause ends when the frame has left", late, equals=[0] * 3)
        run.claim(f"{line}: cells in use at the end", in_use, equals=0)


def _pauses(run: Run, line: str) -> tuple[list[int], int]:
    """Return how long the group was congested by each of three frames, and the cells that are in use after them."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer
    from testbed.net.traffic import Flow
    from testbed.switch.buffer.settings import Static
    from topologies.incast import Incast

    buffer = Buffer(5000, xoff=Static(4), xon_offset=0, headroom=100)
    with network(Incast(1, delay="5us", buffer=buffer, line=line), run) as net:
        for _ in range(3):
            net.run(Flow("h1", "r", 3, count=1, frame="1514B"))
            net.sleep("20us")
        events: list[Any] = [one for one in net.fabric.events() if one.kind in ("congested", "relieved")]
        in_use = sum(net.fabric.group("s1-eth1", 3).used)
    moments = [one.lab_ns for one in events]
    return [later - earlier for earlier, later in list(pairwise(moments))[::2]], in_use


@experiment(timeout="120s")
def test_a_port_that_was_paused_sends_no_frame_before_its_line_is_free(
    run: Run, sender: str = "host", transport: str = "udp", mtu: int = 1500
) -> None:
    """The last frame before the pause has begun when the queue is stopped; after it each frame waits for its line."""
    from testbed.frames.mac_control import PfcFrame
    from testbed.net.build.network import network
    from testbed.net.fabric.cable import Cable
    from testbed.net.fabric.port import Port
    from testbed.net.shell.wire import RawPort, Tap
    from testbed.net.traffic import Flow, Flows
    from testbed.switch.ecn.curve import EcnCurve
    from testbed.units import Duration
    from topologies.incast import Incast

    node, name, far, far_name = ("h1", "h1-eth0", "s1", "s1-eth1")
    if sender == "switch":
        node, name, far, far_name = "s1", "s1-eth2", "r", "r-eth0"
    cable = Cable(RATE * 1000, delay=Duration("500ns"), mtu=mtu)
    what = {"count": 300, "frame": "1514B"} if transport == "udp" else {"size": "300kB"}
    flow = Flow("h1", "r", transport=transport, start="20us", **what)
    for name_of, marks in (("without ECN", {}), ("with ECN", {3: EcnCurve("400kB", "800kB", "1%")})):
        with network(Incast(1, port=Port(ecn=marks), cable=cable), run) as net:
            with Tap(net[node], name, outgoing=True) as tap, RawPort(net[far], far_name) as wire:
                with Flows([flow]) as flows:
                    net.sleep("60us")
                    wire.send(PfcFrame.of(net.fabric.port(far_name).mac, {3: 2000}).encode())
                    flows.wait()
                left = [(at - TAP_NS, _octets(frame)) for at, frame in tap.arrivals()]
            events = [one for one in net.fabric.events() if one.port == name]
        stopped, resumed = (next(one.lab_ns for one in events if one.kind == kind) for kind in KINDS)
        before = [at + octets * OCTET_NS for at, octets in left if at < stopped]
        after = [(at, octets) for at, octets in left if at >= stopped]
        run.claim(f"{name_of}: the last frame before the pause is under way", before[-1] > stopped, equals=True)
        run.claim(f"{name_of}: frames after the pause", len(after), at_least=100)
        run.claim(f"{name_of}: the first of them leaves when the pause ends", after[0][0] - resumed, equals=RESUMES_NS)
        waits = [later - at - octets * OCTET_NS for (at, octets), (later, _) in pairwise(after)]
        run.claim(f"{name_of}: the earliest, after its line is free", min(waits), equals=0)


def _octets(frame: bytes) -> int:
    """Return what a frame with IPv4 takes on the wire; a tap does not have the whole of a long one."""
    return int.from_bytes(frame[16:18], "big") + HEADERS + 24


@experiment(timeout="600s")
def test_the_first_frames_of_eight_queues_leave_one_after_the_other(run: Run) -> None:
    """Frames of eight priorities are there at one moment, at the start and after each has been idle for two minutes."""
    from testbed.net.build.network import network
    from testbed.net.shell.wire import RawPort, Tap
    from topologies.incast import Incast

    with network(Incast(8), run) as net, ExitStack() as stack:
        target = net.fabric.port("r-eth0").mac.octets
        wires = [stack.enter_context(RawPort(net[f"h{n}"], f"h{n}-eth0")) for n in range(1, 9)]
        for node, name, senders in (("h1", "h1-eth0", wires[:1] * 8), ("s1", "s1-eth9", wires)):
            for when in ("first", "after two minutes"):
                with Tap(net[node], name, outgoing=True) as tap:
                    for priority, wire in enumerate(senders):
                        wire.send(_frame(target, priority))
                    net.sleep("50us")
                    left = [at for at, _ in tap.arrivals()]
                gaps = [later - earlier for earlier, later in pairwise(left)]
                run.claim(f"{node}, {when}: ns beyond their lines", [gap - T_NS for gap in gaps], equals=[0] * 7)
                net.sleep("120ms")


def _frame(target: bytes, priority: int) -> bytes:
    """Return a frame with IPv4 whose DSCP stands for a priority."""
    header = bytes([0x45, priority << 5]) + (FRAME - HEADERS).to_bytes(2, "big")
    return (target + bytes(5) + b"\x01\x08\x00" + header).ljust(FRAME, b"\0")
