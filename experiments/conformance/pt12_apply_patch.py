"""PT12: trimming configured by JSON patches."""

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._trimming import CLASS, DSCP, SIZE, trimmed, trims, without_trimming
from testbed.subjects.sonic.tables import Tables

WORKS = "frames for a full queue arrive trimmed, after adding and updating"
_ROW = "/SWITCH_TRIMMING/GLOBAL"


def _given(tables: Tables) -> Tables:
    return trims(tables)


@case(ports=3, tables=_given, timeout="240s", control=Control("the action drop", without_trimming, fails=[WORKS]))
def pt12_apply_patch(bench: Bench) -> None:
    """config apply-patch adds, updates and removes trimming; a wrong patch is refused whole, and named."""
    with trimmed(bench) as on:
        priority = on.lossy[0]
        removed = on.patch({"op": "remove", "path": "/SWITCH_TRIMMING"})
        gone, off = on.shown(), on.works("h3", priority)
        values = {"size": str(SIZE), "dscp_value": str(DSCP), "queue_index": "6"}
        added = on.patch({"op": "add", "path": _ROW, "value": values})
        works = [on.works("h3", priority)]
        updated = on.patch({"op": "replace", "path": f"{_ROW}/size", "value": "128"},
                           {"op": "replace", "path": f"{_ROW}/dscp_value", "value": "40"})  # fmt: skip
        works.append(on.works("h3", priority, 40, 128))
        before = on.shown()
        refused = [
            on.patch({"op": "replace", "path": f"{_ROW}/size", "value": "12"}),
            on.patch({"op": "add", "path": f"{_ROW}/tc_value", "value": "99"}),
            on.patch({"op": "replace", "path": f"{_ROW}/dscp_value", "value": "from-nowhere"}),
            on.patch({"op": "remove", "path": f"{_ROW}/nothing"}),
            on.patch({"op": "add", "path": f"{_ROW}/size", "value": "200"}, {"op": "mend", "path": _ROW}),
        ]
        kept = on.shown() == before
        on.patch({"op": "add", "path": f"{_ROW}/tc_value", "value": str(CLASS)})
        again = on.patch({"op": "remove", "path": "/SWITCH_TRIMMING"})
        shown = on.shown()
    bench.claim(WORKS, works, equals=[True, True])
    bench.claim("what right patches are answered", [removed, added, updated, again], equals=[""] * 4)
    bench.claim("after removing: configuration shown, trimming works", [gone, off, shown], equals=[{}, False, {}])
    bench.claim("wrong patches that were taken", [number for number, text in enumerate(refused) if not text], equals=[])
    bench.claim("the configuration is as before them", kept, equals=True)
    if not bench.is_control:
        bench.figure("what is said of wrong patches", refused)
