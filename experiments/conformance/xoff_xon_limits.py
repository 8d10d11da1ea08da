"""XOFF and XON limits of a lossless priority group."""

from experiments.conformance._case import FRAME, Bench, Control, case, frames_to_fill, without_pfc, without_watchdog
from experiments.conformance._fill import fill
from xoff import Size

XOFF, XON = "bytes held when XOFF was sent", "bytes of the shared pool held when XON was sent"
_MOST_IN_CONTROL = 3_000
"""The most frames in the control, where none of them stays, however many come."""


@case(control=Control("no PFC", without_pfc, fails=[XOFF, XON]), tables=without_watchdog, timeout="240s")
def xoff_xon_limits(bench: Bench) -> None:
    """Frames fill a group one by one, then leave it: XOFF and XON come with the frames that the profile means."""
    with fill(bench, ["h1"]) as held:
        cell = held.settings.cell_bytes
        group, reference = held.groups[0], held.references[0]
        most = _MOST_IN_CONTROL if bench.is_control else frames_to_fill(held.settings)
        while group.xoff_frame is None and reference.xoff_frame is None and group.sent < most:
            if group.dropped_frame or reference.dropped_frame:
                break
            held.send()
        held.send()
        before = held.counters(0)
        held.drain()
        level = held.model_drains_to_xon()
        levels = [
            event.detail["shared_cells"]
            for event in held.fabric.events()
            if event.kind == "threshold" and event.port == group.port and event.priorities == (group.group,)
        ]
        after = held.counters(0)
    frame = cell * -(-FRAME.bytes // cell)
    # What the XOFF frame found: its own cells are in headroom.
    measured = None if group.xoff_frame is None else Size.from_bytes((group.xoff_frame - 1) * frame)
    expected = None if reference.xoff_frame is None else Size.from_bytes((reference.xoff_frame - 1) * frame)
    bench.claim(XOFF, measured, equals=expected or _by_profile(bench, frame))
    xon = Size.from_bytes(levels[-1] * cell) if len(levels) > 1 else None
    limit = Size.from_bytes(0 if level is None else level * cell)
    bench.claim(XON, xon, equals=limit)
    bench.claim("times congested, and relieved", [before.xoffs, after.xons], equals=[1, 1])
    bench.claim("frames dropped", sum(after.dropped_frames), equals=0)


def _by_profile(bench: Bench, frame: int) -> Size:
    """Return a number of frames for the control, whose model sends no XOFF either."""
    return Size.from_bytes(frame)
