"""A port without room pauses all of its lossless priorities, and resumes them together (DSH)."""

from __future__ import annotations

from testbed.lab import Run, experiment

CELLS, THRESHOLD = 8, 40


@experiment(timeout="60s")
def test_a_port_without_room_pauses_priorities_that_hold_nothing(run: Run) -> None:
    """Two senders overload a port on one of two lossless priorities; what is in flight is more than both thresholds.

    With a threshold below the headroom a group is paused by its first shared frame, and what comes in then fills the
    part of the shared pool that the port may have. So the other priority is paused with it, and nothing is lost.

    A port that resumes a frame below its threshold is paused once in each round of the senders, and each of its pauses
    is an XOFF for the idle priority. Without that offset it resumes when its frame leaves headroom, and is paused again
    in the same nanosecond, for the next frame comes when that one has left: two pauses, and one XOFF. An agent that is
    told XON asks the group before it sends any (`xp_go_on` of xoff_pfc_rules.h).
    """
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer, Port
    from testbed.net.traffic import Flow
    from testbed.net.watch.readings import whole_port
    from testbed.switch.buffer.headroom import DynamicSharedHeadroom
    from testbed.switch.buffer.settings import Static
    from topologies.incast import Incast

    two, seven = (3, 4), tuple(range(1, 8))
    for lossless, xon_offset, pauses, xoff in ((two, CELLS, 8, 8), (two, 0, 16, 8), (seven, 0, 0, 0)):
        buffer = Buffer(5000, xoff=Static(THRESHOLD), xon_offset=xon_offset, headroom=DynamicSharedHeadroom(260))
        with network(Incast(2, delay="15us", port=Port().with_pfc(*lossless), buffer=buffer)) as net:
            flows = net.run(*(Flow(host, "r", 3, count=200, frame="1514B") for host in ("h1", "h2")))
            ports = [whole_port(net.fabric, name) for name in ("s1-eth1", "s1-eth2")]
            sent = [net.fabric.pfc("s1-eth1", priority) for priority in (3, 4)]
            received = net.fabric.pfc("h1-eth0", 4)
        name = f"{len(lossless)} lossless priorities, XON {xon_offset} cells below"
        run.claim(f"{name}: lost", flows.lost, equals=0)
        run.claim(f"{name}: ports paused as a whole", [port.pauses for port in ports], equals=[pauses] * 2)
        run.claim(f"{name}: and resumed", [port.resumes for port in ports], equals=[port.pauses for port in ports])
        run.claim(f"{name}: cells left", [port.used_shared + port.used_headroom for port in ports], equals=[0, 0])
        most = len(lossless) * THRESHOLD // CELLS * CELLS
        run.claim(f"{name}: most shared cells of a port", max(port.most_shared for port in ports), at_most=most)
        run.claim(f"{name}: XOFF for the busy priority", sent[0]["xoff_sent"], equals=8)
        run.claim(f"{name}: XOFF for the idle one", sent[1]["xoff_sent"], equals=xoff)
        run.claim(f"{name}: XON for the idle one", received["xon_received"], equals=xoff)
