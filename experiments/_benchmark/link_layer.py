"""Category 6.5, link layer and network layer: retry by the cable, packet trimming, and credits against PFC."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments._benchmark.load import row, share
from testbed.measures.fabric_under_test import FabricUnderTest
from testbed.measures.standstill import hops, longest_on_the_way, stood_still
from xoff import (
    ROCE_PRIORITY,
    BitErrors,
    Cable,
    Duration,
    Ecn,
    Flow,
    LosslessTopo,
    Network,
    Nic,
    Port,
    Roce,
    RoceReport,
    RoceSettings,
    Run,
    Size,
    network,
)

_LOAD = 80
_PROBE, _FRAME, _WIRE = Size("16kB"), Size("1514B"), 1538
_PER_PROBE = 25
"""The time from one probe to the next, in times of its octets: the probes are 4 % of the line."""
_ONE_IN = 300
"""The damaged frames: on average one of so many."""
_REST_QUEUE, _REST, _DSCP = 6, 128, 48
_WINDOW = 2048
_TRANSPORT = Roce(settings=RoceSettings(window=_WINDOW, retransmit_after=Duration("1ms"), retries=254))
_SELECTIVE = replace(_TRANSPORT, recovery="selective repeat", nic=Nic(bdp_packets=_WINDOW))
_LONG = Duration("3ms")
"""A timer that no queue of a lossy switch outlasts, so that nothing is sent again that was only late."""
_PATIENT = Roce(settings=RoceSettings(window=_WINDOW, retransmit_after=_LONG, retries=254))
_PAUSED = Roce(settings=RoceSettings(window=_WINDOW, retransmit_after=Duration("100ms")))
"""The transport of flows that are stopped for long."""
_PATIENT_SELECTIVE = replace(
    _PATIENT, recovery="selective repeat", nic=Nic(bdp_packets=_WINDOW, timeout_low=_LONG, timeout_high=_LONG)
)
_MANY, _SOURCE_PORT = 32, 50_000


def retry(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """Messages at 80 % load over a first cable that damages bits: what the cable's repair adds, and the transport's.

    Each message is compared with itself in a run without errors. In all cases the same bits are damaged.
    """
    if fabric.of_file:
        run.figure("LLR: not applicable", "cables of a file are as the file says")
        return
    many = 150 if quick else 1000
    times: dict[str, list[Duration]] = {}
    for name, errors, llr, transport in (
        ("without errors", False, True, _TRANSPORT),
        ("LLR", True, True, _TRANSPORT),
        ("go-back-N", True, False, _TRANSPORT),
        ("selective repeat", True, False, _SELECTIVE),
    ):
        found = times[name] = _probed(run, fabric, name, many, errors=errors, llr=llr, transport=transport)
        if not errors:
            continue
        added = [one.ps - before.ps for one, before in zip(found, times["without errors"], strict=True)]
        hit = [Duration.from_ps(one) for one in sorted(added) if one > fabric.line.time_for(_FRAME).ps]
        row(run, name, messages_that_came_later=len(hit))
        if hit:
            mean = sum(hit, Duration("0s")) // len(hit)
            row(run, name, retry_at_least=hit[0], retry_on_average=mean, retry_at_most=hit[-1])


def _probed(
    run: Run, fabric: FabricUnderTest, name: str, many: int, *, errors: bool, llr: bool, transport: Roce
) -> list[Duration]:
    """Return the time that each message took, and report what the cable and the stations did."""
    one, other = fabric.across()[0]
    every = fabric.line.time_for(_PROBE) * _PER_PROBE
    probes = [_flow(fabric, one, other, transport, _PROBE, start=every * number) for number in range(1, many + 1)]
    load = fabric.flow(
        one, other, frame=_FRAME, rate=fabric.line * _LOAD // 100, duration=every * (many + 2), ecn=Ecn.ECT_0
    )
    law = BitErrors(f"1/{_ONE_IN * 8 * _WIRE}") if errors else None
    with network(_with_first_cable(fabric.topo(), one, law, llr), case=name) as net:
        running = net.run(*probes, load)
        cable = net.fabric.llr(f"{one}-eth0")
        dropped = net.fabric.dropped()
    reports = running.reports_of(RoceReport)
    again, lost = sum(report.retransmitted for report in reports), running.reports[-1].lost
    row(run, name, messages=many, damaged_frames=cable.damaged, replays=cable["TX_REPLAY"])
    row(run, name, packets_sent_again=again, frames_of_the_load_lost=lost)
    run.claim(f"{name}: every octet as it was sent", all(report.intact for report in reports), equals=True)
    if errors:
        run.claim(f"{name}: damaged frames", cable.damaged, at_least=1)
    if llr:
        run.claim(f"{name}: frames lost, packets sent again, frames dropped", [lost, again, dropped], equals=[0, 0, 0])
    return [report.completion for report in reports[:many]]


def _with_first_cable(topo: LosslessTopo, host: str, errors: BitErrors | None, llr: bool) -> LosslessTopo:
    """Return the topology with a cable of the host that damages bits, or has LLR."""
    for one, other, info in topo.links(withInfo=True):
        if host in (one, other):
            cable = info["cable"]
            length = {"length": cable.length} if cable.length else {"delay": cable.delay}
            info["cable"] = Cable(cable.rate, **length, mtu=cable.mtu, errors=errors, llr=llr)
    return topo


def trimming(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """Two hosts at line rate to a third, with PFC off: cut frames, and dropped ones, with both kinds of recovery."""
    if fabric.of_file:
        run.figure("2:1: not applicable", "switches of a file do what the file says")
        return
    size = Size("2MB") if quick else Size("8MB")
    lossy = Port(strict=frozenset({_REST_QUEUE})).without_pfc()
    cut = lossy.with_trimming(ROCE_PRIORITY, size=_REST, dscp=_DSCP, queue=_REST_QUEUE)
    octets: dict[str, int] = {}
    for name, port, transport in (
        ("dropped, go-back-N", lossy, _PATIENT),
        ("dropped, selective repeat", lossy, _PATIENT_SELECTIVE),
        ("trimmed, selective repeat", cut, _PATIENT_SELECTIVE),
    ):
        topo = fabric.topo(port=port, hopts={"port": lossy})
        flows = [_flow(fabric, one, fabric.hosts[-1], transport, size) for one in fabric.hosts[-3:-1]]
        octets[name] = _two_to_one(run, name, topo, flows)
    *others, trimmed = octets
    for name in others:
        saved = 100 * (octets[name] - octets[trimmed]) / octets[name]
        row(run, trimmed, **{f"less on the wire than {name}_percent": round(saved, 2)})


def _flow(fabric: FabricUnderTest, source: str, target: str, transport: Roce, size: Size, **options: Any) -> Flow:
    """Return a flow at a constant rate, with its own recovery in place of the fabric's."""
    flow = fabric.flow(source, target, transport=transport, size=size, rate_control="fixed", **options)
    return replace(flow, transport=transport)


def _two_to_one(run: Run, name: str, topo: LosslessTopo, flows: list[Flow]) -> int:
    """Run two flows to one host; return the octets that both senders put on the wire."""
    with network(topo, case=name) as net:
        with (
            _Seen(net, [flow.source for flow in flows], _is_nak) as naks,
            _Seen(net, [flows[0].target], _is_rest) as rests,
        ):
            running = net.run(*flows)
            cuts = "trimmed" in name
            kind = "trimmed" if cuts else "drop"
            onset_ns = min(event.lab_ns for event in net.fabric.events() if event.kind == kind)
            moments = {"first rest after": rests.first_ns(onset_ns), "first request after": naks.first_ns(onset_ns)}
        trimmed, dropped = net.fabric.trimmed(), net.fabric.dropped()
        scale = net.fabric.port(f"{flows[0].target}-eth0").units
        after = {
            what: Duration.nearest_ns((moment_ns - onset_ns) / scale.k)
            for what, moment_ns in moments.items()
            if moment_ns is not None
        }
    reports = running.reports_of(RoceReport)
    again = sum(report.retransmitted for report in reports)
    octets = sum(report.sent + report.retransmitted for report in reports) * _WIRE
    row(
        run, name, completion=max(report.completion for report in reports), frames_trimmed=trimmed.frames,
        frames_dropped=dropped, sent_again=again, octets_on_the_wire=Size.from_bytes(octets), **after,
    )  # fmt: skip
    run.claim(f"{name}: every octet as it was sent", all(report.intact for report in reports), equals=True)
    if cuts:
        gone = sum(report.trimmed for report in reports) + trimmed.dropped_frames
        run.claim(f"{name}: rests that came or were dropped, of frames cut", gone, equals=trimmed.frames)
        run.claim(f"{name}: frames cut", trimmed.frames, at_least=1)
        run.claim(f"{name}: frames dropped beside rests", dropped - trimmed.dropped_frames, equals=0)
    else:
        run.claim(f"{name}: frames dropped", dropped, at_least=1)
    return octets


class _Seen:
    """The RoCE packets of one kind that come to some hosts."""

    def __init__(self, net: Network, hosts: Sequence[str], kind: Callable[[bytes], bool]) -> None:
        import time

        from testbed.linux.process import kernel
        from testbed.linux.sockets import packet_filter
        from testbed.linux.sockets.packet_tap import PacketTap

        self._taps, self._kind = list[PacketTap](), kind
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        for host in hosts:
            with kernel.in_network_of(net[host].pid):
                self._taps.append(PacketTap(f"{host}-eth0", packet_filter.of_udp_port(4791)))

    def __enter__(self) -> "_Seen":
        return self

    def __exit__(self, *_: object) -> None:
        for tap in self._taps:
            tap.close()

    def first_ns(self, since_ns: int) -> int | None:
        """Return the moment, by the lab's clock, at which the first one came since another."""
        moments = [
            tapped.t_ns - self._offset_ns for tap in self._taps for tapped in tap.fetch() if self._kind(tapped.octets)
        ]
        return min((moment for moment in moments if moment >= since_ns), default=None)


def _is_rest(frame: bytes) -> bool:
    return frame[15] >> 2 == _DSCP


def _is_nak(frame: bytes) -> bool:
    from testbed.frames.roce import RocePacketError, parse

    try:
        packet = parse(frame[42:])  # behind Ethernet, IPv4 and UDP
    except RocePacketError:
        return False
    return packet.aeth is not None and packet.aeth.nak is not None


def credits(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """32 to one with PFC, with credits, and with credits and a channel apart for flows that share cables alone.

    The other flows go to another host at the last switch, so they share cables with the incast and not its port.
    """
    if fabric.of_file:
        run.figure("N = 32: not applicable", "ports of a file have the flow control of the file")
        return
    whole = Size("4MB") if quick else Size("16MB")
    plain = Port()
    for name, port, priority in (
        ("PFC", plain, ROCE_PRIORITY),
        ("CBFC", plain.with_credits(ROCE_PRIORITY), ROCE_PRIORITY),
        ("CBFC, a channel apart", plain.with_credits(ROCE_PRIORITY, 4), 4),
    ):
        target, beside, source = fabric.hosts[-1], fabric.hosts[-2], fabric.hosts[0]
        rate = fabric.line * 3 // 10
        flows = [
            fabric.flow(one, target, transport=_PAUSED, size=whole // _MANY, rate_control="fixed")
            for one in fabric.senders(_MANY)
        ]
        lasts = fabric.line.time_for(whole)
        options: dict[str, Any] = {"priority": priority, "ecn": Ecn.ECT_0, "source_port": _SOURCE_PORT}
        other = fabric.flow(source, beside, frame=_FRAME, rate=rate, duration=lasts, **options)
        with network(fabric.topo(port=port, hopts={"port": port}), case=name) as net:
            running = net.run(*flows, other)
            times = stood_still(net, ROCE_PRIORITY)
            stopped = [one for one, time in times.items() if time.ps]
            congested = net.fabric.far_end(f"{target}-eth0").node.name
            back = hops(net, stopped, congested)
            blocked = longest_on_the_way(net, other, stood_still(net, priority))
            dropped = net.fabric.dropped()
        reports, victim = running.reports_of(RoceReport), running.reports[-1]
        columns: Mapping[str, Any] = {
            "head-of-line blocking": blocked,
            "hops of the stop": back,
            "ports that stood still": len(stopped),
            "others' goodput": victim.goodput_between(victim.begin_lab_ns, victim.begin_lab_ns + net.lab_ns(lasts)),
        }
        row(run, name, **columns)
        slowest = max(report.completion for report in reports)
        row(run, name, **{"others' longest delay": victim.worst_delay, "completion": slowest})
        run.figure(f"{name}: others' goodput of what they sent", share(columns["others' goodput"], rate), "%")
        run.claim(f"{name}: frames dropped", dropped + victim.lost, equals=0)
        run.claim(f"{name}: every octet as it was sent", all(report.intact for report in reports), equals=True)
