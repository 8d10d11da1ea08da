"""A network over several kernels: what crosses the cables between them, and what cannot be."""

from xoff import Cable, EcnCurve, Flow, LosslessTopo, Port, Run, experiment, network


class Racks(LosslessTopo):
    """Racks in a row, with a cable between the switches of neighbours."""

    def build(self, racks: int = 2, hosts: int = 2, between: str = "100m") -> None:
        for rack in range(1, racks + 1):
            self.addSwitch(f"s{rack}")
            for host in range(1, hosts + 1):
                self.addLink(self.addHost(_host(rack, host)), f"s{rack}")
            if rack > 1:
                self.addLink(f"s{rack - 1}", f"s{rack}", cable=Cable("10Gb/s", between))


def _host(rack: int, host: int) -> str:
    return f"h{rack}{chr(96 + host)}"


@experiment(timeout="60s", partitions=2)
def roce(run: Run, racks: int = 2, hosts: int = 2, ms: int = 1) -> None:
    """RoCE with DCQCN: in each rack the first host gets the frames of its own rack and of another one, so its switch
    pauses the cable that leads to another kernel.
    """
    port = Port(ecn={3: EcnCurve("10kB", "40kB", "20%")}).with_pfc(3)
    with network(Racks(racks, hosts, port=port, total=400)) as net:
        ends = [
            (_host(source, host), _host(target, 1))
            for target in range(1, racks + 1)
            for source in (target, target % racks + 1)
            for host in range(1, hosts + 1)
            if (source, host) != (target, 1)
        ]
        flows = [Flow(*pair, 3, transport="roce", rate_control="dcqcn", duration=f"{ms}ms") for pair in ends]
        running = net.run(*flows)
        pauses = [net.fabric.pfc(net.port(*way), 3) for way in (("s1", "s2"), ("s2", "s1"))]
        run.figure("frames from the cable between racks", net.fabric.group(net.port("s2", "s1"), 3).admitted_frames)
        run.figure("most cells in the second switch", net.fabric.buffer("s2").high_water)
        run.figure("the far host's answer", net["h2a"].cmd("cat /proc/sys/net/ipv4/ip_forward").strip())
        run.figure("events", len(net.fabric.events()))
    run.figure("pauses sent between racks", [one["xoff_sent"] for one in pauses])
    run.figure("pauses received between racks", [one["xoff_received"] for one in pauses])
    run.figure("received", [report.received for report in running.reports])
    run.figure("marked", sum(report.marked for report in running.reports))
    run.claim("lost", sum(report.lost for report in running.reports), equals=0)


@experiment(timeout="60s", partitions=2)
def udp(run: Run, hosts: int = 2, ms: int = 2, length: str = "100m") -> None:
    """UDP at line rate: a host of each rack sends to the other one, and the others send within their rack."""
    with network(Racks(2, hosts, length, port=Port().with_pfc(3))) as net:
        flows = [
            Flow(_host(rack, host), _host(3 - rack if host == 1 else rack, host % hosts + 1), 3, duration=f"{ms}ms")
            for rack in (1, 2)
            for host in range(1, hosts + 1)
        ]
        running = net.run(*flows)
    run.figure("received", [report.received for report in running.reports])
    run.claim("lost", sum(report.lost for report in running.reports), equals=0)
