"""Headroom of priority groups, and of the pool that they share."""

from experiments.conformance._case import (
    FRAME,
    Bench,
    Control,
    case,
    frames_to_fill,
    without_headroom,
    without_watchdog,
)
from experiments.conformance._fill import fill
from xoff import Size

HEADROOM = "bytes taken after XOFF until a frame is dropped, least of all groups"


@case(
    control=Control("no headroom", without_headroom, fails=[HEADROOM]), tables=without_watchdog, timeout="400s"
)  # fmt: skip
def headroom_size(bench: Bench) -> None:
    """Senders ignore PAUSE until frames are dropped: each group takes its headroom, and all together the pool's."""
    senders = ["h1", "h3"] if len(bench.ports) > 2 else ["h1"]
    with fill(bench, senders, hosts=max(2, len(senders) + 1)) as held:
        cell, most_frames = held.settings.cell_bytes, frames_to_fill(held.settings)
        for place, (group, reference) in enumerate(zip(held.groups, held.references, strict=True)):
            while group.sent < most_frames and not (group.dropped_frame and reference.dropped_frame):
                held.send(place)
        most = [held.counters(place).high_water[2] for place in range(len(held.groups))]
        pool = held.settings.pool_cells(0)[2]
        limits = [held.settings.group(one.number, one.group).headroom for one in held.groups]
        held.drain()
    expected = [one.headroom_cells for one in held.references]
    # Where an egress pool is full before a group has come to its XOFF, its headroom cannot be reached.
    reached = [cells for cells, wanted_cells in zip(most, expected, strict=True) if wanted_cells]
    frame = -(-FRAME.bytes // cell)
    profiles = [bench.given.tables.profile(bench.port_of(one.sender), one.group) for one in held.groups]
    wanted = min(
        profile.xoff if profile and profile.xoff else limit * cell
        for profile, limit in zip(profiles, limits, strict=True)
    )
    least = Size.from_bytes(min(reached, default=0) * cell)
    bench.claim(HEADROOM, least, at_least=Size.from_bytes(max(1, wanted - frame * cell)),
                at_most=Size.from_bytes(max(wanted, 1)))  # fmt: skip
    bench.claim("headroom of each group, in cells", most, equals=expected)
    bench.claim("first frame dropped, of each group", [one.dropped_frame for one in held.groups],
                equals=[one.dropped_frame for one in held.references])  # fmt: skip
    bench.claim("headroom of all groups, in cells", sum(most), at_most=pool)
