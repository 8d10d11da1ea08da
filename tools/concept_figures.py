"""The figures of docs/concepts, which `xoff docs --figures` writes to docs/figures/*.svg.

Figures with numbers compute them with Xoff's own models.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from testbed.switch.ecn.curve import EcnCurve
from testbed.switch.pfc.wire import pause_ns
from testbed.units import Length, Rate
from tools.drawing import Drawing

FOLDER = Path("docs/figures")


def pause() -> Drawing:
    """One pause at a port: threshold, XOFF, headroom, XON."""
    quantum = Rate("10Gb/s").quantum
    longest = pause_ns(Rate("10Gb/s"), 65535)
    one = Drawing(760, 330, "A pause", "Buffer use of an ingress port over time, and the far end's queue below it")
    left, right, floor = 70, 730, 210
    top, xoff, xon = 30, 110, 150
    one.text(left, 20, "cells in the ingress buffer", "soft small")
    for y, word, kind in ((xoff, "XOFF threshold", "red"), (xon, "XON threshold", "green"), (top + 12, "full", "soft")):
        one.line((left, y), (right, y), kind=f"{kind}line dashed" if kind != "soft" else "line dashed")
        one.text(right, y - 5, word, f"{kind} small", "end")
    one.line((left, top), (left, floor), (right, floor))
    one.line((left, floor), (230, xoff), (300, 62), (440, xon), (520, 178), (640, 120), (660, 112), kind="blueline")
    one.line((230, xoff), (230, 282), kind="line dashed")
    one.line((300, 62), (300, 282), kind="line dashed")
    one.line((440, xon), (440, 282), kind="line dashed")
    one.line((520, 178), (520, 282), kind="line dashed")
    one.text(265, 50, "headroom", "red small", "middle")
    one.text(left - 8, 258, "far end", "soft small", "end")
    one.box(left, 240, 300 - left, 26, "greenbox", "sends")
    one.box(300, 240, 220, 26, "redbox", "queue stopped")
    one.box(520, 240, right - 520, 26, "greenbox", "sends")
    for x, word in ((230, "XOFF sent"), (300, "obeyed"), (440, "XON sent"), (520, "resumes")):
        one.text(x, 297, word, "small", "middle")
    one.text(
        left, 320, f"At 10 Gb/s a quantum is {quantum}, and 65535 of them {longest / 1e6:.2f} ms: XOFF is repeated "
        "before it expires.", "soft small",
    )  # fmt: skip
    return one


def buffer() -> Drawing:
    """The division of a switch's buffer."""
    one = Drawing(760, 300, "A switch's buffer", "Guaranteed cells, the shared pool with thresholds, and headroom")
    one.text(30, 28, "One buffer over all ports, in cells; a frame is charged to its ingress port and priority", "bold")
    one.box(30, 45, 150, 60, "greenbox", "guaranteed")
    one.box(180, 45, 340, 60, "bluebox", "shared pool")
    one.box(520, 45, 210, 60, "redbox", "headroom")
    one.text(105, 124, "of each group, first", "soft small", "middle")
    one.text(350, 124, "up to the threshold of the group", "soft small", "middle")
    one.text(625, 124, "after XOFF, lossless only", "soft small", "middle")
    one.text(30, 160, "A dynamic threshold: alpha x (pool - use of all). n groups that stay full settle at", "bold")
    one.text(30, 178, "alpha / (1 + n alpha) of the pool each:", "bold")
    for row, alpha in enumerate((Fraction(1, 4), Fraction(1), Fraction(4))):
        y = 194 + row * 34
        one.text(30, y + 18, f"alpha {alpha}", "small")
        for place, groups in enumerate((1, 2, 4)):
            part = alpha / (1 + groups * alpha)
            x = 110 + place * 212
            one.box(x, y, 140, 24)
            for number in range(groups):
                one.box(x + number * float(140 * part), y, float(140 * part), 24, "bluebox")
            one.text(x + 148, y + 17, f"{groups} x {float(part):.0%}", "small")
    return one


def marking() -> Drawing:
    """ECN below PFC: the marking curve and the XOFF threshold on one axis."""
    curve = EcnCurve("40kB", "160kB", "20%")
    one = Drawing(
        760, 320, "ECN below PFC", "Marking probability over queue length, with the XOFF threshold to the right"
    )
    left, right, top, floor = 80, 720, 40, 260
    most = 240_000

    def x(octets: float) -> float:
        return left + (right - left) * octets / most

    def y(part: float) -> float:
        return floor - (floor - top) * part

    one.line((left, top), (left, floor), (right, floor))
    low, high = curve.kmin.bytes, curve.kmax.bytes
    one.line((left, floor), (x(low), floor), (x(high), y(float(curve.pmax))), (x(high), y(1)), (x(200_000), y(1)),
             kind="blueline")  # fmt: skip
    one.line((x(200_000), top - 10), (x(200_000), floor), kind="redline dashed")
    one.text(x(200_000) + 6, top + 4, "XOFF", "red bold")
    one.text(left, 26, "part of the packets that are marked", "soft small")
    for part, word in ((0, "0"), (float(curve.pmax), f"Pmax {float(curve.pmax):.0%}"), (1, "1")):
        one.text(left - 8, y(part) + 4, word, "small", "end")
    for octets, word in ((low, f"Kmin {low // 1000} kB"), (high, f"Kmax {high // 1000} kB")):
        one.line((x(octets), floor), (x(octets), floor + 6))
        one.text(x(octets), floor + 22, word, "small", "middle")
    one.text(right, floor + 22, "queue", "soft small", "end")
    one.text(left, 308, "Senders slow down at the marks; the queue seldom reaches XOFF. Swapped, no packet is marked.",
             "soft small")  # fmt: skip
    return one


def distance() -> Drawing:
    """Headroom over distance."""
    one = Drawing(760, 270, "Headroom and distance", "Octets on a cable of 100 Gb/s there and back, for some lengths")
    one.text(30, 28, "What a cable of 100 Gb/s holds there and back arrives after XOFF was sent", "bold")
    rate = Rate("100Gb/s")
    lengths = [Length(text) for text in ("5m", "300m", "2km", "10km", "50km")]
    octets = [rate.size_in(length.propagation() * 2).bytes for length in lengths]
    for row, (length, held) in enumerate(zip(lengths, octets, strict=True)):
        y = 46 + row * 36
        width = max(2.0, 470 * held / octets[-1])
        one.text(90, y + 19, str(length), "", "end")
        one.box(100, y, width, 26, "redbox")
        one.text(108 + width, y + 19, f"{held:,} B".replace(",", " "), "small")
    one.text(30, 250, "Fibre takes 5 ns for a metre. Frames under way and the time of both stations come on top.",
             "soft small")  # fmt: skip
    return one


def blocking() -> Drawing:
    """Head-of-line blocking and the deadlock."""
    one = Drawing(760, 330, "Two pathologies", "A victim behind a paused cable, and a circle of buffers that wait")
    one.text(30, 28, "A victim: h2 and h1 share a cable", "bold")
    for name, x, y in (("h1", 30, 60), ("h2", 30, 150), ("r1", 310, 60), ("r2", 310, 150)):
        one.box(x, y, 44, 30, "box", name)
    one.box(110, 105, 50, 30, "box", "s1")
    one.box(220, 105, 50, 30, "box", "s2")
    one.line((74, 75), (118, 105), kind="redline")
    one.line((74, 165), (118, 135), kind="greenline")
    one.line((160, 114), (220, 114), kind="redline")
    one.line((160, 126), (220, 126), kind="greenline")
    one.line((262, 105), (310, 75), kind="redline", arrow=True)
    one.line((262, 135), (310, 165), kind="greenline", arrow=True)
    one.text(354, 52, "overloaded", "red small", "end")
    one.text(190, 96, "paused", "red small", "middle")
    one.text(30, 215, "PFC pauses a priority of the cable, not a flow:", "soft small")
    one.text(30, 232, "h2 is slowed though r2 is idle.", "soft small")
    one.text(420, 28, "A deadlock: each buffer waits for the next", "bold")
    places = ((480, 70), (650, 70), (650, 190), (480, 190))
    for number, (x, y) in enumerate(places, 1):
        one.box(x, y, 56, 40, "redbox", f"s{number}")
    one.line((536, 90), (650, 90), kind="redline", arrow=True)
    one.line((678, 110), (678, 190), kind="redline", arrow=True)
    one.line((650, 210), (536, 210), kind="redline", arrow=True)
    one.line((508, 190), (508, 110), kind="redline", arrow=True)
    one.text(593, 154, "full, paused", "red small", "middle")
    one.text(420, 265, "Every queue is paused by the next switch, which", "soft small")
    one.text(420, 282, "waits for its own next one. Nothing is lost, and", "soft small")
    one.text(420, 299, "nothing moves. Up/down routing closes no circle.", "soft small")
    return one


def wan() -> Drawing:
    """A pause that crosses a WAN in a reverse tunnel."""
    one = Drawing(760, 250, "End.X.PFC", "Congestion at b1 pauses r1 over an SRv6 WAN whose middle router has no PFC")
    names = (
        ("a1", "box"),
        ("s1", "box"),
        ("r1", "bluebox"),
        ("r2", "box"),
        ("r3", "bluebox"),
        ("s2", "box"),
        ("b1", "redbox"),
    )
    for place, (name, kind) in enumerate(names):
        one.box(30 + place * 106, 90, 60, 40, kind, name)
        if place:
            one.line((30 + place * 106 - 46, 110), (30 + place * 106, 110), kind="greenline", arrow=True)
    one.text(30, 30, "Data: a VPN over SRv6, { r1.End.X.PFC, r2.End, r3.End.DT4 }", "green bold")
    one.line((666, 140), (666, 165), (590, 165), (590, 135), kind="redline", arrow=True)
    one.text(628, 182, "1  PFC", "red small", "middle")
    one.line((484, 135), (484, 200), (272, 200), (272, 135), kind="redline dashed", arrow=True)
    one.text(378, 218, "2  PFC frame in the reverse tunnel { r3.End, r2.End, r1.End.X.PFC }", "red small", "middle")
    one.line((242, 85), (242, 62), (166, 62), (166, 85), kind="redline", arrow=True)
    one.text(204, 54, "3  PFC", "red small", "middle")
    one.text(378, 80, "r2 has no PFC", "soft small", "middle")
    return one


def virtual_time() -> Drawing:
    """Idle time that is skipped."""
    one = Drawing(760, 220, "Virtual time", "Work in the lab takes the host's time; idle time of the lab takes none")
    one.text(30, 28, "Host's clock: only work takes time, as fast as this machine is", "bold")
    one.text(30, 172, "Lab's clock: what experiments, timers and digests are measured in", "bold")
    host, lab = 30.0, 30.0
    for work, idle in ((90, 12), (60, 110), (120, 8), (40, 150), (70, 0)):
        one.box(host, 40, work, 30, "bluebox")
        one.box(lab, 120, work * 0.5, 30, "bluebox")
        one.line((host, 72), (lab, 118), kind="line dashed")
        one.line((host + work, 72), (lab + work * 0.5, 118), kind="line dashed")
        host += work
        lab += work * 0.5
        if idle:
            one.box(lab, 120, idle, 30, "box", "idle" if idle > 60 else "")
            lab += idle
    one.text(30, 200, "Load on the host stretches the upper bar and leaves the lower one as it is, to the nanosecond.",
             "soft small")  # fmt: skip
    return one


def after_pfc() -> Drawing:
    """What the two ends of a cable say to each other, by four mechanisms, as ladders in time."""
    one = Drawing(
        760, 350, "PFC and what comes after it",
        "Four ladders between a sender and a receiver: a pause, a cut frame, a replay, and credits",
    )  # fmt: skip
    width, top, bottom = 182, 62, 250

    def ladder(place: int, title: str, sender: str, receiver: str) -> tuple[int, int]:
        left = 34 + place * (width + 6)
        right = left + 112
        one.text((left + right) // 2, 22, title, "bold", "middle")
        for x, name in ((left, sender), (right, receiver)):
            one.text(x, 46, name, "small", "middle")
            one.line((x, top - 8), (x, bottom))
        return left, right

    def message(
        start: int, end: int, y: int, word: str, kind: str, *, lost: bool = False, dashed: bool = False
    ) -> None:
        slope = 10
        reach = start + (end - start) // 2 if lost else end
        line = f"{kind}line dashed" if dashed else f"{kind}line"
        one.line((start, y), (reach, y + (slope // 2 if lost else slope)), kind=line, arrow=not lost)
        if lost:
            one.text(reach, y + 11, "x", "red bold", "middle")
        one.text((start + end) // 2, y - 2, word, f"{kind} small" if kind != "blue" else "small", "middle")

    left, right = ladder(0, "PFC", "sender", "switch")
    for y in (70, 86):
        message(left, right, y, "", "green")
    message(right, left, 116, "XOFF: full", "red")
    one.box(left - 8, 130, 16, 70, "redbox")
    one.text(left + 14, 160, "all flows wait", "red small")
    message(right, left, 188, "XON", "green")
    for y in (208, 226):
        message(left, right, y, "", "green")

    left, right = ladder(1, "Trimming", "switch", "receiver")
    for y in (70, 88):
        message(left, right, y, "", "green")
    message(left, right, 112, "full: 128 octets", "red", dashed=True)
    message(right, left, 142, "NAK: send again", "red")
    message(left, right, 184, "the whole frame", "green")

    left, right = ladder(2, "Link Layer Retry", "sender", "receiver")
    message(left, right, 74, "7", "green")
    message(left, right, 98, "8", "green", lost=True)
    message(left, right, 122, "9", "green")
    message(right, left, 146, "NACK 8", "red")
    message(left, right, 178, "8", "green")
    message(left, right, 202, "9", "green")
    message(right, left, 226, "ACK 9", "blue")

    left, right = ladder(3, "Credits (CBFC)", "sender", "receiver")
    one.text(left + 10, 70, "3 credits", "small")
    for y in (80, 98, 116):
        message(left, right, y, "", "green")
    one.box(left - 8, 128, 16, 60, "redbox")
    one.text(left + 14, 146, "none left", "red small")
    message(right, left, 170, "2 cells are free", "blue")
    for y in (200, 218):
        message(left, right, y, "", "green")

    for place, words in enumerate((
        ("Stops a priority of a cable.", "Needs headroom for what is", "on its way. Spreads back."),
        ("Stops nobody. The rest says", "at once what is missing; the", "frame crosses twice."),
        ("For damage, not for full", "buffers. Costs a replay buffer", "of a round trip."),
        ("Nothing is sent without room.", "Buffer: a round trip of the", "line, and no headroom."),
    )):  # fmt: skip
        for row, word in enumerate(words):
            one.text(10 + place * (width + 6), 282 + 18 * row, word, "soft small")
    return one


FIGURES: dict[str, Callable[[], Drawing]] = {
    "pause": pause, "buffer": buffer, "marking": marking, "distance": distance, "pathologies": blocking, "wan": wan,
    "virtual-time": virtual_time, "after-pfc": after_pfc,
}  # fmt: skip


def write(root: Path) -> list[Path]:
    """Draw all figures of a checkout anew; return those that have changed."""
    changed = []
    for name, draw in FIGURES.items():
        path, text = root / FOLDER / f"{name}.svg", draw().svg()
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(FOLDER / path.name)
    return changed
