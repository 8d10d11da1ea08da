"""Jobs for tests/lab/roce/test_nics.py."""

from xoff import (
    Buffer,
    Cable,
    Duration,
    Flow,
    LeafSpine,
    LosslessTopo,
    Nic,
    Roce,
    RoceReport,
    Run,
    Static,
    Ways,
    experiment,
    network,
)


class TwoWays(LosslessTopo):
    """Hosts h1 and h2 at one leaf and h3 at another; cables to the spines differ in length, and lose."""

    ways = Ways("spray")

    def build(self) -> None:
        for switch in ("leaf1", "leaf2", "spine1", "spine2"):
            self.addSwitch(switch)
        for host, leaf in (("h1", "leaf1"), ("h2", "leaf1"), ("h3", "leaf2")):
            self.addLink(self.addHost(host), leaf)
        for leaf in ("leaf1", "leaf2"):
            for spine, delay in (("spine1", "1us"), ("spine2", "2us")):
                self.addLink(leaf, spine, cable=Cable("100Gb/s", delay=delay, loss="1/300"))


@experiment(timeout="120s")
def spraying(run: Run, draws: int = 20) -> None:
    """Spray two flows into one port over two spines, with pauses, late packets, losses and NICs that jitter."""
    nic = Nic(reorder_time=Duration("10us"), ack_delay=Duration("1us"), doorbell_delay=Duration("1us"),
              jitter=Duration("500ns"), bdp_packets=512)  # fmt: skip
    damaged, early, again = 0, 0, 0
    with network(TwoWays(buffer=Buffer(xoff=Static(200), xon_offset=40))) as net:
        for draw in range(draws):  # of losses, of jitters and of the first packet's way
            operation = ("write", "send", "read")[draw % 3]
            transport = Roce(operation=operation, recovery="selective repeat", nic=nic)
            net.sleep(
                "300us"
            )  # what was sent twice in the draw before has left the queues, and meets no new connection
            flows = net.run(*[Flow(source, "h3", transport=transport, size="200kB") for source in ("h1", "h2")])
            for report in flows.reports_of(RoceReport):
                damaged += not (report.intact and report.size.bytes == 200_000 and report.messages == 4)
                early += report.out_of_order
                again += report.retransmitted
        pauses = sum(net.fabric.pfc(f"{host}-eth0", 3)["xoff_received"] for host in ("h1", "h2"))
    run.claim("flows that are not as they were sent", damaged, equals=0)
    run.claim("packets that came early", early, at_least=500)
    run.claim("sent again", again, at_least=20)
    run.claim("pauses", pauses, at_least=5)


@experiment(timeout="60s")
def not_ready(run: Run) -> None:
    """Send to a host that posts its receives too late, and to one whose receives no write needs."""
    slow = Nic(receives=2, receive_takes=Duration("200us"), rnr_timer=Duration("60us"))
    with network(LeafSpine(1, 1, 2)) as net:
        for operation in ("send", "write"):
            transport = Roce(operation=operation, nic=slow)
            (report,) = net.run(Flow("h1", "h2", transport=transport, size="640kB")).reports_of(RoceReport)
            run.claim(f"{operation}: as it was sent", report.intact, equals=True)
            run.claim(f"{operation}: messages", report.messages, equals=10)
            run.claim(f"{operation}: RNR NAKs", report.rnr_naks > 0, equals=operation == "send")
            run.claim(f"{operation}: by the kernel", report.in_kernel, equals=True)
