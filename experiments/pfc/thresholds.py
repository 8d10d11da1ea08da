"""Thresholds, exact to the cell: PAUSE comes with the first frame that does not fit, and with no other."""

from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate
from typing import Any

from xoff import (
    Buffer,
    Dynamic,
    GroupSettings,
    Incast,
    Port,
    Run,
    Static,
    StoppedQueue,
    experiment,
    network,
    split_evenly,
)

CELL = 208
PRIORITIES = (3, 4)
SIZES = {60: 1, 128: 1, 208: 1, 209: 2, 300: 2, 600: 3, 700: 4, 1500: 8, 1514: 8}
"""Octets of a frame without FCS, and the cells that it takes."""
STATIC = 40
PORTS = 4
RESERVE, GUARANTEED = 40, 10
"""Guaranteed cells of a priority at all four ports together, and what each of them has to get."""
HEADROOM = 100
POOL = 420
"""Shared cells: 3, 4, 5 and 7 divide them, so that settled shares are whole numbers of cells."""


@experiment(timeout="300s")
def thresholds(run: Run) -> None:
    """PAUSE comes with the first frame that does not fit, exact to the cell.

    Frames go one at a time into a switch whose queue to the receiver is stopped, until PAUSE reaches the sender.
    Static and dynamic thresholds, guaranteed cells, an exhausted pool; frames of one size and of random sizes; groups
    that are congested together. All that was sent arrives in the end. If senders ignore PAUSE, as much more arrives as
    headroom has cells for. The control case is the same threshold for a lossy priority: PAUSE never comes, and what
    does not fit is lost.
    """
    _static(run)
    _own(run)
    _dynamic(run)
    _guaranteed(run)
    _exhausted(run)
    _headroom(run)
    _control(run)


def _static(run: Run) -> None:
    fills = {f"of {octets} octets": [octets] * (STATIC // cells + 3) for octets, cells in SIZES.items()}
    for number in range(1, 11):
        mix = [run.rng.choice([run.rng.randint(60, 1514), 60, 1514]) for _ in range(STATIC + 1)]
        fills[f"of random sizes, {number}"] = mix[: _first_above(STATIC, mix) + 2]
    held = _hold(_buffer(Static(STATIC)), [[("h1", octets) for octets in fill] for fill in fills.values()])
    for (name, fill), (pauses, arrived) in zip(fills.items(), held, strict=True):
        label = f"static threshold of {STATIC} cells, frames {name}"
        run.claim(f"{label}: PAUSE comes with frame", pauses, equals={"h1": _first_above(STATIC, fill)})
        run.claim(f"{label}: arrived in the end", arrived, equals=len(fill))


def _own(run: Run) -> None:
    """Two priorities of one port: each has a threshold of its own, whatever the other holds."""
    own = {3: STATIC, 4: STATIC // 2}
    groups = {
        (1, priority): GroupSettings(lossless=True, threshold=Static(cells), headroom=HEADROOM)
        for priority, cells in own.items()
    }
    frames = [(sender, 128) for sender in ("h1", "h1:4") for _ in range(STATIC + 1)]
    [(pauses, arrived)] = _hold(_buffer(Static(STATIC), groups=groups), [frames])
    label = f"thresholds of {own[3]} and {own[4]} cells for two priorities of a port"
    run.claim(f"{label}: PAUSE comes with frame", pauses, equals={"h1": own[3] + 1, "h1:4": own[4] + 1})
    run.claim(f"{label}: arrived in the end", arrived, equals=len(frames))


def _dynamic(run: Run) -> None:
    """Groups that fill the pool together settle at alpha / (1 + n alpha) of it each; one more frame is too many."""
    for percent in (50, 100, 200):
        alpha = Fraction(percent, 100)
        settled = {groups: POOL * alpha / (1 + groups * alpha) for groups in (1, 2, 3)}
        senders = {groups: [f"h{number}" for number in range(1, groups + 1)] for groups in settled}
        fills = [[(host, 128) for _ in range(int(settled[n]) + 1) for host in senders[n]] for n in settled]
        held = _hold(_buffer(Dynamic.percent(percent)), fills)
        for groups, fill, (pauses, arrived) in zip(settled, fills, held, strict=True):
            label = f"dynamic threshold of {percent} %, {groups} at once"
            expected = dict.fromkeys(senders[groups], int(settled[groups]) + 1)
            run.claim(f"{label}: PAUSE comes with frame", pauses, equals=expected)
            run.claim(f"{label}: arrived in the end", arrived, equals=len(fill))


def _guaranteed(run: Run) -> None:
    """Guaranteed cells are used first, for as much of a frame as they hold."""
    sizes = (128, 300, 700, 1514)
    fits = {octets: (GUARANTEED + STATIC) // SIZES[octets] for octets in sizes}
    fills = [[("h1", octets)] * (fits[octets] + 2) for octets in sizes]
    held = _hold(_buffer(Static(STATIC), reserve=RESERVE), fills)
    for octets, fill, (pauses, arrived) in zip(sizes, fills, held, strict=True):
        label = f"{GUARANTEED} guaranteed cells and {STATIC} shared ones, frames of {octets} octets"
        run.claim(f"{label}: PAUSE comes with frame", pauses, equals={"h1": fits[octets] + 1})
        run.claim(f"{label}: arrived in the end", arrived, equals=len(fill))


def _exhausted(run: Run) -> None:
    """h1 takes all of the shared pool: another port, and another priority, have their guaranteed cells and no more."""
    own = GUARANTEED + 1
    first = 50 + own
    frames = [("h1", 128)] * (first + 1) + [("h2", 128)] * (own + 1) + [("h1:4", 128)] * (own + 1)
    [(pauses, arrived)] = _hold(_buffer(Static(2 * POOL), reserve=RESERVE, pool=50), [frames])
    label = f"a pool of 50 cells that h1 has filled, {GUARANTEED} guaranteed ones for each"
    run.claim(f"{label}: PAUSE comes with frame", pauses, equals={"h1": first, "h2": own, "h1:4": own})
    run.claim(f"{label}: arrived in the end", arrived, equals=len(frames))


def _headroom(run: Run) -> None:
    """Senders without PFC go on sending: headroom takes its cells' worth, and the rest is dropped."""
    fills = [[("h1", octets)] * ((STATIC + HEADROOM) // cells + 5) for octets, cells in SIZES.items()]
    held = _hold(_buffer(Static(STATIC)), fills, deaf=True)
    for (octets, cells), (_, arrived) in zip(SIZES.items(), held, strict=True):
        label = f"PAUSE ignored, threshold of {STATIC} cells and headroom of {HEADROOM}, frames of {octets} octets"
        run.claim(f"{label}: arrived in the end", arrived, equals=STATIC // cells + HEADROOM // cells)
    buffer = _buffer(Static(STATIC), headroom_pool=HEADROOM + 30, overbook_headroom=True)
    [(_, arrived)] = _hold(buffer, [[(host, 128) for host in ("h1", "h2") for _ in range(150)]], deaf=True)
    label = f"PAUSE ignored by two, and headroom of {HEADROOM} each from a pool of {HEADROOM + 30}"
    run.claim(f"{label}: arrived in the end", arrived, equals=2 * STATIC + HEADROOM + 30)


def _control(run: Run) -> None:
    lossy = {(port, 3): GroupSettings(threshold=Static(STATIC)) for port in (1, 2)}
    fills = [[("h1", octets)] * (STATIC // cells + 5) for octets, cells in SIZES.items()]
    held = _hold(_buffer(Static(STATIC), groups=lossy), fills)
    for (octets, cells), (pauses, arrived) in zip(SIZES.items(), held, strict=True):
        label = f"the same threshold without PFC, frames of {octets} octets"
        run.claim(f"{label}: pauses", pauses, equals={})
        run.claim(f"{label}: arrived in the end", arrived, equals=STATIC // cells)
    frames = [(host, 128) for host in ("h1", "h2") for _ in range(STATIC)]
    [(pauses, arrived)] = _hold(_buffer(Static(STATIC), groups=lossy, pool=50), [frames])
    label = "a pool of 50 cells, filled without PFC"
    run.claim(f"{label}: pauses", pauses, equals={})
    run.claim(f"{label}: arrived in the end", arrived, equals=50)


def _hold(
    buffer: Buffer, fills: Iterable[list[tuple[str, int]]], deaf: bool = False
) -> list[tuple[dict[str, int], int]]:
    """Return for each filling the number of the frame that PAUSE came with, by sender, and the frames that arrived."""

    class Deaf(Incast):
        """Hosts without PFC on a switch that has it."""

        def addHost(self, name: str, **options: Any) -> str:
            added: str = super().addHost(name, **options | {"port": Port().without_pfc()})
            return added

    found = []
    kind = Deaf if deaf else Incast
    topo = kind(n=PORTS - 1, buffer=buffer, port=Port().with_pfc(*PRIORITIES), mismatch="ignore")
    with network(topo) as net, StoppedQueue(net) as steps:
        for frames in fills:
            pauses = steps.fill(frames)
            found.append((pauses, steps.drain()[0]))
    return found


def _buffer(threshold: Any, reserve: int = 0, pool: int = POOL, **options: Any) -> Buffer:
    """Return a buffer whose shared pool has `pool` cells beside `reserve` cells of each priority, and headroom."""
    groups = PORTS * len(PRIORITIES)
    guaranteed = split_evenly(reserve, tuple(range(PORTS)))
    total = pool + len(PRIORITIES) * reserve + options.setdefault("headroom_pool", groups * HEADROOM)
    options |= {"total": total, "guaranteed": guaranteed, "xoff": threshold, "headroom": HEADROOM}
    return Buffer(cell=CELL, xon_offset=0, **options)


def _first_above(cells: int, frames: list[int]) -> int:
    """Return the number of the first frame with which the frames so far need more cells."""
    used = accumulate(-(-octets // CELL) for octets in frames)
    return next(number for number, so_far in enumerate(used, 1) if so_far > cells)
