"""L15: counters equal the frames that were sent and received."""

import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack

from experiments.conformance._case import Bench, Control, case, without_pfc
from testbed.frames.mac_control import ETHERTYPE, parse
from xoff import Duration, Flows, PfcFrame, RawPort, Tap

Counts = Mapping[tuple[str, int], int]
"""Counts by host and priority."""
_LOOK = Duration("10us")
"""The interval of looks at counters, at 100 Gb/s."""
_OBEYED = "PFC frames received, by port and lossless priority"
_SENT = "PFC frames sent, by port and lossless priority"


@case(ports=3, control=Control("no PFC", without_pfc, fails=[_OBEYED, "priorities that paused a sender"]))
def l15_counters(bench: Bench) -> None:
    """Counters of PFC frames by port and priority, and of data frames, are what testers sent and received."""
    hosts = ["h1", "h2", "h3"]
    with bench.network(hosts=len(hosts)) as net, ExitStack() as stack:
        fabric, ports = net.fabric, {host: bench.port(net, host) for host in hosts}
        expected = {}
        with bench.run.measuring():
            for place, host in enumerate(hosts):
                wire = stack.enter_context(RawPort(net[host], f"{host}-eth0"))
                for priority in range(8):
                    many = 8 * place + priority + 1
                    frame = PfcFrame.xoff(fabric.port(f"{host}-eth0").mac, [priority], quanta=1)
                    for _ in range(many):
                        wire.send(frame.encode())
                        net.sleep(bench.paced("1us"))
                    expected[host, priority] = many
            net.sleep(bench.paced(_LOOK) + bench.round_trip(net))
        states = {(host, p): fabric.pfc(ports[host], p) for host in hosts for p in range(8)}
        obeyed = {key: one["xoff_received"] + one["xon_received"] for key, one in states.items()}
        _equal(bench, _OBEYED, obeyed, expected, bench.lossless)
        ignored = {key: sum(one["ignored"].values()) for key, one in states.items()}
        others = [priority for priority in range(8) if priority not in bench.lossless]
        _equal(bench, "PFC frames ignored, by port and other priority", ignored, expected, others)

        taps = {host: stack.enter_context(Tap(net[host], f"{host}-eth0")) for host in hosts}
        seen = dict.fromkeys(expected, 0)

        def take() -> None:
            for host, tap in taps.items():
                for data in tap.frames():
                    if int.from_bytes(data[12:14], "big") == ETHERTYPE and isinstance(sent := parse(data), PfcFrame):
                        for priority in range(8):
                            seen[host, priority] += sent.enabled >> priority & 1

        group = fabric.group(ports["h1"], bench.lossless[0])
        flows = [bench.flow(host, "h3", priority) for host in ("h1", "h2") for priority in bench.lossless]
        within, trip = bench.fill_time(net), bench.round_trip(net)
        with Flows(flows, bench.settle_time(within)) as running, bench.run.measuring():
            until_ns = time.monotonic_ns() + bench.lab_ns(within)
            while time.monotonic_ns() < until_ns and not all(
                fabric.group(ports["h1"], priority).xoffs or any(fabric.group(ports["h1"], priority).dropped_frames)
                for priority in bench.lossless
            ):
                net.sleep(bench.paced(_LOOK))
                take()
            net.sleep(bench.paced("100us"))
        net.sleep(trip)
        take()
        states = {(host, p): fabric.pfc(ports[host], p) for host in hosts for p in range(8)}
        counted = {key: one["xoff_sent"] + one["xoff_refreshed"] + one["xon_sent"] for key, one in states.items()}
        _equal(bench, _SENT, counted, seen, range(8))
        pausing = sorted({priority for (_, priority), many in counted.items() if many})
        bench.claim("priorities that paused a sender", pausing, equals=bench.lossless)
        reports = dict(zip([(flow.source, flow.priority) for flow in flows], running.reports, strict=True))
        for name in ("sent", "received"):
            bench.figure(f"data frames {name}", sum(getattr(report, name) for report in reports.values()))
        admitted = fabric.group(ports["h1"], bench.lossless[0]).admitted_frames - group.admitted_frames
        bench.claim(
            "data frames of one port and priority sent, not counted", reports["h1", bench.lossless[0]].sent - admitted,
            equals=0,
        )  # fmt: skip


def _equal(bench: Bench, name: str, measured: Counts, expected: Counts, priorities: Iterable[int]) -> None:
    """Claim that the counts of some priorities are equal at all ports."""
    wanted = list(priorities)
    lists = [
        [one[host, p] for host in dict.fromkeys(host for host, _ in one) for p in wanted]
        for one in (measured, expected)
    ]
    bench.claim(name, lists[0], equals=lists[1])
