"""Lesson 5: what goes wrong with PFC. The solution."""

import time
from dataclasses import replace

from xoff import (
    Dumbbell,
    Duration,
    Flow,
    Flows,
    LosslessTopo,
    Mac,
    ParkingLot,
    PfcFrame,
    Port,
    RawPort,
    Ring,
    Run,
    WatchdogSettings,
    experiment,
    network,
)

# ---- Your part -------------------------------------------------------------------------------------------------------

VICTIM_PRIORITY = 4
"""Step 1: the priority of the victim's frames. Lossless are 3 and 4."""

CLOCKWISE = False
"""Step 2: which way frames go round the ring: always clockwise, or up and down."""

DETECTION: str | None = "500ms"
"""Step 3: after how much pause without a break the watchdog acts, as in "1s" of the lab's time. None: no watchdog."""


# ---- Keep this part --------------------------------------------------------------------------------------------------


@experiment(in_lab_time=True, timeout="180s")
def pathologies(run: Run) -> None:
    """A victim, a deadlock, a storm and an unfair road: as you set them."""
    _victim(run)
    _ring(run)
    _storm(run)
    _road(run)


def _victim(run: Run) -> None:
    """h2 sends to r6, whose port is idle; h1 and r2 to r5 overload r1. h1 and h2 share the cable s1-s2."""
    topology = Dumbbell(n=6, port=Port().with_pfc(3, 4), total=2000)
    for case, priority in (("a victim", 3), ("your victim", VICTIM_PRIORITY)):
        with network(topology, case=case):
            flows = [
                Flow("h2", "r6", priority=priority, rate="4Mb/s", duration="1500ms"),
                Flow("h1", "r1", priority=3, rate="5Mb/s", duration="1500ms"),
                *(Flow(host, "r1", priority=3, duration="1500ms") for host in ("r2", "r3", "r4", "r5")),
            ]
            with Flows(flows) as running:
                running.wait()
        first = min(report.first_lab_ns for report in running.reports)
        goodput = running.reports[0].goodput_over(first + 400_000_000, Duration("1s"))
        run.figure(f"{case}: goodput", goodput)
        run.figure(f"{case}: priority", priority)
        run.figure(f"{case}: lost", running.lost)


def _ring(run: Run) -> None:
    """Four hosts at a ring of switches send to the one across."""
    topology = Ring(n=4, clockwise=CLOCKWISE, xoff=160, xon_offset=40)
    with network(topology, case="a ring") as net:
        across = [Flow(f"h{one}", f"h{(one + 1) % 4 + 1}", buffer="64kB") for one in range(1, 5)]
        with Flows(across, settle="4s") as flows:
            time.sleep(1)
            halfway = sum(flows.received_by(index) for index in range(4))
            time.sleep(1)
            at_the_end = sum(flows.received_by(index) for index in range(4))
            flows.stop_sending()
            time.sleep(4)
        between = [f"s{number}-eth{way}" for number in range(1, 5) for way in (2, 3)]
        paused = sum(net.fabric.pfc(name, 3)["paused_until_ns"] is not None for name in between)
    run.figure("a ring: received in the second half", at_the_end - halfway)
    run.figure("a ring: not received in the end", flows.lost)
    run.figure("a ring: ports between switches that are paused in the end", paused)


def _storm(run: Run) -> None:
    """r sends XOFF for 2 s without end. h1 has frames for r and for h2, whose port is idle."""

    class Watched(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            for host in ("h1", "h2"):
                self.addLink(self.addHost(host), "s1")
            port = Port()
            if DETECTION is not None:
                watchdog = WatchdogSettings(Duration(DETECTION), Duration("300ms"), Duration("7ms"))
                port = replace(port, pfc=replace(port.pfc, watchdog=watchdog))
            self.addLink("s1", self.addHost("r"), settings1=port)

    xoff = PfcFrame.xoff(Mac.parse("02:00:00:00:00:01"), [3], 400).encode()
    topology = Watched(xoff=400)
    with network(topology, case="a storm") as net, RawPort(net["r"], "r-eth0") as wire:
        flows = [Flow("h1", "r", rate="5Mb/s"), Flow("h1", "h2", rate="2Mb/s")]
        with Flows(flows) as running:
            time.sleep(0.2)
            wire.repeat(xoff, 5_000_000, 60)  # 300 ms: an ordinary pause of a slow receiver
            time.sleep(0.7)
            begin = time.monotonic_ns()
            wire.repeat(xoff, 5_000_000, 400)  # 2 s: a storm
            time.sleep(0.5)
        innocent = running.reports[1].goodput_over(begin + 1_200_000_000, Duration("700ms"))
        net.fabric.snapshot("s1")
    run.figure("a storm: goodput of the flow to h2", innocent)
    run.figure("a storm: lost by the flow to h2", running.reports[1].lost)


def _road(run: Run) -> None:
    """h1 to h4 join a row of switches one after the other, and send to r at its end."""
    topology = ParkingLot(n=4, total=1000, xon_offset=16)
    wanted = [Flow(f"h{number}", "r", duration="2s") for number in range(1, 5)]
    with network(topology, case="a road"), Flows(wanted) as flows:
        flows.wait()
    first = min(report.first_lab_ns for report in flows.reports)
    rates = [report.goodput_over(first + 500_000_000, Duration("1400ms")).bps for report in flows.reports]
    run.figure("a road: goodput of h1 to h4", rates)
