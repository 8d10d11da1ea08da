"""Watermarks of priority groups, queues and pools, as the switch's own commands show them."""

from experiments.conformance._case import FRAME, Bench, Control, case, frames_to_fill, without_watchdog
from experiments.conformance._fill import Fill, fill
from testbed.subjects.sonic.lab.commands import clear, show

SHARED, HEADROOM = "bytes: group, shared", "bytes: group, headroom"
_IN_HEADROOM, _AGAIN = 20, 30
"""The frames after XOFF, and those after watermarks were cleared."""


@case(
    control=Control("nothing is held", fails=[SHARED, HEADROOM, "bytes: queue", "after clearing: group, shared"]),
    tables=without_watchdog,
    timeout="240s",
)
def watermarks(bench: Bench) -> None:
    """A known number of bytes is held, once beyond XOFF and once, after clearing, far below: watermarks are exact."""
    with fill(bench, ["h1"], holds=not bench.is_control) as held:
        reference, most = held.references[0], frames_to_fill(held.settings)
        while reference.xoff_frame is None and reference.dropped_frame is None and held.groups[0].sent < most:
            held.send()
        for _ in range(_IN_HEADROOM):
            held.send()
        first, expected = _shown(bench, held), _expected(held)
        held.drain()
        held.model_drains_to_xon()
        kept = _shown(bench, held)
        _clear(held)
        for _ in range(_AGAIN):
            held.send()
        again, expected_again = _shown(bench, held), _expected(held)
        held.drain()
    for name, place in ((SHARED, 0), (HEADROOM, 1), ("bytes: queue", 2), ("bytes: ingress pool", 3)):
        bench.claim(name, first[place], equals=expected[place])
    bench.claim("after draining they are as before", kept == first, equals=True)
    for name, place in (("group, shared", 0), ("group, headroom", 1), ("queue", 2), ("ingress pool", 3)):
        bench.claim(f"after clearing: {name}", again[place], equals=expected_again[place])
    bench.figure("octets of a frame in cells", -(-FRAME.bytes // held.settings.cell_bytes) * held.settings.cell_bytes)


def _shown(bench: Bench, held: Fill) -> list[int | None]:
    """Return the bytes that the commands show: group (shared, headroom), queue, first ingress pool; None for N/A."""
    group = held.groups[0]
    ingress, out = (held.fabric.core.options.labels.get(port, port) for port in (group.port, held.out))
    return [
        _cell(show(["priority-group", "watermark", "shared"]), ingress, group.group),
        _cell(show(["priority-group", "watermark", "headroom"]), ingress, group.group),
        _cell(show(["queue", "watermark", "unicast"]), out, held.queue_of(group.priority)),
        _cell(show(["buffer_pool", "watermark"]), held.fabric.core.options.pool_labels[held.node][0], 0),
    ]


def _cell(text: str, row: str, column: int) -> int | None:
    """Return the number in a table behind the row's name."""
    line = next(words for words in map(str.split, text.splitlines()) if words[:1] == [row])
    value = line[column + 1]
    return None if value == "N/A" else int(value)


def _expected(held: Fill) -> list[int | None]:
    """Return the same bytes by the reference: the most that it held since the last time."""
    group, cell = held.groups[0], held.settings.cell_bytes
    of_group = held.model.group_watermark(group.number, group.group, clear=True).cells
    of_pool = held.model.pool_watermark(0, clear=True).cells
    place = held.fabric.port(held.out).number, held.queue_of(group.priority)
    limited = place in held.settings.queues
    of_queue = held.model.queue_watermark(*place, clear=True).cells.shared * cell if limited else None
    return [of_group.shared * cell, of_group.headroom * cell, of_queue, of_pool.shared * cell]


def _clear(held: Fill) -> None:
    for what in ("priority-group watermark shared", "queue watermark unicast", "buffer_pool watermark"):
        clear(what.split())
    # The reference was cleared when it was full.
    group = held.groups[0]
    held.model.group_watermark(group.number, group.group, clear=True)
    held.model.pool_watermark(0, clear=True)
    place = held.fabric.port(held.out).number, held.queue_of(group.priority)
    if place in held.settings.queues:
        held.model.queue_watermark(*place, clear=True)
