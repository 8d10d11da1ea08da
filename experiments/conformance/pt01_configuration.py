"""PT01: the configuration of trimming by commands."""

from dataclasses import replace

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._trimming import CLASS, DSCP, SIZE, trimmed, trims
from testbed.subjects.sonic.tables import Tables

_BORDERS = ("--size 64", "--size 9216", "--dscp 0", "--dscp 63", "--queue 0", "--queue 7", "--queue dynamic")
_WRONG = (
    "--size 63", "--size 9217", "--size many", "--dscp 64", "--dscp -1", "--queue 8", "--queue none", "--tc 8",
    "--dscp from-tc", "",
)  # fmt: skip


def _unconfigured(tables: Tables) -> Tables:
    return replace(tables, trimming=None)


@case(ports=3, tables=trims, control=Control("no SWITCH_TRIMMING", _unconfigured, fails=["symmetric: as shown"]))
def pt01_configuration(bench: Bench) -> None:
    """config and show agree about trimming; what is out of range is refused by name, and changes nothing."""
    with trimmed(bench) as on:
        on.configure(f"switch-trimming global --size {SIZE} --dscp {DSCP} --queue 6")
        symmetric = on.shown()
        on.configure(f"switch-trimming global --size {SIZE} --dscp from-tc --tc {CLASS} --queue 6")
        asymmetric = on.shown()
        borders = {words: on.configure(f"switch-trimming global {words}") for words in _BORDERS}
        before = on.shown()
        refused = {words: on.configure(f"switch-trimming global {words}") for words in _WRONG}
        kept = on.shown() == before
    expected = {"size": str(SIZE), "dscp_value": str(DSCP), "tc_value": "N/A", "queue_index": "6"}
    bench.claim("symmetric: as shown", symmetric, equals=expected)
    bench.claim("asymmetric: as shown", asymmetric, equals=expected | {"dscp_value": "from-tc", "tc_value": str(CLASS)})
    bench.claim("values at the borders that were refused", [text for text in borders.values() if text], equals=[])
    bench.claim("wrong values that were taken", [words for words, text in refused.items() if not text], equals=[])
    bench.claim("the configuration is as before them", kept, equals=True)
    if not bench.is_control:
        bench.figure("what is said of wrong values", list(refused.values()))
