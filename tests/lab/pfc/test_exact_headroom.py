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

FRAME, PFC_ON_WIRE = 1077, 84
BELOW = 20
"""The frames that fit below the threshold."""
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
RATES = ("100Gb/s", "400Gb/s", "800Gb/s")
CABLES = {"5 m": "25ns", "100 m": "500ns", "2 km": "10us", "50 km": "250us"}
"""The pairs of rate and cable at which credits are tried, too (`tests/lab/credits/test_credits.py`)."""
LONG = {"100Gb/s": 9012, "400Gb/s": 9012, "800Gb/s": 9010}
"""Frames for the longest cable: fewer are under way, and they add up less of what each is late in the lab."""
MARKS = {"test_a_host_that_is_paused_needs_no_frame_more_on_the_other_engine_at_any_rate_and_delay": [("long",)]}


def needed(rate: str, delay: str, length: int = FRAME) -> int:
    """Return the frames that come in from the one that triggers PAUSE on: its sum, in octets of the line."""
    from testbed.units import Duration, Rate

    round_trip = 2 * Duration(delay).ps * Rate(rate).bps // (8 * 10**12)
    return 1 + (round_trip + PFC_ON_WIRE + REACTION_OCTETS) // (length + 24)


@experiment(timeout="2000s")
def headroom_of_a_number_of_frames(run: Run, sender: str = "host", most: int = max(FRAMES.values())) -> None:
    """Make the cases of at most so many frames."""
    for (rate, delay), frames in FRAMES.items():
        if frames > most:
            continue
        run.claim(f"{rate}, {delay}: frames of the sum", needed(rate, delay), equals=frames)
        for name, headroom, lost in (("enough", frames, 0), ("a frame less", frames - 1, 1)):
            used, dropped = _paused(run, sender, (rate, delay, FRAME), headroom)
            run.claim(f"{rate}, {delay}, {name}: frames in headroom", used, equals=headroom)
            run.claim(f"{rate}, {delay}, {name}: dropped", dropped, equals=lost)


def _paused(run: Run, sender: str, line: tuple[str, str, int], headroom: int, fewer: int = 0) -> tuple[int, int]:
    """Return the most frames in headroom, and those that did not fit, when a switch pauses a host or a switch.

    The headroom is that of so many frames, less so many cells.
    """
    from testbed.frames.mac_control import PfcFrame
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.cable import Cable
    from testbed.net.fabric.port import Buffer
    from testbed.net.shell.wire import RawPort
    from testbed.net.traffic import Flow
    from testbed.switch.buffer.settings import GroupSettings, Static
    from testbed.units import Rate

    rate, delay, length = line
    frame_cells = -(-length // 208)
    threshold = Static(BELOW * frame_cells)
    cells = headroom * frame_cells - fewer
    first = GroupSettings(lossless=True, threshold=threshold, xon_offset=0, headroom=cells)

    class Line(LosslessTopo):
        """The host h1, or two hosts behind the switch s0, send to r through s1, which cannot pass anything on."""

        def build(self) -> None:
            self.addSwitch("s1", buffer=Buffer(cells + 40_000, xoff=threshold, headroom=0, groups={(1, 3): first}))
            if sender == "host":
                self.addLink(self.addHost("h1"), "s1", cable=Cable(rate, delay=delay, mtu=9216))
            else:
                self.addLink(
                    self.addSwitch("s0", buffer=Buffer(100_000)), "s1", cable=Cable(rate, delay=delay, mtu=9216)
                )
                for name in ("h1", "h2"):
                    self.addLink(self.addHost(name), "s0", cable=Cable(rate, mtu=9216))
            self.addLink("s1", self.addHost("r"), cable=Cable("10Gb/s", mtu=9216))

    with network(Line(scale=Rate(rate).bps // 10**7), run) as net, RawPort(net["r"], "r-eth0") as wire:
        wire.send(PfcFrame.xoff(net.fabric.port("r-eth0").mac, [3]).encode())
        net.sleep("1us")
        sources = [host for host in net.hosts if host.name != "r"]
        net.run(*[Flow(host.name, "r", 3, f"{length}B", count=BELOW + headroom + 20) for host in sources])
        group = net.fabric.group("s1-eth1", 3)
        return group.high_water[2] // frame_cells, group.dropped_frames[0]


@experiment(timeout="20000s")
def headroom_over_a_cable(run: Run, cable: str = "5 m") -> None:
    """A cell of headroom less is as little as a frame less: the last frame does not fit."""
    delay = CABLES[cable]
    for rate in RATES:
        length = LONG[rate] if cable == "50 km" else FRAME
        frames = needed(rate, delay, length)
        run.claim(f"{rate}, {cable}, {frames} frames: dropped", _paused(run, "host", (rate, delay, length), frames)[1],
                  equals=0)  # fmt: skip
        _, dropped = _paused(run, "host", (rate, delay, length), frames, 1)
        # Headroom that has no room for a single frame stops nobody
        run.claim(f"{rate}, {cable}, {frames} frames less a cell: dropped", dropped, at_least=1,
                  at_most=1 if frames > 1 else 21)  # fmt: skip


def test_the_headroom_of_the_sum_is_exact_over_5_m(run: Runner) -> None:
    run(headroom_over_a_cable, cable="5 m").check()


def test_the_headroom_of_the_sum_is_exact_over_100_m(run: Runner) -> None:
    run(headroom_over_a_cable, cable="100 m").check()


def test_the_headroom_of_the_sum_is_exact_over_2_km(run: Runner) -> None:
    run(headroom_over_a_cable, cable="2 km").check()


def test_the_headroom_of_the_sum_is_exact_over_50_km(run: Runner) -> None:
    run(headroom_over_a_cable, cable="50 km").check()


def test_a_host_that_is_paused_needs_no_frame_more(run: Runner) -> None:
    run(headroom_of_a_number_of_frames, sender="host").check()


def test_a_switch_that_is_paused_needs_no_frame_more(run: Runner) -> None:
    run(headroom_of_a_number_of_frames, sender="switch").check()


def test_a_host_that_is_paused_needs_no_frame_more_on_the_other_engine(run: Runner, vm: PreparedEngine) -> None:
    result = run(headroom_of_a_number_of_frames, on=vm, sender="host", most=FRAMES["10Gb/s", "50us"]).check()
    assert sum(claim.name.endswith("frames of the sum") for claim in result.claims) == 4


def test_a_host_that_is_paused_needs_no_frame_more_on_the_other_engine_at_any_rate_and_delay(
    run: Runner, vm: PreparedEngine
) -> None:
    run(headroom_of_a_number_of_frames, on=vm, sender="host").check()
