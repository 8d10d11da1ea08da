"""The jobs in the lab of bench/srv6.py."""

import time

from testbed.lab import Run, experiment


@experiment(_in_lab_time=True, timeout="300s")
def tunnelled(run: Run, frames: int = 1000) -> None:
    """Measure PFC frames out of a reverse tunnel while data flow: the time from arrival to the stop of the queue."""
    import socket

    from testbed.frames import Mac
    from testbed.frames.mac_control import PfcFrame
    from testbed.linux.process import kernel
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from testbed.subjects.srv6.lab import routers as srv6
    from testbed.subjects.srv6.protocol.reverse_tunnel import Encapsulator, ReverseTunnel
    from testbed.units import Rate, Size
    from topologies.srv6_wan import Srv6Wan

    topo = Srv6Wan(n=1, wan="1km")
    mac = Mac.parse("02:00:00:00:00:99")
    with network(topo, run) as net:
        place, leg = topo.graph.leg("r1", "r2")
        way = (srv6.end_sid("r3"), srv6.end_sid("r2"), srv6.end_x_pfc_sid("r1", place, leg))
        packets = Encapsulator(ReverseTunnel("r3", "r1", tuple(sid.address for sid in way)), srv6.source_address(3))
        with kernel.in_network_of(net["r3"].pid):
            raw = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
        flow = Flow(net["a1"], net["b1"], 3, Size("1400B"), rate=Rate("2Mb/s"))
        with Flows([flow]) as flows, run.measuring():
            for number in range(frames):
                frame = PfcFrame.xon(mac, [3]) if number % 2 else PfcFrame.xoff(mac, [3])
                raw.sendto(packets.packet(frame), (str(way[1].address), 0))
                time.sleep(0.003)
            flows.stop_sending()
        raw.close()
        taken = sorted(event.detail["reaction_ns"] for event in net.fabric.events() if event.kind == "tunnel_received")
        run.figure("samples", len(taken))
        for part in (50, 90, 99):
            run.figure(f"p{part}", taken[len(taken) * part // 100] / 1000, "us")
        run.figure("worst", taken[-1] / 1000, "us")
