"""RoCE over IPv6 beside RoCE over IPv4: 20 octets more in each packet, and a flow label to spread flows by."""

from typing import Annotated

from experiments.ways._equal_ways import given
from xoff import (
    Between,
    EcnCurve,
    Flow,
    Flows,
    Incast,
    LeafSpine,
    Port,
    Rate,
    Roce,
    RoceReport,
    Run,
    Size,
    Ways,
    experiment,
    network,
)

LINE = Rate("10Gb/s")
PACKETS = 1000
SIZE, WHOLE = Size("1024000B"), Size("64KiB")
"""The flow, and its messages, which are whole packets."""
AROUND = 24 + 14 + 8 + 12 + 4
"""The octets of a packet on the wire beside its payload and the IP header: preamble, FCS and gap, and the headers of
Ethernet, UDP and RoCE with the ICRC."""
IP = {4: 20, 6: 40}
MTU = 1024
QUEUE_PAIRS = 16
MARKING = Port(ecn={3: EcnCurve("40kB", "160kB", "20%")})


@experiment(timeout="60s", free_cpu=True)
def roce_v6(run: Run, senders: Annotated[int, Between(2, 4)] = 2) -> None:
    """RoCE over IPv6 beside IPv4: twenty octets more in each packet, and a flow label that switches can hash.

    A flow of 1000 packets that has a line to itself takes as much longer as 20 octets do 999 times, to the nanosecond.
    Senders into one port are paused about as often over either version, and get all that their headers leave; with
    DCQCN they are marked and notified over both. Nothing is lost. Then both versions share a port at once. At last
    switches hash addresses and flow label alone: IPv4 has no label, so all queue pairs between two hosts share one
    uplink; over IPv6 each has a label of its own, and goes where the reference in Python says.
    """
    alone = {version: _run(run, f"alone, IPv{version}", Port(), "fixed", [version])[0] for version in IP}
    longer = LINE.time_for(Size.from_bytes((PACKETS - 1) * (IP[6] - IP[4])))
    run.claim("alone: how much longer over IPv6", alone[6].completion - alone[4].completion, equals=longer)
    for name, port, rate_control in (("PFC", Port(), "fixed"), ("DCQCN", MARKING, "dcqcn")):
        found, paused = {}, {}
        for version in IP:
            case = f"{name}, IPv{version}"
            found[version], paused[version] = _run(run, case, port, rate_control, [version] * senders)
        slower = float(found[6].completion / found[4].completion)
        run.figure(f"{name}: time over IPv6 by that over IPv4", round(slower, 4))
        if rate_control == "fixed":
            run.claim(
                f"{name}: time over IPv6 by octets on the wire",
                round(slower * _on_wire(4) / _on_wire(6), 3),
                equals=1.0,
            )
            few, many = paused[4] * 9 // 10, paused[4] * 11 // 10
            run.claim(f"{name}: pauses over IPv6, about as many", paused[6], at_least=few, at_most=many)
        else:
            for version in IP:
                cnps = sum(report.cnps_received for report in found[version].reports_of(RoceReport))
                run.claim(f"{name}, IPv{version}: CNPs", cnps, at_least=1)
    _run(run, "both versions", Port(), "fixed", [4, 6, 4, 6][:senders])
    _spread(run)


def _on_wire(version: int) -> int:
    return MTU + AROUND + IP[version]


def _run(run: Run, case: str, port: Port, rate_control: str, versions: list[int]) -> tuple[Flows, int]:
    """Send to r from a host for each version; return the flows, and how often their hosts were paused."""
    senders = len(versions)
    with network(Incast(senders, port=port, ipv6=True), case=case) as net:
        flows = net.run(*(
            Flow(f"h{n}", "r", transport=Roce(ip_version=version, message=WHOLE), size=SIZE, rate_control=rate_control)
            for n, version in enumerate(versions, 1)
        ))  # fmt: skip
        paused = sum(net.fabric.pfc(f"h{n}-eth0", 3)["xoff_received"] for n in range(1, senders + 1))
        reports = flows.reports_of(RoceReport)
        octets = [report.octets // report.received for report in reports]
        dropped = net.fabric.dropped()
    run.claim(f"{case}: every octet as it was sent", all(report.intact for report in reports), equals=True)
    run.claim(f"{case}: lost or sent twice", sum(one.lost + one.retransmitted for one in reports), equals=0)
    run.claim(f"{case}: dropped", dropped, equals=0)
    if senders > 1 and rate_control == "fixed":
        run.claim(f"{case}: pauses", paused, at_least=1)
    run.claim(f"{case}: octets of a frame", octets, equals=[MTU + AROUND - 24 + IP[v] for v in versions])
    return flows, paused


def _spread(run: Run) -> None:
    """Send over several queue pairs between two hosts whose switches hash addresses and flow label."""
    ways = Ways(fields=("source", "destination", "flow label"))
    for version in IP:
        case = f"flow label, IPv{version}"
        with network(LeafSpine(2, 4, 1, ways=ways, ipv6=True), case=case) as net:
            roce = Roce(ip_version=version, queue_pairs=QUEUE_PAIRS, message=WHOLE)
            (report,) = net.run(Flow("h1", "h2", transport=roce, size=WHOLE * QUEUE_PAIRS)).reports_of(RoceReport)
            used = given(net, "leaf1", Size.from_bytes(report.octets // QUEUE_PAIRS))
            expected = dict.fromkeys([way.port for way in net.ways("leaf1")], 0)
            for pair in report.queue_pairs:
                label = pair.flow_label if version == 6 else None
                path = net.path("h1", "h2", ip_version=version, flow_label=label, source_port=pair.source_port)
                expected[path.ports[1]] += 1
        run.claim(f"{case}: queue pairs of uplinks", used, equals=list(expected.values()))
        run.claim(
            f"{case}: uplinks in use", sum(map(bool, used)), **({"equals": 1} if version == 4 else {"at_least": 3})
        )
