"""Jobs for tests/lab/pfc/test_pfc_in_kernel.py."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from testbed.frames.mac_control import PauseFrame, PfcFrame
from testbed.lab import Run, experiment

ENABLED = 3, 4


@contextmanager
def by(in_kernel: bool) -> Iterator[None]:
    """Let agents be served by the kernel, or do all by themselves."""
    from unittest import mock

    from testbed.linux import pfc_device

    with ExitStack() as stack:
        if not in_kernel:
            stack.enter_context(mock.patch.object(pfc_device, "is_there", return_value=False))
        yield


def noted(events: Any, since_ns: int) -> list[list[Any]]:
    """Return events without the numbers of processes, as plain data."""
    return [
        [event.lab_ns - since_ns, event.kind, event.port, list(event.priorities), event.detail]
        for event in events
        if event.lab_ns >= since_ns
    ]


def pfc_frames(file: Path, since_ns: int) -> list[list[Any]]:
    from looking import frames_in

    return [[frame.t_ns - since_ns, frame.octets.hex()] for frame in frames_in(file)]


@experiment(_in_lab_time=True, timeout="300s", files=("looking.py",))
def reacts(run: Run, in_kernel: bool = True) -> None:
    """Pauses of all kinds, in both directions: what agents log, count and send."""
    from testbed.net.build.network import network
    from testbed.net.fabric.changes import set_pfc
    from testbed.net.fabric.port import Buffer
    from testbed.net.fabric.port import Port as Settings
    from testbed.net.shell.wire import RawPort, capture
    from testbed.net.traffic import Flow, Flows
    from testbed.switch.buffer.settings import Static
    from testbed.switch.pfc.settings import PfcSettings, WatchdogSettings
    from testbed.units import Duration, Size
    from topologies.incast import Incast

    buffer = Buffer(total=600, xoff=Static(40), xon_offset=10, headroom=60)
    watchdog = WatchdogSettings(Duration("200ms"), Duration("200ms"), Duration("100ms"))
    port = Settings(pfc=PfcSettings(frozenset(ENABLED), pause_quanta=2000, watchdog=watchdog))
    with by(in_kernel), network(Incast(n=2, port=port, buffer=buffer), run) as net, ExitStack() as stack:
        fabric = net.fabric
        time.sleep(0.1 - time.monotonic() % 0.1)
        begin_ns = time.monotonic_ns()
        files = {}
        for host in ("h1", "h2", "r"):
            files[host] = run.directory / f"{host}.pcap"
            stack.enter_context(capture(net[host], f"{host}-eth0", files[host], "ether proto 0x8808"))
        far = {name: fabric.far_end(fabric.port(name)) for name in ("h1-eth0", "s1-eth3", "r-eth0")}
        raw = {name: stack.enter_context(RawPort(end.node, end.name, past_queues=True)) for name, end in far.items()}

        def send(victim: str, enabled: int, *times: int) -> None:
            raw[victim].send(PfcFrame(far[victim].mac, enabled, (*times, *[0] * (8 - len(times)))).encode())

        def step(at_ms: float) -> None:
            wanted_ns = begin_ns + round(at_ms * 1_000_000)
            assert time.monotonic_ns() < wanted_ns
            time.sleep((wanted_ns - time.monotonic_ns()) / 1e9)

        sent = [
            Flow(net[host], net["r"], priority, Size("1000B"), duration=Duration("1.4s"))
            for host in ("h1", "h2")
            for priority in ENABLED
        ]
        flows = stack.enter_context(Flows(sent, settle=Duration("500ms")))
        step(200)
        send("h1-eth0", 0b0001_1000, 0, 0, 0, 200, 300)  # two priorities, unlike times
        step(210)
        send("h1-eth0", 0b0001_1000, 0, 0, 0, 250, 250)  # two, like times, while they are paused
        step(215)
        send("h1-eth0", 0b0000_1000)  # XON
        send("h1-eth0", 0b0000_1000)  # and again, for what is not paused
        step(220)
        send("h1-eth0", 0b0011_1000, 0, 0, 0, 100, 0, 100)  # XOFF, XON, and one without PFC
        step(230)
        send("h1-eth0", 0)  # for nobody
        raw["h1-eth0"].send(PauseFrame(far["h1-eth0"].mac, 100).encode())
        raw["h1-eth0"].send(PfcFrame.xoff(far["h1-eth0"].mac, ENABLED, 50).encode()[:33])
        step(240)
        send("h1-eth0", 0b1_0000, 0, 0, 0, 0, 60)  # ends by itself
        step(260)
        for _ in range(8):  # a storm
            send("s1-eth3", 0b1000, 0, 0, 0, 6000)
            step((time.monotonic_ns() - begin_ns) / 1e6 + 60)
        step(900)
        send("s1-eth3", 0b1_0000, 0, 0, 0, 0, 500)  # congestion, which lasts for more than one refresh
        send("s1-eth3", 0b1000, 0, 0, 0, 500)
        step(1090)
        send("s1-eth3", 0b1000, 0, 0, 0, 4000)
        step(1095)
        set_pfc(fabric, "s1-eth3", 3, False)  # ends the pause
        set_pfc(fabric, "s1-eth3", 3, True)
        step(1100)
        net["r"].cmd("ip link set r-eth0 down")
        step(1150)
        net["r"].cmd("ip link set r-eth0 up")
        step(1300)
        set_pfc(fabric, "s1-eth1", 3, False)
        step(1350)
        send("r-eth0", 0b1_0000, 0, 0, 0, 0, 2)  # ends in the reaction to the next frame, waits for two
        step(1350.15)
        send("r-eth0", 0b1000, 0, 0, 0, 100)
        step(1350.22)
        send("r-eth0", 0b1000)
        step(1400)
        set_pfc(fabric, "s1-eth1", 3, True)
        step(1500)
        flows.wait()
        counters = {
            f"{name} {priority}": fabric.pfc(name, priority)
            for name in ("h1-eth0", "h2-eth0", "r-eth0", "s1-eth1", "s1-eth2", "s1-eth3")
            for priority in range(8)
        }
        snapshot = {node: fabric.snapshot(node) for node in ("h1", "s1", "r")}
        events = noted(fabric.events(), begin_ns)
    run.figure("events", events)
    run.figure("counters", counters)
    run.figure("lateness", {node: found["worst_lateness_ns"] for node, found in snapshot.items()})
    for host, file in files.items():
        run.figure(f"frames at {host}", pfc_frames(file, begin_ns))
    kinds = {event[1] for event in events}
    wanted = {"xoff_received", "xon_received", "pause_expired", "xoff_sent", "xon_sent", "xoff_refreshed", "congested",
              "relieved", "storm_detected", "storm_ended", "ignored", "queue_stopped", "frame_sent", "threshold",
              "pause_cancelled", "drop"}  # fmt: skip
    run.claim("kinds of events that there were", sorted(wanted - kinds), equals=[])


@experiment(_in_lab_time=True, timeout="60s", files=("looking.py",))
def killed(run: Run) -> None:
    """An agent is killed while the kernel serves it, in a reaction and in the pause after it; another is stopped."""
    from looking import agent_pid

    from testbed.net.build.network import network
    from testbed.net.shell.wire import RawPort
    from topologies.incast import Incast

    quanta, quantum_ns = 1000, 51_200
    with network(Incast(n=1), run) as net:
        fabric = net.fabric
        far = fabric.far_end(fabric.port("h1-eth0"))
        with RawPort(far.node, far.name, past_queues=True) as raw:
            for after_us in (0, 60, 20_000):
                raw.send(PfcFrame.xoff(far.mac, [3], quanta).encode())
                if after_us:
                    time.sleep(after_us / 1e6)
                os.kill(agent_pid(fabric, "h1"), signal.SIGKILL)
                time.sleep(0.1)
            seen = [event for event in fabric.events() if event.port == "h1-eth0"]
            os.kill(agent_pid(fabric, "h1"), signal.SIGSTOP)
            raw.send(PfcFrame.xoff(far.mac, [3], quanta).encode())
            time.sleep(0.02)
            while_stopped = [event for event in fabric.events() if event.port == "h1-eth0"][len(seen) :]
            os.kill(agent_pid(fabric, "h1"), signal.SIGCONT)
            time.sleep(0.1)
            later = [event for event in fabric.events() if event.port == "h1-eth0"][len(seen) :]
    run.claim("events while an agent is stopped", [event.kind for event in while_stopped], equals=[])
    run.claim("and then", [event.kind for event in later], equals=["xoff_received", "queue_stopped", "pause_expired"])
    moments = {kind: [event.lab_ns for event in seen if event.kind == kind] for kind in {one.kind for one in seen}}
    absent = list(zip(moments["agent_died"], moments["agent_started"][1:], strict=True))
    run.claim("deaths", len(absent), equals=3)
    run.claim("events while there is no agent", [event.kind for event in seen if any(died < event.lab_ns < started
              for died, started in absent)], equals=[])  # fmt: skip
    run.claim("XOFF received, by the dead and, for what he had not done, by the next", len(moments["xoff_received"]),
              equals=4)  # fmt: skip
    run.claim("queues stopped by the dead", len(moments["queue_stopped"]), equals=2)
    due = {event.lab_ns - event.detail["late_ns"] for event in seen if event.kind == "pause_expired"}
    arrived = set(moments["xoff_received"])
    run.claim("pauses that end in their time", due == {at_ns + quanta * quantum_ns for at_ns in arrived}, equals=True)
    run.claim("ns that the last of them came late", max(event.detail["late_ns"] for event in seen
              if event.kind == "pause_expired"), at_most=10_000)  # fmt: skip
