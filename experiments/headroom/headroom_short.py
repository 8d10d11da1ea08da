"""Headroom that is short by so many octets loses as much, on both ends of a cable; what was measured loses nothing."""

from contextlib import ExitStack
from dataclasses import dataclass

from experiments.headroom._headroom import able, wait_until_measured
from xoff import (
    Buffer,
    Cable,
    Duration,
    Flow,
    Flows,
    GroupSettings,
    LosslessTopo,
    PfcFrame,
    Port,
    Rate,
    RawPort,
    Run,
    Scale,
    Size,
    Static,
    experiment,
    network,
)

SCALE = Scale(10_000)
"""Twenty hosts send at once; so the lab has time for each frame."""
LINE = Rate("10Gb/s")
FRAME = Size("1514B")
FRAME_TIME = LINE.time_for(FRAME + Size("24B"))
CABLE = FRAME_TIME * 15 // 4
"""The delay of the cable: 7.5 frame times there and back, which the agents' own tenth cannot make eight."""
NEEDED = 1 + 7
"""The frames in need of headroom: the one that triggers PAUSE, and those that leave until PAUSE stops the other end."""
CELL, FRAME_CELLS = 208, 8
BELOW = 10
BURST = BELOW + NEEDED + 10
BURSTS = 3
PRIORITY = 3
SHORT = (-FRAME_CELLS, 0, 1, FRAME_CELLS, FRAME_CELLS + 1, 2 * FRAME_CELLS, 5 * FRAME_CELLS, NEEDED * FRAME_CELLS)
"""The cells that headroom lacks; -8 is a frame more than needed."""
PLENTY = 800


@dataclass(frozen=True)
class Seen:
    """The losses and pauses of the bursts in one direction."""

    lost: int
    dropped: int
    pauses: int
    used: int
    """The most frames that lay in headroom."""


@experiment(timeout="120s")
def headroom_short(run: Run) -> None:
    """Pairs of switches send each other bursts, and both ends have headroom that is short by the same.

    The hosts stop the switches' queues to them, so each end of the cable between the switches has to pause the other.
    What is lost is what headroom is short of, in whole frames, for each burst and in both directions. One pair has
    more than enough, which shows what is needed, and one has measured its headroom; they lose nothing. The control
    case is the last of the short ones: no headroom at all, as if PAUSE worked at once.
    """
    names = ["plenty", "measured", *map(_name, SHORT)]
    found = dict(zip(names, _bursts(), strict=True))
    for direction in (0, 1):
        way = ("there", "back")[direction]
        run.claim(f"plenty, {way}: frames that lay in headroom", found["plenty"][direction].used, equals=NEEDED)
        run.claim(f"plenty, {way}: lost", found["plenty"][direction].lost, equals=0)
        run.claim(f"measured, {way}: lost", found["measured"][direction].lost, equals=0)
        run.claim(f"measured, {way}: frames that lay in headroom", found["measured"][direction].used, equals=NEEDED)
        for short in SHORT:
            seen = found[_name(short)][direction]
            frames = max(0, -(-short // FRAME_CELLS))
            run.claim(f"{_name(short)}, {way}: lost", seen.lost, equals=frames * BURSTS)
            run.claim(f"{_name(short)}, {way}: dropped for want of headroom", seen.dropped, equals=frames * BURSTS)
            run.claim(f"{_name(short)}, {way}: pauses", seen.pauses, equals=BURSTS)


def _name(short: int) -> str:
    octets = abs(short) * CELL
    return f"{octets} octets short" if short > 0 else f"{octets} octets more" if short else "just enough"


def _bursts() -> list[tuple[Seen, Seen]]:
    """Return what became of the bursts in both directions of each pair."""
    pairs: list[int | None] = [PLENTY, None, *(NEEDED * FRAME_CELLS - short for short in SHORT)]
    numbers = range(1, len(pairs) + 1)

    class Pairs(LosslessTopo):
        """a1 --- s1a --- s1b --- b1, and so on; a switch's port 1 leads to its host, port 2 to the other switch."""

        def build(self) -> None:
            for number, headroom in zip(numbers, pairs, strict=True):
                for side in "ab":
                    self.addSwitch(f"s{number}{side}", buffer=_buffer(headroom))
                    self.addLink(self.addHost(f"{side}{number}"), f"s{number}{side}")
                ends = able() if headroom is None else Port()
                cable = Cable(LINE, delay=CABLE)
                self.addLink(f"s{number}a", f"s{number}b", cable=cable, settings1=ends, settings2=ends)

    with network(Pairs(scale=SCALE)) as net, ExitStack() as stack:
        fabric = net.fabric
        hosts = [(f"a{number}", f"b{number}") for number in numbers]
        wires = {name: stack.enter_context(RawPort(net[name], f"{name}-eth0")) for both in hosts for name in both}
        measuring = [f"s{number}{side}-eth2" for number in numbers for side in "ab" if pairs[number - 1] is None]
        wait_until_measured(fabric, measuring)
        lost = {name: 0 for both in hosts for name in both}
        for _ in range(BURSTS):
            for name, wire in wires.items():
                wire.send(PfcFrame.xoff(fabric.port(f"{name}-eth0").mac, [PRIORITY]).encode())
            ways = [way for a, b in hosts for way in ((a, b), (b, a))]
            flows = [Flow(source, target, PRIORITY, FRAME, count=BURST) for source, target in ways]
            with Flows(flows, settle=Duration("200us")) as running:
                net.sleep(FRAME_TIME * (BURST + 10))
                for name, wire in wires.items():
                    wire.send(PfcFrame.xon(fabric.port(f"{name}-eth0").mac, [PRIORITY]).encode())
                running.wait()
            for (_, target), report in zip(ways, running.reports, strict=True):
                lost[target] += report.lost
        found = []
        for number, (a, b) in zip(numbers, hosts, strict=True):
            both = []
            for side, target in (("b", b), ("a", a)):
                group = fabric.group(f"s{number}{side}-eth2", PRIORITY)
                used = group.high_water[2] // FRAME_CELLS
                both.append(Seen(lost[target], sum(group.dropped_frames), group.xoffs, used))
            found.append((both[0], both[1]))
    return found


def _buffer(headroom: int | None) -> Buffer:
    """Return the buffer of a switch with this headroom, or with what is measured if it is None.

    Frames of the host wait before the cable, and never pause it.
    """
    from_host = GroupSettings(lossless=True, threshold=Static(BURST * FRAME_CELLS), headroom=PLENTY)
    groups = {(1, PRIORITY): from_host}
    if headroom is not None:
        groups[2, PRIORITY] = GroupSettings(
            lossless=True, threshold=Static(BELOW * FRAME_CELLS), xon_offset=FRAME_CELLS, headroom=headroom
        )
    threshold = Static(BELOW * FRAME_CELLS)
    return Buffer(xoff=threshold, xon_offset=FRAME_CELLS, headroom=PLENTY, shortest=FRAME.bytes + 4, groups=groups)
