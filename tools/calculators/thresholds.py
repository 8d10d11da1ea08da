"""The division of a switch's buffer, and its thresholds."""

from __future__ import annotations

import json

from testbed.switch.buffer import thresholds
from testbed.switch.buffer.thresholds import Asked
from tools.calculators.calculator import Answer, Calculator, Field, Values, grouped, notes, paragraph, picture, table
from tools.drawing import Drawing

_WIDTH = 560
_MOST_ROWS = 8


def answer(values: Values) -> Answer:
    given = {name: value for name, value in values.items() if value}
    found = thresholds.answer(Asked(**{**given, "buffer": given.get("buffer", "")}))
    settings = found.settings
    html = paragraph(
        f"{grouped(settings.total)} cells of {settings.cell_bytes} B; {grouped(found.groups)} lossless priorities of "
        f"{len(settings.ports)} ports",
        "head",
    )
    html += _drawn(found)
    html += table(
        ("full priorities", "XOFF above, cells", "XOFF above, bytes", "XON at, cells", "XON at, bytes"),
        (
            (grouped(row.groups), *(grouped(n) for cells in (row.xoff, row.xon) for n in (cells, cells * cell)))
            for cell in (settings.cell_bytes,)
            for row in found.rows
        ),
        "thresholds by how many priorities are full",
    )
    return Answer(html + notes(found.notes), json.dumps(thresholds.as_json(found), indent=1))


def _drawn(found: thresholds.Answer) -> str:
    """Return the drawing: the parts of the buffer, and below it what each of some full priorities may hold."""
    settings = found.settings
    parts = (
        ("guaranteed", settings.guaranteed_cells, "greenbox", "green"),
        ("shared", settings.shared_cells, "bluebox", "blue"),
        ("headroom", settings.headroom_cells, "redbox", "red"),
    )
    rows = found.rows[:_MOST_ROWS]
    words = ", ".join(f"{name} {cells} cells" for name, cells, _, _ in parts)
    drawing = Drawing(_WIDTH, 112 + 30 * len(rows), "A buffer", words)
    whole = max(settings.total, 1)
    x = 20.0
    for place, (name, cells, box, tone) in enumerate(parts):
        width = 520 * cells / whole
        if cells:
            drawing.box(x, 14, width, 36, box)
        drawing.box(20 + place * 176, 62, 12, 12, box)
        drawing.text(38 + place * 176, 73, f"{name} {100 * cells / whole:.1f} %", f"{tone} small")
        x += width
    drawing.text(20, 100, "of the shared pool, each of n full priorities may hold", "soft small")
    shared = max(settings.shared_cells, 1)
    for number, row in enumerate(rows):
        y = 110 + number * 30
        drawing.text(56, y + 15, str(row.groups), "small", "end")
        drawing.box(64, y, 380, 20)
        width = 380 * row.xoff / shared
        for group in range(min(row.groups, max(1, round(380 / width)) if width else 0)):
            if width > 3 and 64 + (group + 1) * width <= 444.5:
                drawing.box(64 + group * width, y, width, 20, "bluebox")
        if width <= 3:
            drawing.box(64, y, min(380.0, width * row.groups), 20, "bluebox")
        drawing.text(452, y + 15, f"{100 * row.xoff / shared:.3g} %", "small")
    return picture(drawing, f"The buffer: {words}")


CALCULATOR = Calculator(
    "thresholds",
    "switch thresholds",
    (
        Field("buffer", "Buffer of the switch", "32MB", "32MB, 64MiB"),
        Field("ports", "Ports", "32", "1 to 1024"),
        Field("lossless", "Lossless priorities of each port", "2", "1 to 8"),
        Field("alpha", "Alpha of the dynamic threshold", "1/8", "1/8, 1, 4"),
        Field("headroom", "Headroom of each priority", "120kB", "from the calculator above"),
        Field("guaranteed", "Guaranteed to each priority", "10kB", "0B, 10kB"),
        Field("static", "Static threshold, in place of alpha", "", "200kB", further=True),
        Field("xon_offset", "XON below the threshold by", "0B", "20kB", further=True),
        Field("headroom_pool", "Headroom pool, if smaller than the sum", "", "4MB", further=True),
        Field("cell", "Cell of the buffer, bytes", "208", "208", further=True),
    ),
    answer,
    {"buffer": "32MB", "alpha": "1/8", "headroom": "120kB", "guaranteed": "10kB"},
)
