"""Flows in a report: their completion times as distributions, slowdown by size, and CNPs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from testbed.lab.results.folder import read
from testbed.report.pages.flow_charts import distribution, flow_charts, grouped
from testbed.report.pages.page import report
from tests.report_folders import HOSTILE, MS, flow, lines, small


def with_flows(folder: Path, flows: list[dict[str, Any]]) -> Path:
    small(folder)
    lines(folder / "flows.jsonl", flows)
    return folder


MANY = [
    flow(20 * MS, number, transport="roce", size_bytes=1000 * (number + 1), completion_ns=2000 * (number + 1), cnps=1)
    for number in range(10)
]


def test_a_distribution_is_the_part_of_all_that_took_no_longer() -> None:
    assert distribution([3, 1, 2, 2]) == [(1, 0.25), (2, 0.75), (3, 1.0)]
    many = distribution(range(10_000), 100)
    assert len(many) == 101 and many[0] == (0, 0.0001) and many[50] == (5000, 0.5001) and many[-1] == (9999, 1.0)


def test_groups_have_the_same_number_of_flows_each() -> None:
    points = [(float(size), float(size)) for size in range(1, 33)]
    assert [(round(middle, 2), median, far) for middle, median, far in grouped(points)] == [
        (2.83, 4, 8), (12.0, 12, 16), (20.2, 20, 24), (28.28, 28, 32),
    ]  # fmt: skip
    assert grouped(points[:15]) == [], "one group is no line"


def test_a_case_is_a_line_of_the_distribution(tmp_path: Path) -> None:
    other = [flow(520 * MS, number, completion_ns=4000) for number in range(3)]
    charts = flow_charts(read(with_flows(tmp_path / "one", [*MANY, *other, flow(21 * MS, 10, completion_ns=None)])))
    assert (charts.many, charts.cnps) == (13, 10)
    assert "with PFC: 10 flows, median 10 us, 99th percentile 20 us" in charts.pictures
    assert "without PFC: 3 flows, median 4 us" in charts.pictures
    assert charts.pictures.count('class="c1"') == 1 and charts.pictures.count('class="dots c2"') == 1
    assert charts.numbers.count("<tr>") == 1 + 14
    assert "e+" not in charts.pictures and "e-0" not in charts.pictures


def test_many_flows_are_on_the_first_screen_and_few_are_folded(tmp_path: Path) -> None:
    many, few = (report([with_flows(tmp_path / name, MANY[:count])]) for name, count in (("many", 10), ("few", 3)))
    assert many.index("Completion time of flows") < many.index("<details>")
    assert few.index("Completion time of flows") > few.index("<details>")
    assert "3 CNPs in all" in few
    assert "Completion time" not in report([small(tmp_path / "none")])


def test_a_rate_has_the_cnps_of_its_flow_beside_its_name(tmp_path: Path) -> None:
    folder = with_flows(tmp_path / "one", MANY[:7])
    rows = f"t_ns,flow,rate_bps\n{100 * MS},h1 to h2 p3,8000\n{100 * MS},h2 to h1 p3,8000\n"
    (folder / "series-rates.csv").write_text(rows, encoding="utf-8")
    page = report([folder])
    assert "h1 to h2 p3: 7 CNPs<" in page and "h2 to h1 p3<" in page


def test_flows_of_one_size_and_time_have_an_axis_and_hostile_names_are_text(tmp_path: Path) -> None:
    same = [flow(20 * MS, number, source=HOSTILE, size_bytes=1, completion_ns=1, best_ns=1) for number in range(9)]
    page = report([with_flows(tmp_path / "one", same)])
    drawn = page.partition("<main>")[2].partition("<script")[0]
    assert "Slowdown by size" in drawn and "<img" not in drawn and re.search(r"\bnan\b", drawn) is None


def test_ways_are_listed_by_network_the_most_loaded_first_and_what_is_spread_as_parts(tmp_path: Path) -> None:
    hashed = [flow(20 * MS, number, ways=f"leaf1 spine{1 + (number > 0)} leaf2") for number in range(3)]
    spread = [flow(520 * MS, 0, spread="leaf1 to spine1 26 %, spine2 74 %")]
    (section,) = re.findall(
        r'<section aria-label="Ways of flows">.*?</section>',
        report([with_flows(tmp_path / "one", [*hashed, *spread])]), re.DOTALL,
    )  # fmt: skip
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall("<tr>(.*?)</tr>", section)]
    assert [[*row[:3], row[4]] for row in rows[1:]] == [
        ["leaf1 - spine2 - leaf2", "with PFC", "2", "h1 to h2, h1 to h2"],
        ["leaf1 - spine1 - leaf2", "with PFC", "1", "h1 to h2"],
        ["leaf1 to spine1 26 %, spine2 74 %", "without PFC", "1", "h1 to h2"],
    ]
    assert "Ways of flows" not in report([with_flows(tmp_path / "none", MANY)])
