"""Headroom for exactly the frames that arithmetic says loses none, and headroom for one frame less loses one.

These are the frame that triggers PAUSE and those whose first bits leave the sender until it has obeyed: a frame that
has not begun by then waits. Frames have 1101 octets on the wire, so that in none of the cases the time until PAUSE is
obeyed is near to a whole number of frames. So the agents of `vm`, whose work takes its time, make no other number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.lab import Run, experiment

if TYPE_CHECKING:
    from testbed.lab.engines.engine import PreparedEngine
    from tests.lab.conftest import Runner

FRAME, ON_WIRE, PFC_ON_WIRE = 1077, 1101, 84
FRAME_CELLS, BELOW = 6, 20
"""The cells of a frame, and the frames that fit below the threshold."""
REACTION_OCTETS = 83
"""What a line carries, at any rate, while the agents of `um` react: 26 us and 40 us of the lab at 10 Mb/s."""
FRAMES = {
    ("10Gb/s", "500ns"): 2,
    ("100Gb/s", "500ns"): 12,
    ("400Gb/s", "500ns"): 46,
    ("10Gb/s", "50us"): 114,
    ("100Gb/s", "50us"): 1136,
    ("400Gb/s", "50us"): 4542,
}
"""By rate, and delay over 100 m or 10 km of fibre."""


def needed(rate: str, delay: str) -> int:
    """Return the frames that come in from the one that triggers PAUSE on: its sum, in octets of the line."""
    from testbed.units import Duration, Rate

    round_trip = 2 * Duration(delay).ps * Rate(rate).bps // (8 * 10**12)
    return 1 + (round_trip + PFC_ON_WIRE + REACTION_OCTETS) // ON_WIRE


@experiment(timeout="2000s")
def headroom_of_a_number_of_frames(run: Run, sender: str = "host") -> None:
    for (rate, delay), frames in FRAMES.items():
        run.claim(f"{rate}, {delay}: frames of the sum", needed(rate, delay), equals=frames)
        for name, headroom, lost in (("enough", frames, 0), ("a frame less", frames - 1, 1)):
            used, dropped = _paused(run, sender, rate, delay, headroom)
            run.claim(f"{rate}, {delay}, {name}: frames in headroom", used, equals=headroom)
            run.claim(f"{rate}, {delay}, {name}: dropped", dropped, equals=lost)


def _paused(run: Run, sender: str, rate: str, delay: str, headroom: int) -> tuple[int, int]:
    """Return the most frames in headroom, and those that did not fit, when a switch pauses a host or a switch."""
    from testbed.frames.mac_control import PfcFrame
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.cable import Cable
    from testbed.net.fabric.port import Buffer
    from testbed.net.shell.wire import RawPort
    from testbed.net.traffic import Flow
    from testbed.switch.buffer.settings import GroupSettings, Static
    from testbed.units import Rate

    threshold = Static(BELOW * FRAME_CELLS)
    cells = headroom * FRAME_CELLS
    first = GroupSettings(lossless=True, threshold=threshold, xon_offset=0, headroom=cells)

    class Line(LosslessTopo):
        """The host h1, or two hosts behind the switch s0, send to r through s1, which cannot pass anything on."""

        def build(self) -> None:
            self.addSwitch("s1", buffer=Buffer(40_000, xoff=threshold, headroom=0, groups={(1, 3): first}))
            if sender == "host":
                self.addLink(self.addHost("h1"), "s1", cable=Cable(rate, delay=delay))
            else:
                self.addLink(self.addSwitch("s0", buffer=Buffer(100_000)), "s1", cable=Cable(rate, delay=delay))
                for name in ("h1", "h2"):
                    self.addLink(self.addHost(name), "s0", cable=Cable(rate))
            self.addLink("s1", self.addHost("r"), cable=Cable("10Gb/s"))

    with network(Line(scale=Rate(rate).bps // 10**7), run) as net, RawPort(net["r"], "r-eth0") as wire:
        wire.send(PfcFrame.xoff(net.fabric.port("r-eth0").mac, [3]).encode())
        net.sleep("1us")
        sources = [host for host in net.hosts if host.name != "r"]
        net.run(*[Flow(host.name, "r", 3, f"{FRAME}B", count=BELOW + headroom + 20) for host in sources])
        group = net.fabric.group("s1-eth1", 3)
        return group.high_water[2] // FRAME_CELLS, group.dropped_frames[0]


def test_a_host_that_is_paused_needs_no_frame_more(run: Runner) -> None:
    run(headroom_of_a_number_of_frames, sender="host").check()


def test_a_switch_that_is_paused_needs_no_frame_more(run: Runner) -> None:
    run(headroom_of_a_number_of_frames, sender="switch").check()


def test_a_host_that_is_paused_needs_no_frame_more_on_the_other_engine(run: Runner, vm: PreparedEngine) -> None:
    run(headroom_of_a_number_of_frames, on=vm, sender="host").check()
