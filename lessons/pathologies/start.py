"""Lesson 5: what goes wrong with PFC. Edit the first part; run it with `xoff run FILE --report`."""

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
    steady_rates,
)

# ---- Your part -------------------------------------------------------------------------------------------------------

VICTIM_PRIORITY = 3
"""Step 1: the priority of the victim's frames. Lossless are 3 and 4."""

CLOCKWISE = True
"""Step 2: which way frames go round the ring: always clockwise, or up and down."""

DETECTION: str | None = None
"""Step 3: after how much pause without a break the watchdog acts, as in "1ms". None: no watchdog."""


# ---- Keep this part --------------------------------------------------------------------------------------------------


@experiment(timeout="180s")
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
                Flow("h2", "r6", priority=priority, rate="4Gb/s", duration="1500us"),
                Flow("h1", "r1", priority=3, rate="5Gb/s", duration="1500us"),
                *(Flow(host, "r1", priority=3, duration="1500us") for host in ("r2", "r3", "r4", "r5")),
            ]
            with Flows(flows) as running:
                running.wait()
        run.figure(f"{case}: goodput", steady_rates(running.reports, "400us", "1ms")[0])
        run.figure(f"{case}: priority", priority)
        run.figure(f"{case}: lost", running.lost)


def _ring(run: Run) -> None:
    """Four hosts at a ring of switches send to the one across."""
    topology = Ring(n=4, clockwise=CLOCKWISE, xoff=160, xon_offset=40)
    with network(topology, case="a ring") as net:
        across = [Flow(f"h{one}", f"h{(one + 1) % 4 + 1}", buffer="64kB") for one in range(1, 5)]
        with Flows(across, settle="4ms") as flows:
            net.sleep("1ms")
            halfway = sum(flows.received_by(index) for index in range(4))
            net.sleep("1ms")
            at_the_end = sum(flows.received_by(index) for index in range(4))
            flows.stop_sending()
            net.sleep("4ms")
        between = [f"s{number}-eth{way}" for number in range(1, 5) for way in (2, 3)]
        paused = sum(net.fabric.pfc(name, 3)["paused_until_ns"] is not None for name in between)
    run.figure("a ring: received in the second half", at_the_end - halfway)
    run.figure("a ring: not received in the end", flows.lost)
    run.figure("a ring: ports between switches that are paused in the end", paused)


def _storm(run: Run) -> None:
    """r sends XOFF for 2 ms without end. h1 has frames for r and for h2, whose port is idle."""

    class Watched(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            for host in ("h1", "h2"):
                self.addLink(self.addHost(host), "s1")
            port = Port()
            if DETECTION is not None:
                watchdog = WatchdogSettings(Duration(DETECTION), Duration("300us"), Duration("7us"))
                port = replace(port, pfc=replace(port.pfc, watchdog=watchdog))
            self.addLink("s1", self.addHost("r"), settings1=port)

    xoff = PfcFrame.xoff(Mac.parse("02:00:00:00:00:01"), [3], 400).encode()
    topology = Watched(xoff=400)
    with network(topology, case="a storm") as net, RawPort(net["r"], "r-eth0") as wire:
        flows = [Flow("h1", "r", rate="5Gb/s"), Flow("h1", "h2", rate="2Gb/s")]
        with Flows(flows) as running:
            net.sleep("200us")
            wire.repeat(xoff, net.lab_ns("5us"), 60)  # 300 us: an ordinary pause of a slow receiver
            net.sleep("700us")
            begin_lab_ns = time.monotonic_ns()
            wire.repeat(xoff, net.lab_ns("5us"), 400)  # 2 ms: a storm
            net.sleep("500us")
        innocent = running.reports[1].goodput_between(
            begin_lab_ns + net.lab_ns("1200us"), begin_lab_ns + net.lab_ns("1900us")
        )
        net.fabric.snapshot("s1")
    run.figure("a storm: goodput of the flow to h2", innocent)
    run.figure("a storm: lost by the flow to h2", running.reports[1].lost)


def _road(run: Run) -> None:
    """h1 to h4 join a row of switches one after the other, and send to r at its end."""
    topology = ParkingLot(n=4, total=1000, xon_offset=16)
    wanted = [Flow(f"h{number}", "r", duration="2ms") for number in range(1, 5)]
    with network(topology, case="a road"), Flows(wanted) as flows:
        flows.wait()
    run.figure("a road: goodput of h1 to h4", steady_rates(flows.reports, "500us", "1400us"))
