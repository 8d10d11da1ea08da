"""A cable is swapped for a longer one while traffic flows, and headroom is measured again."""

import time
from typing import Any

from experiments.headroom._headroom import FRAME, PRIORITY, able, wait_until_measured
from xoff import Buffer, Cable, Duration, Flow, Flows, LosslessTopo, Port, Run, Static, dcbx_state, experiment, network

CABLES = ("10us", "40us", "20us")
"""Delays of the cables, one way: the first one, the second, and the third."""
UNPLUGGED = Duration("200us")
DEFAULT = 800
"""Cells of headroom until a cable is measured; enough for the longest."""


@experiment(timeout="120s")
def headroom_recable(run: Run) -> None:
    """Two hosts overload a third, and the cable between two switches is pulled out and another one put in, twice.

    With each cable its ports measure again, and their headroom is what the new round trip needs. What was in the old
    cable, or was sent while there was none, is lost; the switches' buffers lose nothing, and the host whose way is not
    over that cable neither. The control case has one headroom, measured for the first cable, throughout: with the
    longer cables the switch loses frames.
    """
    adaptive = _swaps(run, None)
    delays = [Duration(text) for text in CABLES]
    for delay, trip_ns, headroom in zip(delays, adaptive["round trips"], adaptive["headroom"], strict=True):
        run.figure(f"cable of {delay}: cells of headroom", headroom)
        beyond = round((trip_ns - 2 * delay.ns) * 100 / (2 * delay.ns), 2)
        run.claim(f"cable of {delay}: median round trip beyond the cable's, in percent", beyond, at_least=0, at_most=1)
    headrooms = adaptive["headroom"]
    run.claim("cables by their headroom", sorted(range(3), key=lambda number: headrooms[number]), equals=[0, 2, 1])
    run.claim("headroom in the meantime", adaptive["meanwhile"], equals=[DEFAULT, DEFAULT])
    run.claim("measured: dropped by the switches", adaptive["dropped"], equals=0)
    run.claim("measured: lost by the host on the same switch as the receiver", adaptive["lost"][1], equals=0)
    run.claim("measured: lost with the cables, and on none", adaptive["lost"][0], at_least=1)
    run.claim("measured: pauses with each cable", min(adaptive["pauses"]), at_least=3)
    run.claim("measured: cells in use at the end", adaptive["used"], equals=0)
    fixed = _swaps(run, Port(), headrooms[0])
    run.claim("headroom of the first cable throughout: dropped by the switch", fixed["dropped"], at_least=1)


def _swaps(run: Run, port: Any, headroom: int = DEFAULT) -> dict[str, Any]:
    """Swap the cable twice and return what was found; the headroom is this one until another one is measured."""

    class Overload(LosslessTopo):
        def build(self) -> None:
            self.addLink(self.addSwitch("s1"), self.addSwitch("s2"), cable=Cable("10Gb/s", delay=CABLES[0]))
            for host, switch in (("h1", "s2"), ("h2", "s1"), ("r", "s1")):
                self.addLink(self.addHost(host), switch)

    buffer = Buffer(total=6000, xoff=Static(160), xon_offset=16, headroom=headroom, shortest=FRAME.bytes + 4)
    found: dict[str, Any] = {"round trips": [], "headroom": [], "meanwhile": [], "pauses": []}
    measures = port is None
    with network(Overload(port=port or able(), buffer=buffer)) as net:
        fabric = net.fabric

        def note(before: int) -> None:
            if measures:
                wait_until_measured(fabric, ["s1-eth1"])
                found["round trips"].append(dcbx_state(fabric, "s1-eth1")["measured"]["median_ns"])
            found["headroom"].append(fabric.limits("s1-eth1", PRIORITY).headroom)
            deadline_lab_ns = time.monotonic_ns() + net.lab_ns("5ms")
            with run.measuring():
                while fabric.group("s1-eth1", PRIORITY).xoffs < before + 3 and time.monotonic_ns() < deadline_lab_ns:
                    net.sleep("50us")
            found["pauses"].append(fabric.group("s1-eth1", PRIORITY).xoffs - before)

        if measures:
            wait_until_measured(fabric, ["s1-eth1", "s1-eth2", "s1-eth3", "s2-eth1", "s2-eth2"])
        with Flows([Flow(host, "r", PRIORITY, FRAME) for host in ("h1", "h2")]) as flows:
            note(0)
            for delay in CABLES[1:]:
                before = fabric.group("s1-eth1", PRIORITY).xoffs
                net.configLinkStatus("s1", "s2", "down")
                fabric.cabling.change_delay("s1-eth1", Duration(delay))
                net.sleep(UNPLUGGED)
                found["meanwhile"].append(fabric.limits("s1-eth1", PRIORITY).headroom)
                net.configLinkStatus("s1", "s2", "up")
                note(before)
            flows.stop_sending()
        found["lost"] = [report.lost for report in flows.reports]
        found["dropped"] = fabric.dropped()
        found["used"] = fabric.held(PRIORITY)
    return found
