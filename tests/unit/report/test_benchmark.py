"""The report and the comparison of benchmarks: tables of figures named by row and column, and what failed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.errors import UsageError
from testbed.lab.studies.benchmark import (
    FILE,
    LARGER_IS_BETTER,
    SMALLER_IS_BETTER,
    Benchmark,
    Failed,
    OutcomeOfTest,
    Value,
    unlike,
)
from testbed.lab.studies.comparison import compare_folders
from testbed.report.pages.page import report
from tests.report_folders import HOSTILE

ROWS = {
    "128kB, ECMP": {"JFI": Value(0.5, ""), "completion": Value(200_000, "ns"), "MMR": Value(2, "")},
    "128kB, spray": {"JFI": Value(1.0, ""), "completion": Value(100_000, "ns", 0.25)},
}
BENCHMARK = Benchmark(
    "leaf-spine,4,4,4", (("PFC", "priority 3"),), True, 1, "xoff benchmark --quick", (("engine", "um"),),
    (OutcomeOfTest("all-to-all", ROWS, (), 4, ("runs/a",), ("d" * 64,)),),
)  # fmt: skip


def written(folder: Path, benchmark: Benchmark) -> Path:
    folder.mkdir()
    (folder / FILE).write_text(json.dumps(benchmark.as_json()))
    return folder


def test_a_benchmark_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert Benchmark.read(written(tmp_path / "one", BENCHMARK)) == BENCHMARK


def test_rows_and_columns_are_a_table_and_the_draft_s_bars_are_drawn(tmp_path: Path) -> None:
    page = report([written(tmp_path / "one", BENCHMARK)])
    assert "9.2 All-to-all" in page and "completion (us) ↓" in page and "JFI ↑" in page and "MMR ↓" in page
    assert '<td class="n">200</td>' in page and '<td class="n">100</td>' in page
    assert page.count('<rect class="s1"') == 2 and "all 4 claims hold" in page
    assert "collectives over RUD and ROD" in page and "power" in page, "what is not measured is named"


def test_a_row_that_the_lab_cannot_have_says_why(tmp_path: Path) -> None:
    rows = {"N = 64": {"not applicable": Value("the topology has 16 hosts", "")}}
    outcome = replace(BENCHMARK.outcomes[0], test="scale", rows=rows)
    folder = written(tmp_path / "one", replace(BENCHMARK, outcomes=(outcome,)))
    assert "the topology has 16 hosts" in report([folder])
    named = json.loads((folder / FILE).read_text())["not_measured"]
    assert {one["section"] for one in named} >= {"4.3", "6.1", "6.7"} and all(one["reason"] for one in named)


def test_two_benchmarks_are_compared_directly_if_their_comparability_sets_are_the_same() -> None:
    settings = (("hosts", "16, with lines of 100Gb/s"), ("switches", "8"), ("equal ways", "hash"))
    one = replace(BENCHMARK, settings=settings)
    assert unlike(one, replace(one, settings=(*settings[:1], ("switches", "4"), settings[2]))) == []
    other = replace(one, settings=(("hosts", "8, with lines of 100Gb/s"), *settings[1:]), quick=not one.quick)
    hosts, sizes = unlike(one, other)
    assert hosts.startswith("hosts (number of accelerators") and hosts.endswith(
        "16, with lines of 100Gb/s and 8, with lines of 100Gb/s"
    )
    assert sizes.startswith("message sizes (collective type")
    assert "not stated" in unlike(one, replace(one, settings=settings[:2]))[0]


def test_a_claim_that_does_not_hold_is_an_anomaly(tmp_path: Path) -> None:
    bad = replace(BENCHMARK.outcomes[0], failed=(Failed("128kB, ECMP: frames dropped: 7", 2),))
    benchmark = replace(BENCHMARK, outcomes=(bad,))
    assert not benchmark.passed and BENCHMARK.passed
    page = report([written(tmp_path / "one", benchmark)])
    assert "frames dropped: 7" in page and "claims hold" not in page


def test_two_fabrics_are_side_by_side_with_the_change(tmp_path: Path) -> None:
    faster = {"128kB, ECMP": ROWS["128kB, ECMP"] | {"completion": Value(150_000, "ns")}}
    other = replace(BENCHMARK, fabric="rail,2", outcomes=(replace(BENCHMARK.outcomes[0], rows=faster),))
    folders = [written(tmp_path / "one", BENCHMARK), written(tmp_path / "two", other)]
    page = report(folders)
    assert '<span class="good">-25.0 %, better</span>' in page and "<td>150 us</td>" in page
    back = report(folders[::-1])
    assert '<span class="bad">+33.3 %, worse</span>' in back
    differences = {one.what: (one.first, one.second) for one in compare_folders(*folders)}
    assert differences["all-to-all, 128kB, ECMP: completion"] == ("200us", "150us")
    assert differences["fabric"] == ("leaf-spine,4,4,4", "rail,2")
    assert differences["all-to-all, 128kB, spray: JFI"] == ("1", "absent")
    assert not compare_folders(folders[0], folders[0])


def test_names_are_text(tmp_path: Path) -> None:
    hostile = replace(
        BENCHMARK,
        fabric=HOSTILE,
        outcomes=(replace(BENCHMARK.outcomes[0], rows={HOSTILE: {HOSTILE: Value(HOSTILE, "")}}),),
    )
    page = report([written(tmp_path / "one", hostile)])
    assert "<img src=x" not in page and "\x1b" not in page and page.count("<script") == 0


@pytest.mark.parametrize("content", ["[]", "{}", '{"tests": [{"test": "none"}]}'])
def test_something_else_is_refused_by_its_name(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(UsageError, match="is no result of `xoff benchmark`"):
        report([tmp_path])


def test_a_column_has_one_unit_that_suits_most_of_its_values(tmp_path: Path) -> None:
    rows = {
        f"{number}": {"completion": Value(ns, "ns"), "goodput": Value(rate, "b/s"), "queue": Value(octets, "B")}
        for number, (ns, rate, octets) in enumerate(
            ((900, 10**9, 0), (1_234_567, 2.5 * 10**10, 1500), (2 * 10**6, 0, 9))
        )
    }
    folder = written(tmp_path / "one", replace(BENCHMARK, outcomes=(replace(BENCHMARK.outcomes[0], rows=rows),)))
    page = report([folder])
    for head in ("completion (ms) ↓", "goodput (Gb/s) ↑", "queue (kB)"):
        assert f'<th scope="col">{head}</th>' in page
    for cell in ("0.0009", "1.235", "2", "1", "25", "1.5", "0.009"):
        assert f'<td class="n">{cell}</td>' in page


def test_every_column_that_is_judged_is_one_of_a_test() -> None:
    """The names are those that the tests report, in which _ is a space and _percent a unit."""
    files = (Path(__file__).parents[3] / "experiments" / "_benchmark").glob("*.py")
    text = re.sub(r"_percent\b", "", "\n".join(file.read_text() for file in files)).replace("_", " ")
    for name in LARGER_IS_BETTER | SMALLER_IS_BETTER:
        assert name in text or "until a" in name, name
    assert not LARGER_IS_BETTER & SMALLER_IS_BETTER
