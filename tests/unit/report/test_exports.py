"""Exports: a trace by Perfetto's own schema, tables with every event, figures that repeat."""

from __future__ import annotations

import csv
import io
import json
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.errors import plain
from testbed.lab.results.folder import read
from testbed.report.exports import perfetto
from tests.report_folders import HOSTILE, MS, hostile, lines, pause, small


def fields(message: bytes) -> list[tuple[int, Any]]:
    """Return the fields of a message in protocol buffers, by a reader of its own."""
    at, found = 0, []

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            octet = message[at]
            at += 1
            value |= (octet & 127) << shift
            shift += 7
            if octet < 128:
                return value

    while at < len(message):
        key = varint()
        value: Any
        if key & 7 == 0:
            value = varint()
        elif key & 7 == 1:
            (value,) = struct.unpack_from("<Q", message, at)
            at += 8
        else:
            assert key & 7 == 2
            length = varint()
            value = message[at : at + length]
            assert len(value) == length
            at += length
        found.append((key >> 3, value))
    return found


def trace(folder: Path) -> tuple[dict[int, dict[int, Any]], list[tuple[int, dict[int, Any]]]]:
    """Return descriptors by identity, and (time, fields) of events."""
    out = io.BytesIO()
    perfetto.write(read(folder), out)
    tracks: dict[int, dict[int, Any]] = {}
    events = []
    for number, packet in fields(out.getvalue()):
        assert number == 1
        content = dict(fields(packet))
        if 60 in content:
            described = dict(fields(content[60]))
            tracks[described[1]] = described
        else:
            events.append((content[8], dict(fields(content[11]))))
    return tracks, events


def test_a_pause_is_a_slice_on_a_track_of_its_port_and_node(tmp_path: Path) -> None:
    tracks, events = trace(small(tmp_path / "one"))
    (paused,) = [
        one for one in tracks.values()
        if one[2] == b"priority 3 paused by PFC" and tracks[one[5]][2] == b"h2-eth0"
    ]  # fmt: skip
    assert tracks[tracks[paused[5]][5]][2] == b"h2"
    mine = [(t, event[9]) for t, event in events if event[11] == paused[1]]
    assert mine == [(110 * MS + 20, 1), (140 * MS + 20, 2)]


def test_crossings_are_counters_with_their_unit(tmp_path: Path) -> None:
    tracks, events = trace(small(tmp_path / "one"))
    counters = [one for one in tracks.values() if 8 in one]
    assert {bytes(dict(fields(one[8]))[6]) for one in counters} == {b"cells", b"frames"}
    values = [event[30] for _, event in events if event[9] == 4]
    assert values.count(301) == 3 and values.count(204) == 3


def test_recorded_rates_are_counters_that_need_not_be_whole(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    (folder / "series-flows.csv").write_text(f"t_ns,flow,alpha\n{100 * MS},h1,0.25\n")
    _, events = trace(folder)
    (packed,) = [event[44] for t, event in events if 44 in event and t == 100 * MS]
    assert struct.unpack("<d", struct.pack("<Q", packed)) == (0.25,)


def test_an_arrow_leads_from_each_xoff_to_the_queue_that_it_stopped(tmp_path: Path) -> None:
    tracks, events = trace(small(tmp_path / "one"))
    begun = {event[47]: (t, event[11]) for t, event in events if 47 in event}
    ended = {event[48]: (t, event[11]) for t, event in events if 48 in event}
    assert begun.keys() == ended.keys() and len(begun) == 3
    ways = {
        (
            tracks[tracks[begun[arrow][1]][5]][2],
            tracks[tracks[ended[arrow][1]][5]][2],
            ended[arrow][0] - begun[arrow][0],
        )
        for arrow in begun
    }
    assert ways == {(b"s1-eth1", b"h1-eth0", 60), (b"s1-eth2", b"h2-eth0", 60)}


def test_a_queue_that_no_neighbour_stopped_has_no_arrow(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    lines(folder / "events.jsonl", [one for one in pause(100 * MS, 130 * MS) if one["event"] != "xoff_sent"])
    _, events = trace(folder)
    assert not any(48 in event or 47 in event for _, event in events)


def test_perfettos_own_schema_reads_the_trace(tmp_path: Path) -> None:
    schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="perfetto is missing")
    out = io.BytesIO()
    perfetto.write(read(hostile(tmp_path / "one")), out)
    found = schema.Trace.FromString(out.getvalue())
    assert found.SerializeToString(deterministic=True)
    kinds = {packet.track_event.type for packet in found.packet if packet.HasField("track_event")}
    event = schema.TrackEvent
    assert kinds == {event.TYPE_SLICE_BEGIN, event.TYPE_SLICE_END, event.TYPE_INSTANT, event.TYPE_COUNTER}
    assert all(not packet.track_event.ListFields() or packet.track_event.track_uuid for packet in found.packet)
    known = {packet.track_descriptor.uuid for packet in found.packet if packet.HasField("track_descriptor")}
    used = {packet.track_event.track_uuid for packet in found.packet if packet.HasField("track_event")}
    assert used <= known


def test_the_table_has_a_row_for_each_event_and_a_column_for_each_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = small(tmp_path / "one")
    assert main(["export", str(folder), "--csv"]) == 0
    with (folder / "events.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len((folder / "events.jsonl").read_text().splitlines())
    (first,) = [row for row in rows if row["event"] == "xoff_sent" and row["lab_ns"] == str(110 * MS)]
    assert first["t_ns"] == str(110 * MS // 1000), "the cables have scale 1000"
    assert (first["network"], first["node"], first["port"], first["priorities"]) == ("with PFC", "s1", "s1-eth2", "3")
    assert first["quanta"] == "65535" and first["shared_cells"] == ""
    assert capsys.readouterr().out.strip() == str(folder / "events.csv")


def test_times_of_the_lab_can_be_had_instead(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    assert main(["export", str(folder), "--csv", "--lab-time"]) == 0
    with (folder / "events.csv").open(newline="") as file:
        assert all(row["t_ns"] == row["lab_ns"] for row in csv.DictReader(file))
    assert main(["report", str(folder)]) == 0
    assert "Rates and times are those of the modelled hardware" in (folder / "report.html").read_text()
    assert main(["report", str(folder), "--lab-time"]) == 0
    assert "Rates and times are the lab's" in (folder / "report.html").read_text()


def test_figures_of_the_lab_are_the_hardwares_by_the_scale(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    content = json.loads((folder / "result.json").read_text())
    content["figures"] = [
        {"name": "pause", "value": 3, "unit": "ns"},
        {"name": "rates", "value": [5e9, 1e9], "unit": "b/s"},
        {"name": "both", "value": {"value": 2, "unit": "ns"}, "unit": ""},
        {"name": "frames", "value": 7, "unit": ""},
    ]
    (folder / "result.json").write_text(json.dumps(content))
    found = {one.name: one.value for one in read(folder, lab_time=True).figures}
    assert found == {"pause": 3000, "rates": [5e6, 1e6], "both": {"value": 2000, "unit": "ns"}, "frames": 7}


def test_text_of_any_kind_comes_back_from_the_table_written_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = hostile(tmp_path / "one")
    assert main(["export", str(folder), "--csv", "-o", str(tmp_path / "x.csv")]) == 0
    with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        assert {row["port"] for row in csv.DictReader(file)} >= {plain(f"{HOSTILE}s1-eth1"), "s1-eth2"}
    said = " ".join(capsys.readouterr().err.split())
    assert f"xoff: {folder}: line 5 of networks.jsonl is not JSON" in said


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"), ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"), ("@SUM(1)", "'@SUM(1)"),
        ("-2+3", "'-2+3"), ("-5", "-5"), ("\t=1", "\\t=1"), ("\r=1", "\\r=1"), (" =1", " '=1"), ("\uff1d1", "'\uff1d1"),
        ("x;=1", "x;'=1"), ("x\n$(touch y)\n#", "x\\n$(touch y)\\n#"), ("a, b-c", "a, b-c"), (-5, "-5"),
        ("\x1b[2J", "\\x1b[2J"), ("\ud800", "\\ud800"),
    ],
)  # fmt: skip
def test_no_cell_is_a_formula_or_has_a_second_line(tmp_path: Path, given: Any, shown: str) -> None:
    folder = small(tmp_path / "one")
    event = {"t": 1, "event": f"{given}", "port": "p", "priorities": [], "field": given, f"{given}": 1}
    lines(folder / "events.jsonl", [event])
    assert main(["export", str(folder), "--csv"]) == 0
    text = (folder / "events.csv").read_bytes().decode()
    assert text.count("\n") == 2, "a header and a row"
    head, row = csv.reader(text.splitlines())
    assert (row[head.index("event")], row[head.index("field")]) == (shown, shown)
    assert head.count(shown) == 1


@pytest.mark.slow
def test_parquet_has_numbers_as_numbers(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is missing")
    folder = small(tmp_path / "one")
    assert main(["export", str(folder), "--parquet"]) == 0
    found = parquet.read_table(folder / "events.parquet").to_pylist()
    assert [row["shared_cells"] for row in found if row["event"] == "threshold"] == [301, 301, 204, 204, 301, 204]


@pytest.mark.parametrize(
    ("package", "words"), [("pyarrow", ["export", "--parquet"]), ("matplotlib", ["plot", "pauses"])]
)
def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], package: str, words: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.chdir(tmp_path)
    assert main([*words, str(small(tmp_path / "one"))]) == 2
    assert f"pip install {package}" in capsys.readouterr().err
