"""Flows over IPv6 in the lab: RoCE, UDP and TCP, beside IPv4 at one host, through routers, and with telemetry."""

from __future__ import annotations

from testbed.errors import UsageError
from testbed.lab import Run, experiment
from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.port import Port
from testbed.net.traffic import Flow
from testbed.net.traffic.roce import Roce, RoceReport
from testbed.roce.rates.base import RateControl
from testbed.switch.ecn.curve import EcnCurve
from testbed.switch.ecn.field import Ecn
from testbed.switch.ways.settings import Ways
from testbed.units import Duration, Size

QUEUE_PAIRS, MESSAGE = 16, Size("16KiB")


class Plain(RateControl):
    """The line's rate, as `fixed`."""


@experiment
def test_a_host_has_flows_of_both_versions_in_the_kernel_and_in_a_process(run: Run) -> None:
    from testbed.net.build.network import network
    from topologies.incast import Incast

    marking = Port(ecn={3: EcnCurve("40kB", "160kB", "20%")})
    with network(Incast(2, ipv6=True, port=marking), run) as net:
        flows = net.run(*(
            Flow(source, "r", size=MESSAGE * 12, rate_control=control, transport=Roce(
                ip_version=version, operation=operation, message=MESSAGE, served_by=by,
            ))
            for source, version, operation, control, by in (
                ("h1", 4, "write", Plain, "python"), ("h1", 6, "send", Plain, "python"),
                ("h2", 6, "read", "dcqcn", None), ("h2", 4, "send", "dcqcn", None),
            )
        ))  # fmt: skip
    reports = flows.reports_of(RoceReport)
    run.claim("served by the kernel", [one.in_kernel for one in reports], equals=[False, False, True, True])
    run.claim("whole", [one.intact for one in reports], equals=[True] * 4)
    run.claim("lost or sent twice", sum(one.lost + one.retransmitted for one in reports), equals=0)
    run.claim("CNPs of all", min(one.cnps_received for one in reports[2:]), at_least=1)
    run.claim("octets of a frame", [one.octets // one.received for one in reports], equals=[1083, 1102, 1102, 1082])


class Mixed(LosslessTopo):
    """Hosts with IPv4, with IPv6 and with both at one switch."""

    def build(self) -> None:
        self.addSwitch("s1")
        for name, options in (
            ("old", {}),
            ("both1", {"ipv6": True}),
            ("both2", {"ipv6": True}),
            ("new", {"ip": None, "ipv6": True}),
        ):
            self.addHost(name, **options)
            self.addLink(name, "s1")


@experiment
def test_in_a_mixed_fabric_each_pair_of_hosts_takes_the_version_that_both_have(run: Run) -> None:
    """Flows between hosts of one version and of both, by the frames that come; refusals where none is shared."""
    from testbed.net.build.network import network
    from testbed.net.shell.wire import Tap
    from testbed.net.traffic.udp import Udp

    pairs: dict[tuple[str, str, int | None], int] = {
        ("old", "both1", None): 4, ("both1", "old", None): 4, ("both1", "both2", None): 4, ("both1", "both2", 6): 6,
        ("new", "both2", None): 6, ("both2", "new", None): 6,
    }  # fmt: skip
    with network(Mixed(), run) as net:
        for (source, target, asked), version in pairs.items():
            name = f"{source} to {target}" + (f", asked for IPv{asked}" if asked else "")
            with Tap(net[target], f"{target}-eth0") as tap:
                flows = net.run(
                    Flow(source, target, count=20, transport=Udp(ip_version=asked)),
                    Flow(source, target, size=MESSAGE, transport=Roce(ip_version=asked, message=MESSAGE)),
                )
                kinds = {frame[12:14] for frame in tap.frames() if len(frame) > 1000}
            run.claim(f"{name}: lost", flows.lost, equals=0)
            run.claim(f"{name}: frames", [kind.hex() for kind in kinds], equals=[{4: "0800", 6: "86dd"}[version]])
        at_once = net.run(*(
            Flow(source, "both2", size=MESSAGE * 4, transport=Roce(message=MESSAGE))
            for source in ("old", "new", "both1")
        ))  # fmt: skip
        run.claim(
            "into one host at once: whole", [one.intact for one in at_once.reports_of(RoceReport)], equals=[True] * 3
        )
        said = []
        for source, target, asked in (("old", "new", None), ("old", "both1", 6), ("new", "both1", 4)):
            try:
                net.run(Flow(source, target, count=1, transport=Udp(ip_version=asked)))
            except UsageError as error:
                said.append(str(error).partition(";")[0])
    run.claim("what is said where none is shared", said, equals=[
        "flow 0 from old to new: old and new have no addresses of one IP version",
        "flow 0 from old to both1: old has no IPv6 address", "flow 0 from new to both1: new has no IPv4 address",
    ])  # fmt: skip


class Square(LosslessTopo):
    """Two ways of two cables from h1 to h2, whose routers know IPv6 alone."""

    def build(self) -> None:
        for number in range(1, 5):
            self.addRouter(f"r{number}", ip=None, **({"ways": Ways(fields="flow label")} if number in (1, 4) else {}))
        for number, (one, other) in enumerate((("r1", "r2"), ("r2", "r4"), ("r1", "r3"), ("r3", "r4"))):
            ends = [{"ipv6": f"fd00:{number}::{end}/64"} for end in (1, 2)]
            self.addLink(one, other, params1=ends[0], params2=ends[1])
        for number, router in ((1, "r1"), (2, "r4")):
            self.addHost(f"h{number}", ip=None, ipv6=f"fd00:1{number}::2/64", defaultRoute6=f"via fd00:1{number}::1")
            self.addLink(f"h{number}", router, params2={"ipv6": f"fd00:1{number}::1/64"})
        self.addRoutes()


@experiment
def test_routers_spread_queue_pairs_by_their_flow_labels_and_keep_one_label_together(run: Run) -> None:
    from testbed.net.build.network import network

    for name, label in (("one for each queue pair", None), ("one for all", 7)):
        with network(Square(), run, case=name) as net:
            transport = Roce(queue_pairs=QUEUE_PAIRS, message=MESSAGE, flow_label=label)
            flows = net.run(Flow("h1", "h2", transport=transport, size=MESSAGE * QUEUE_PAIRS))
            (report,) = flows.reports_of(RoceReport)
            loads = sorted(net.fabric.sent(f"r1-eth{number}").sent_frames[3] for number in (0, 1))
        run.claim(f"{name}: whole, by IPv6 for there is no other", report.intact, equals=True)
        run.claim(f"{name}: labels", len({one.flow_label for one in report.queue_pairs}), equals=1 if label else 16)
        run.claim(f"{name}: frames in all", sum(loads), equals=QUEUE_PAIRS * MESSAGE.bytes // 1024)
        if label:
            run.claim(f"{name}: frames of the emptier way", loads[0], equals=0)
        else:
            run.claim(f"{name}: frames of the emptier way", loads[0], at_least=sum(loads) // 8)


@experiment
def test_ports_stamp_telemetry_behind_an_ipv6_header(run: Run) -> None:
    from testbed.net.build.network import network
    from topologies.incast import Incast

    windows = {}
    for version in (4, 6):
        with network(Incast(2, ipv6=True, port=Port(telemetry=True)), run, case=f"IPv{version}") as net:
            transport = Roce(ip_version=version, sample=Duration("20us"))
            flows = net.run(
                *(Flow(n, "r", transport=transport, size="100kB", rate_control="hpcc") for n in ("h1", "h2"))
            )
        (report, _) = flows.reports_of(RoceReport)
        run.claim(f"IPv{version}: whole", report.intact, equals=True)
        windows[version] = len(
            {tuple(v for k, v in one.items() if k not in ("lab_ns", "sent")) for one in report.samples}
        )
    run.claim("states of HPCC over IPv4, which telemetry changes", windows[4], at_least=3)
    run.claim("states of HPCC over IPv6", windows[6], at_least=3)


@experiment
def test_udp_and_tcp_go_over_either_version_beside_each_other(run: Run) -> None:
    from testbed.net.build.network import network
    from testbed.net.shell.wire import Tap
    from testbed.net.traffic.tcp import Tcp
    from testbed.net.traffic.udp import Udp
    from topologies.incast import Incast

    marking = Port(ecn={3: EcnCurve("40kB", "160kB", "20%")})
    with network(Incast(2, ipv6=True, port=marking), run) as net:
        with Tap(net["r"], "r-eth0") as tap:
            flows = net.run(*(
                Flow(source, "r", ecn=Ecn.ECT_0, count=500, transport=Udp(ip_version=version))
                for source in ("h1", "h2") for version in (4, 6)
            ))  # fmt: skip
            frames = [frame for frame in tap.frames() if len(frame) == 1514]
        tcp = net.run(*(
            Flow(source, "r", size="300kB", rate_control=control, transport=Tcp(ip_version=6, marks_replies=True))
            for source, control in (("h1", "cubic"), ("h2", "dctcp"))
        ))  # fmt: skip
        in_priority_3 = [net.fabric.sent(f"{host}-eth0").sent_frames[3] for host in ("h1", "h2", "r")]
    run.claim("datagrams", [one.received for one in flows.reports], equals=[500] * 4)
    run.claim("frames by version", [sum(frame[12:14] == kind for frame in frames) for kind in (b"\x08\0", b"\x86\xdd")],
              equals=[1000, 1000])  # fmt: skip
    labels = {int.from_bytes(frame[14:18]) & 0xFFFFF for frame in frames if frame[12:14] == b"\x86\xdd"}
    run.claim("flow labels of UDP", sorted(labels), equals=[0])
    run.claim("marked datagrams of each flow", min(one.marked for one in flows.reports), at_least=1)
    run.claim(
        "octets of TCP beside whole segments of 1428", [one.received % 1428 for one in tcp.reports], equals=[0, 0]
    )
    run.claim("octets of TCP", min(one.received for one in tcp.reports), at_least=100 * 1428)
    run.claim("frames in priority 3 of each host", min(in_priority_3), at_least=20)


@experiment
def test_udp_and_tcp_take_ipv6_where_there_is_no_other(run: Run) -> None:
    from testbed.net.build.network import network
    from testbed.net.traffic.udp import Udp

    with network(Square(), run) as net:
        flows = net.run(Flow("h1", "h2", count=50), Flow("h2", "h1", size="50kB", transport="tcp"))
        datagrams, tcp = (one.received for one in flows.reports)
        run.claim("datagrams", datagrams, equals=50)
        run.claim("octets of TCP beside whole segments of 1428", tcp % 1428, equals=0)
        try:
            net.run(Flow("h1", "h2", count=1, transport=Udp(ip_version=4)))
        except UsageError as error:
            said = str(error)
    run.claim("what is said of IPv4", said, equals=(
        "flow 0 from h1 to h2: h1 has no IPv4 address; Mininet gives one to each host that has not ip=None; "
        "Udp(ip_version=6) takes the other version"
    ))  # fmt: skip


@experiment
def test_a_routed_fabric_carries_roce_and_udp_over_ipv6_by_all_spines(run: Run) -> None:
    from testbed.net.build.network import network
    from testbed.net.traffic.udp import Udp
    from topologies.routed_leaf_spine import RoutedLeafSpine

    with network(RoutedLeafSpine(2, 3, 2, ipv6=True), run) as net:
        flows = net.run(
            Flow("h1", "h3", size=MESSAGE * QUEUE_PAIRS, transport=Roce(
                ip_version=6, queue_pairs=QUEUE_PAIRS, message=MESSAGE,
            )),
            Flow("h4", "h2", count=100, source_port=50_000, transport=Udp(ip_version=6)),
            Flow("h4", "h1", count=100),
        )  # fmt: skip
        loads = [net.fabric.sent(net.port("leaf1", f"spine{number}")).sent_frames[3] for number in (1, 2, 3)]
        way = net.path("h4", "h2", transport="udp", source_port=50_000, number=1, ip_version=6)
    run.claim("lost", flows.lost, equals=0)
    run.claim("frames of RoCE by all spines", sum(loads), at_least=QUEUE_PAIRS * MESSAGE.bytes // 1024)
    run.claim("frames of the emptiest spine", min(loads), at_least=16)
    run.claim("a way over IPv6", [way.nodes[0], way.nodes[1], way.nodes[-1]], equals=["h4", "leaf2", "h2"])
