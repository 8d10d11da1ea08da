"""PFC pause response time against headroom: a sender that obeys late."""

from dataclasses import replace
from typing import Any

from experiments.conformance._case import FRAME, Bench, Control, case, without_headroom, without_watchdog
from testbed.net.fabric.port import LAB_AGENT_REACTION, PortNeeds
from xoff import Duration, Flows, PfcFrame, RawPort, SonicTopo

LONGEST = "longest response without a loss"
_HOLD = Duration("100us")
"""The interval of XOFF at 100 Gb/s, where 65535 quanta are 335 us."""
_SHORT, _BEYOND = 3, 6
"""Frame times: how far below the computed limit a response has to be without loss, and how far above with loss."""


@case(
    control=Control("no headroom", without_headroom, fails=[LONGEST]), tables=without_watchdog, timeout="120s"
)  # fmt: skip
def pause_response(bench: Bench) -> None:
    """A sender obeys XOFF as late as headroom allows, and nothing is lost; a few frames later there is loss."""
    below, beyond = _limit(bench) - bench.frame_time() * _SHORT, _limit(bench) + bench.frame_time() * _BEYOND
    lost = {response: _lost(bench, response) for response in (below // 2, below, beyond)}
    without = [response for response, frames in lost.items() if not frames]
    bench.claim(LONGEST, max(without) if without else None, at_least=below, at_most=beyond)  # fmt: skip
    for response, frames in lost.items():
        if response == beyond:
            bench.claim(f"response of {response}: frames lost", frames, at_least=1)
        else:
            bench.claim(f"response of {response}: frames lost", frames, equals=0)


def _limit(bench: Bench) -> Duration:
    """Return the response for which headroom is just enough.

    That is the round trip in the cable, the agents' own time, the frame that triggers XOFF and those that have begun.
    """
    ports = [bench.given.ports[name] for name in bench.ports]
    port, priority = ports[0], bench.lossless[0]
    needs = {one.number: PortNeeds(one.settings.pfc.enabled, one.rate, one.length.propagation()) for one in ports}
    buffer = bench.given.buffer_of(bench.ports).settings(needs)
    cells = buffer.group(port.number, port.settings.priorities.dot1p_to_group[priority]).headroom
    frames = cells // buffer.cells(FRAME.bytes)
    reaction = bench.switch.scale.nearest_real(LAB_AGENT_REACTION.sends + LAB_AGENT_REACTION.stops)
    base = port.length.propagation() * 2 + reaction + bench.frame_time() * 3
    whole = bench.frame_time() * frames
    return whole - base if whole > base + bench.frame_time() * 2 * _SHORT else bench.frame_time() * 2 * _SHORT


def _lost(bench: Bench, response: Duration) -> int:
    """Return the lost frames of a sender with this response; the way out is held, so that all of them have to wait."""

    class Late(SonicTopo):
        def addHost(self, name: str, **options: Any) -> str:
            if name == "h1":
                options["port"] = replace(options["port"], obeys_after=response)
            added: str = super().addHost(name, **options)
            return added

    priority = bench.lossless[0]
    with bench.network(topo=Late(bench.switch, hosts=2)) as net, RawPort(net["h2"], "h2-eth0") as wire:
        mac, port = net.fabric.port("h2-eth0").mac, bench.port(net, "h1")
        group = bench.switch.ports[bench.ports[0]].settings.priorities.dot1p_to_group[priority]
        within = bench.fill_time(net)
        settle, hold = max(bench.paced("2ms"), within * 2), bench.paced(_HOLD)
        with Flows([bench.flow("h1", "h2", priority)], settle) as running:
            xoff = PfcFrame.xoff(mac, [priority]).encode()
            for _ in range(within // hold + 1):
                wire.send(xoff)
                net.sleep(hold)
                if net.fabric.group(port, group).xoffs:
                    break
            left = response + hold + bench.round_trip(net)
            while left > hold * 2:
                wire.send(xoff)
                net.sleep(hold)
                left -= hold
            net.sleep(left)
            running.stop_sending()
            wire.send(PfcFrame.xon(mac, [priority]).encode())
    return int(running.reports[0].lost)
