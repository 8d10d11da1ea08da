"""What a protocol analyser sees of an agent's work."""

from testbed.lab import Run, experiment
from testbed.net.port import Buffer, Port
from testbed.pfc.settings import PfcSettings

LOSSLESS = frozenset({1, 2, 3})


@experiment(timeout="60s")
def pause_frames(run: Run) -> None:
    """What agents send, as an analyser on the senders' cables sees it: XOFF, refreshes, XON, several classes."""
    from testbed.net.network import network
    from testbed.net.traffic import Flow, Flows
    from testbed.net.wire import capture
    from topologies.incast import Incast

    port = Port(pfc=PfcSettings(enabled=LOSSLESS, pause_quanta=2000))
    topo = Incast(2, scale=200, port=port, buffer=Buffer(total=1500, xon_offset=200))
    with network(topo, run, autoStaticArp=True) as net:
        *senders, target = net.hosts
        flows = [Flow(sender, target, priority, count=250) for sender in senders for priority in sorted(LOSSLESS)]
        with capture(senders[0], "h1-eth0", run.directory / "h1.pcap", "ether proto 0x8808"), Flows(flows) as running:
            running.wait()
        run.figure("source", str(net.fabric.port("s1-eth1").mac))
        states = net.fabric.snapshot("s1")["ports"]["s1-eth1"]["priorities"]
        for kind in ("xoff_sent", "xoff_refreshed", "xon_sent"):
            run.figure(kind, [state[kind] for state in states])
    run.claim("lost", sum(report.lost for report in running.reports), equals=0)
