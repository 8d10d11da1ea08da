"""Damaged results: what cannot be read is left out and named by file and line, and no damage is a defect of Xoff."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.errors import UsageError
from testbed.lab.results import series
from testbed.units import written
from tests.report_folders import MS, lines, small
from tests.unit.subjects.dcbx.dcbx_ladders import symmetric

VALUES: list[Any] = [
    None, True, 0, -1, 2**70, 10**400, 1e308, math.inf, math.nan, "", "x\n", "\ud800", [], [[]], {}, {"a": [1]},
    "9" * 5000,
]  # fmt: skip
SERIES = "t_ns,port,priority,shared,headroom,guaranteed\n1000,s1-eth1,3,1,2,3\n2000,s1-eth1,3,4,5,6\n"


def text(capsys: pytest.CaptureFixture[str]) -> str:
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        ({"t_ns": MS, "what": [], "port": "s1-eth1"}, "line 1 of dcbx.jsonl is no line of DCBX"),
        ({"t_ns": MS, "what": "frame", "port": []}, "line 1 of dcbx.jsonl is no line of DCBX"),
        ({"t": "x", "event": "drop"}, "line 7 of events.jsonl is no event"),
        ({"t_ns": MS, "name": 5, "published": 1}, "line 1 of published.jsonl is no published value"),
        ({"network": "ended"}, "line 2 of networks.jsonl is no start or end of a network"),
    ],
)
def test_a_damaged_line_is_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damaged: dict[str, Any], said: str
) -> None:
    folder = small(tmp_path / "one")
    line, file = int(said.split()[1]), said.split()[3]
    before = (folder / file).read_text().splitlines() if (folder / file).exists() else []
    kept = [json.loads(one) for one in before]
    lines(folder / file, [*kept[: line - 1], damaged, *kept[line - 1 :]])
    assert main(["report", str(folder)]) == 0
    assert f"{folder}: {said}; the rest is read without it" in (folder / "report.html").read_text()
    if file not in ("dcbx.jsonl", "published.jsonl"):
        assert main(["export", "--csv", str(folder)]) == 0
        assert text(capsys) == f"xoff: {folder}: {said}; the rest is read without it\n"


@pytest.mark.parametrize(
    "figure", [{"name": [], "value": 1, "unit": ""}, {"name": "x", "value": math.inf, "unit": "ns"}]
)
def test_a_damaged_figure_is_left_out_and_its_line_is_named(tmp_path: Path, figure: dict[str, Any]) -> None:
    folder = small(tmp_path / "one", figures=[{"name": "good", "value": 1, "unit": ""}, figure])
    content = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(written_text := json.dumps(content, indent=1))
    assert main(["report", str(folder), str(folder)]) == 0
    line = 1 + written_text.splitlines().index('   "name": "good",') + 4
    assert written_text.splitlines()[line - 1] == "  {"
    page = (folder / "report.html").read_text()
    assert f"line {line} of result.json is no figure" in page and "good" in page


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 10**400, 1e308])
def test_a_number_that_is_no_quantity_is_written_as_it_is(value: float) -> None:
    assert written(value, "b/s") == f"{value} b/s"


@pytest.mark.parametrize(
    "values", [["\ud800", "x"], [1, 10**400, 0.5], [1, 2**70], [True, 1, None], [[], {"a": "\ud800"}]]
)
def test_values_of_any_kind_are_a_column_of_parquet(tmp_path: Path, values: list[Any]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is missing")
    folder = small(tmp_path / "one")
    lines(folder / "events.jsonl", [{"t": 1, "event": "mine", "\udfff": value, "f": value} for value in values])
    assert main(["export", "--parquet", str(folder)]) == 0
    assert len(parquet.read_table(folder / "events.parquet").to_pylist()) == len(values)


@pytest.mark.parametrize("content", [b"t_ns,a\n1\n", b"\xff\xfe,b\n1,2\n", b"", b"a\n\xff\n", b'"a\n'])
def test_a_series_that_is_no_table_gets_one_message(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is missing")
    (tmp_path / "series-x.csv").write_bytes(content)
    try:
        assert series.write_parquet(tmp_path) == [tmp_path / "series-x.parquet"]
    except UsageError as error:
        assert str(error).startswith(f"{tmp_path / 'series-x.csv'} is not a table") and "\n" not in str(error)


def damage(folder: Path, chance: random.Random) -> None:
    """Change some values of some files to others of any kind."""
    for name in chance.sample(["result.json", "networks.jsonl", "events.jsonl", "dcbx.jsonl", "series-buffer.csv"], 2):
        content = (folder / name).read_text()
        if name.endswith(".csv"):
            letters = list(content)
            for _ in range(4):
                letters[chance.randrange(len(letters))] = chance.choice(
                    ['"', ",", "\n", "9", "-", "\0", "1e400", "9" * 40]
                )
            (folder / name).write_text("".join(letters))
        elif name == "result.json":
            (folder / name).write_text(json.dumps(changed(json.loads(content), chance), indent=1))
        else:
            rows = content.splitlines()
            at = chance.randrange(len(rows))
            rows[at] = json.dumps(changed(json.loads(rows[at]), chance))
            (folder / name).write_text("\n".join(rows) + "\n")


def changed(value: Any, chance: random.Random) -> Any:
    at = value
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return value
        key = chance.choice(keys)
        if isinstance(at[key], (dict, list)) and at[key] and chance.random() < 0.8:
            at = at[key]
        else:
            at[key] = chance.choice(VALUES)
            return value


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_no_damage_is_a_defect(tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is missing")
    pytest.importorskip("matplotlib", reason="matplotlib is missing")
    folder, other = small(tmp_path / "one"), small(tmp_path / "two")
    lines(folder / "dcbx.jsonl", [dict(record) for record in symmetric()])
    (folder / "series-buffer.csv").write_text(SERIES)
    damage(folder, random.Random(seed))
    for command in (
        ["report", folder], ["export", "--csv", folder], ["export", "--parquet", folder],
        ["export", "--perfetto", folder], ["export", folder, "--ladder", "host", "bridge"], ["compare", folder, other],
        ["plot", "claims", folder, "-o", tmp_path / "x.svg"], ["plot", "cdf", folder, "-o", tmp_path / "x.svg"],
    ):  # fmt: skip
        code = main([str(word) for word in command])
        said = text(capsys)
        assert code in (0, 1, 2), (command, said)
        assert code != 2 or said.count("\n") == 1, (command, said)
