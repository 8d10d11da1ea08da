"""SQL over a run: its tables, what a query may do, and results of foreign origin."""

from __future__ import annotations

import io
import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.errors import UsageError
from testbed.frames import Mac, capture_file
from testbed.frames.mac_control import PfcFrame
from testbed.lab.results.folder import read
from testbed.report.exports import sql
from tests.report_folders import HOSTILE, MS, flow, hostile, lines, small


def asked(folder: Path, query: str, lab_time: bool = False) -> list[tuple[Any, ...]]:
    return sql.answer(read(folder, lab_time), query).rows


def test_pauses_are_rows_in_the_times_of_the_hardware_or_of_the_lab(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    query = "select port, priority, t_ns, lab_ns, duration_ns from pauses where kind = 'paused' order by lab_ns"
    assert asked(folder, query) == [
        ("h1-eth0", 3, 100_000.02, 100 * MS + 20, 30_000),
        ("h2-eth0", 3, 110_000.02, 110 * MS + 20, 30_000),
        ("h1-eth0", 3, 200_000.02, 200 * MS + 20, 20_000),
    ]
    assert asked(folder, "SELECT sum(duration_ns) FROM pauses WHERE kind = 'paused'", True) == [(80 * MS,)]
    assert asked(folder, "select kind, count(*) from pauses group by kind order by kind") == [
        ("paused", 3),
        ("xoff", 3),
    ]


def test_tables_join_by_network_and_port(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    lines(folder / "flows.jsonl", [flow(300 * MS, 1), flow(900 * MS, 2, lost=1)])
    assert asked(folder, "select network, sum(lost) from flows group by network order by network") == [
        ("with PFC", 0), ("without PFC", 1),
    ]  # fmt: skip
    query = """select events.port, far_node, count(*) from events join ports using (network, port)
               where event = 'drop' group by events.port"""
    assert asked(folder, query) == [("s1-eth1", "h1", 2)]
    assert asked(folder, "select value from parameters where name = 'senders'") == [(2,)]
    assert asked(folder, "select json_extract(expected, '$.at_least') from claims") == [(9_900_000,)]


def test_frames_are_those_of_captures_with_their_fields(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    with pytest.raises(UsageError, match=r"has no captures.*xoff run --capture"):
        asked(folder, "select * from frames")
    (folder / "captures" / "1").mkdir(parents=True)
    out = io.BytesIO()
    writer = capture_file.Writer(out)
    number = writer.interface(capture_file.Interface("s1-eth1 > h1-eth0"))
    writer.frame(number, 120 * MS, PfcFrame.of(Mac.parse("02:00:00:00:00:01"), {3: 65535}).encode())
    (folder / "captures" / "1" / "s1-eth1-to-h1-eth0.pcapng").write_bytes(out.getvalue())
    assert asked(folder, "select lab_ns, network, sender, port, kind, layers from frames") == [
        (120 * MS, "with PFC", "s1-eth1", "h1-eth0", "pfc", "ethernet pfc"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("delete from flows", "a query only reads"),
        ("attach 'other' as y", "a query only reads"),
        ("pragma writable_schema = 1", "a query only reads"),
        ("select load_extension('x')", "SQL: "),
        ("select 1; select 2", "one statement"),
        ("select * from pause", "no such table: pause; there are events, flows, pauses"),
        ("select duration from pauses", r"no such column: duration; columns are pauses \(t_ns"),
        ("selec 1", "syntax error"),
        ("", "there is no query"),
    ],
)
def test_a_query_only_reads_and_a_wrong_one_gets_the_way_out(tmp_path: Path, query: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asked(small(tmp_path / "one"), query)


def test_names_and_numbers_of_a_foreign_result_are_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = hostile(tmp_path / "one")
    with (folder / "events.jsonl").open("a") as log:
        fields = {"T_NS": 1, 'a"b': 2**70, "nul\0": "x\0", "lone": "\ud800"}
        log.write(json.dumps({"t": 700 * MS, "event": "odd", "port": HOSTILE, "priorities": [], **fields}) + "\n")
    assert asked(folder, """select "a""b", lone from events where event = 'odd'""") == [(float(2**70), "?")]
    assert main(["sql", str(folder), "select distinct port from events order by port"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "\u202e" not in shown and "</script>" in shown
    for name in sql.TABLES:
        if name != "frames":
            asked(folder, f"select * from {name}")


def test_the_command_prints_columns_csv_or_json_and_lists_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, query = (
        str(small(tmp_path / "one")),
        "select port, paused_ns from counters where pauses_received order by port",
    )
    assert main(["sql", folder, query]) == 0
    assert capsys.readouterr().out == "port     paused_ns\nh1-eth0      50000\nh2-eth0      30000\n"
    assert main(["sql", folder, query, "--csv"]) == 0
    assert capsys.readouterr().out == "port,paused_ns\nh1-eth0,50000\nh2-eth0,30000\n"
    assert main(["sql", folder, query, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[1] == {"port": "h2-eth0", "paused_ns": 30000}
    assert main(["sql", folder]) == 0
    assert "pauses: from XOFF" in capsys.readouterr().out


def test_the_page_names_every_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "sql.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", page, re.MULTILINE))
    assert {name: table.summary for name, table in sql.TABLES.items()} == rows
    for name, table in sql.TABLES.items():
        if name not in ("events", "flows", "counters"):  # which docs/plots.md describes
            assert f"| {' '.join(f'`{column}`' for column in table.columns)} |" in page, name


def test_ctrl_c_ends_a_query_that_would_not_end(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select x from n"
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            asked(folder, f"select max(x) from ({endless})")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
