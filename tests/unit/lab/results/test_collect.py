"""Collector and result: whatever came of a run is kept, reported and summed up exactly."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.experiment.demand import Demand
from testbed.experiment.fidelity import WINDOW_NS, Fidelity, Thresholds, Verdict
from testbed.experiment.output import Record, RecordKind, Sample, StreamError, file_records
from testbed.lab.results.collect import OUTPUT_LOG, RESERVE, Collector
from testbed.lab.results.result import (
    RESULT,
    Again,
    Claim,
    Exit,
    Figure,
    Provenance,
    Result,
    RunFailed,
    Status,
    Times,
    expectation,
)

Shown = list[tuple[bytes, bool]]
ENDED = {"virtual_ns": 2_000_000_000, "status": "ok", "reason": ""}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The run's result folder, with a neighbour that is none of its business."""
    (tmp_path / "neighbour").write_text("untouched")
    folder = tmp_path / "run-001"
    folder.mkdir()
    return folder


@pytest.fixture
def shown() -> Shown:
    return []


@pytest.fixture
def collector(folder: Path, shown: Shown) -> Iterator[Collector]:
    made = Collector(folder, lambda data, is_error: shown.append((data, is_error)))
    yield made
    made.close()


def feed(collector: Collector, *records: Record) -> None:
    for record in records:
        collector.feed(record.encode())


def note(kind: str, **content: Any) -> bytes:
    return json.dumps({"note": kind} | content).encode() + b"\n"


def notes(*lines: bytes) -> Record:
    return Record(RecordKind.NOTE, b"".join(lines))


def left(name: str, *pieces: bytes) -> list[Record]:
    return list(file_records(name, iter(pieces)))


def there(folder: Path) -> dict[str, bytes]:
    """Return the contents of the files in a folder, by name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def looks(count: int, busy: int = -1) -> list[Record]:
    """Return looks at a CPU that is half idle except in one window."""
    idle = 0
    records = []
    for number in range(count):
        records.append(Record(RecordKind.SAMPLE, Sample(number * WINDOW_NS, 0, idle).encode()))
        idle += 0 if number == busy else WINDOW_NS // 2
    return records


# What is known of a run


def test_nothing_is_known_of_a_run_that_said_nothing(collector: Collector, folder: Path) -> None:
    collector.feed(b"")
    assert (collector.started, collector.ended, collector.virtual_ns) == ({}, None, 0)
    assert (collector.figures, collector.claims, collector.files) == ([], [], {})
    assert collector.fidelity(Thresholds()).verdict is Verdict.UNKNOWN
    assert there(folder) == {}


def test_a_run_is_known_whole_however_its_stream_is_split(collector: Collector, folder: Path, shown: Shown) -> None:
    records = [
        Record.of(RecordKind.START, {"kernel": "6.12", "python": "3.11.2"}),
        Record(RecordKind.OUT, b"hello\n"),
        notes(note("figure", name="goodput", value="95Mb/s", unit="")),
        Record(RecordKind.ERR, b"oh\n"),
        *looks(3),
        *left("events.jsonl", b"{}\n"),
        Record.of(RecordKind.END, ENDED),
    ]
    for octet in b"".join(record.encode() for record in records):
        collector.feed(bytes([octet]))
    collector.close()
    assert collector.started == {"kernel": "6.12", "python": "3.11.2"}
    assert shown == [(b"hello\n", False), (b"oh\n", True)]
    assert collector.figures == [Figure("goodput", "95Mb/s", "")]
    assert collector.ended == ENDED
    assert collector.status() == (Status.OK, "")
    assert collector.virtual_ns == 2_000_000_000
    assert there(folder) == {OUTPUT_LOG: b"hello\noh\n", "events.jsonl": b"{}\n"}
    assert collector.files == {OUTPUT_LOG: sha256(b"hello\noh\n"), "events.jsonl": sha256(b"{}\n")}


def test_output_is_kept_as_soon_as_it_comes(collector: Collector, folder: Path) -> None:
    feed(collector, Record(RecordKind.OUT, b"first\n"))
    assert (folder / OUTPUT_LOG).read_bytes() == b"first\n"


def test_how_far_a_run_has_come_is_shown_by_its_samples(collector: Collector) -> None:
    feed(collector, *looks(4))
    assert collector.virtual_ns == 3 * WINDOW_NS


def test_a_stream_that_breaks_off_leaves_what_has_come(collector: Collector, folder: Path) -> None:
    feed(collector, Record(RecordKind.OUT, b"so far\n"), *left("data", b"whole"))
    collector.feed(Record(RecordKind.OUT, b"never seen").encode()[:-1])
    collector.close()
    assert collector.ended is None
    assert there(folder) == {OUTPUT_LOG: b"so far\n", "data": b"whole"}


def test_damage_is_noticed_and_what_came_before_it_kept(collector: Collector, shown: Shown) -> None:
    stream = Record(RecordKind.OUT, b"before").encode() + b"Kernel panic - not syncing"
    with pytest.raises(StreamError, match=r"^the lab's stream is damaged: "):
        collector.feed(stream)
    assert shown == [(b"before", False)]


# Notes


def test_figures_and_claims_are_kept_in_their_order(collector: Collector) -> None:
    claim = note("claim", name="c", expected={"equals": 4}, measured=5, passed=False, unit="frames")
    figure = note("figure", name="f", value=[1, None], unit="x")
    feed(collector, notes(figure, claim), notes(figure))
    assert collector.figures == [Figure("f", [1, None], "x")] * 2
    assert collector.claims == [Claim("c", {"equals": 4}, 5, False, "frames")]


@given(st.lists(st.integers(0, 400)))
def test_notes_are_read_whole_however_the_pipe_cuts_them(cuts: list[int]) -> None:
    """A list of some thousand numbers is longer than a pipe takes at once."""
    lines = b"".join(note("figure", name=f"figure {n}", value=list(range(40)), unit="\u00b5s") for n in range(2))
    ends = sorted({0, len(lines), *(cut for cut in cuts if cut < len(lines))})
    with tempfile.TemporaryDirectory() as place:
        collector = Collector(Path(place), lambda *_: None)
        feed(collector, *(notes(lines[a:b]) for a, b in pairwise(ends)))
    assert [(f.name, len(f.value)) for f in collector.figures] == [("figure 0", 40), ("figure 1", 40)]


@pytest.mark.parametrize("line", [b"no JSON\n", b"{}\n", b"[1]\n", b'{"note": "figure", "name": "x"}\n'])
def test_a_note_that_makes_no_sense_is_damage(line: bytes, collector: Collector) -> None:
    with pytest.raises(StreamError, match=r"^the lab's stream is damaged: "):
        feed(collector, notes(line))


def test_what_flows_ask_for_is_known_while_they_run(collector: Collector) -> None:
    asked = {"begin_ns": 1, "lab_ns": 2, "frames": {"udp": 3}, "hops": {"udp": 4}, "flows": {"udp": 5}}
    feed(collector, Record.of(RecordKind.DEMAND, [asked]))
    assert collector.demands == (Demand(1, 2, {"udp": 3}, {"udp": 4}, {"udp": 5}),)
    feed(collector, Record.of(RecordKind.DEMAND, []))
    assert collector.demands == ()
    with pytest.raises(StreamError, match="is no DEMAND"):
        feed(collector, Record.of(RecordKind.DEMAND, [{**asked, "lab_ns": -1}]))


def test_a_network_is_being_set_up_until_its_first_phase_begins(collector: Collector) -> None:
    feed(collector, notes(note("set_up", nodes=70, t=5)))
    assert (collector.nodes, collector.setting_up_ns) == (70, 5)
    feed(collector, notes(note("phase", phase="network", begins=True, t=9)))
    assert (collector.nodes, collector.setting_up_ns) == (70, None)


def test_the_latest_agent_counts(collector: Collector) -> None:
    feed(collector, *(notes(note("agent_lateness", worst_ns=late)) for late in (10, 30, 20)))
    assert collector.fidelity(Thresholds()).agent_late_ns == 30


def test_own_code_is_listed_by_its_kind(collector: Collector) -> None:
    ways = (("rate_control", "Own", "Python"), ("rate_control", "Own", "code"), ("switch_rule", "Step", "code"))
    feed(collector, *(notes(note(kind, name=name, how=how)) for kind, name, how in ways))
    assert (collector.rate_controls, collector.switch_rules) == ({"Own": "Python, code"}, {"Step": "code"})


def test_an_agent_that_was_never_late_is_not_the_same_as_none(collector: Collector) -> None:
    assert collector.fidelity(Thresholds()).agent_late_ns is None
    feed(collector, notes(note("agent_lateness", worst_ns=0)))
    assert collector.fidelity(Thresholds()).agent_late_ns == 0


def test_the_thresholds_asked_for_are_those_that_count(collector: Collector) -> None:
    feed(collector, *looks(3))
    assert collector.fidelity(Thresholds(idle_percent=50)).verdict is Verdict.KEPT
    assert collector.fidelity(Thresholds(idle_percent=51)).verdict is Verdict.DEGRADED


def phase(begins: bool, windows: float, kind: str = "measuring") -> Record:
    return notes(note("phase", phase=kind, begins=begins, t=int(windows * WINDOW_NS)))


@pytest.mark.parametrize(
    ("marks", "windows", "verdict"),
    [
        ([], 5, Verdict.DEGRADED),
        ([phase(True, 0), phase(False, 2)], 2, Verdict.KEPT),
        ([phase(True, 0), phase(False, 3)], 3, Verdict.DEGRADED),
        ([phase(True, 0), phase(False, 1), phase(True, 3), phase(False, 5)], 3, Verdict.KEPT),
        ([phase(True, 3)], 2, Verdict.KEPT),
        ([phase(True, 1)], 4, Verdict.DEGRADED),
        ([phase(True, 3.1), phase(False, 3.9)], 0, Verdict.UNKNOWN),
    ],
    ids=["none", "before", "around", "both sides", "open, after", "open, around", "too short"],
)
def test_only_measuring_phases_are_judged_and_an_open_one_lasts_to_the_end(
    marks: list[Record], windows: int, verdict: Verdict, collector: Collector
) -> None:
    feed(collector, *looks(6, busy=2), *marks)
    found = collector.fidelity(Thresholds())
    assert (found.windows, found.verdict) == (windows, verdict)


def test_a_phase_within_a_phase_does_not_shorten_it(collector: Collector) -> None:
    feed(collector, *looks(6), phase(True, 0), phase(True, 2), phase(False, 3), phase(False, 5))
    assert collector.fidelity(Thresholds()).windows == 5


def test_without_a_measuring_phase_the_time_with_a_network_is_judged(collector: Collector) -> None:
    feed(collector, *looks(6, busy=2), phase(True, 0, "network"), phase(False, 2, "network"))
    assert collector.fidelity(Thresholds()).windows == 2
    feed(collector, phase(True, 2), phase(False, 3))
    found = collector.fidelity(Thresholds())
    assert (found.windows, found.verdict) == (1, Verdict.DEGRADED)


@pytest.mark.parametrize(
    ("marks", "windows"),
    [
        ([phase(True, 1, "traffic"), phase(False, 3, "traffic")], 2),
        ([phase(True, 1, "traffic"), phase(False, 3, "traffic"), phase(True, 3), phase(False, 4)], 1),
        ([phase(True, 1.1, "traffic"), phase(False, 1.9, "traffic")], 5),
    ],
    ids=["alone", "beside a mark of the experiment", "too short to be seen"],
)
def test_without_a_measuring_phase_the_time_with_traffic_is_judged(
    marks: list[Record], windows: int, collector: Collector
) -> None:
    feed(collector, *looks(6), phase(True, 0, "network"), *marks, phase(False, 5, "network"))
    assert collector.fidelity(Thresholds()).windows == windows


def test_the_end_of_a_phase_that_has_not_begun_is_damage(collector: Collector) -> None:
    feed(collector, phase(True, 1, "network"))
    with pytest.raises(StreamError, match="is damaged"):
        feed(collector, phase(False, 1))
    feed(collector, *looks(4))
    assert collector.fidelity(Thresholds()).windows == 2


# How it ended


@pytest.mark.parametrize("status", ["ok", "error", "timeout", "memory", "processes"])
def test_the_end_is_as_the_lab_reports_it(status: str, collector: Collector) -> None:
    feed(collector, Record.of(RecordKind.END, {"virtual_ns": 5, "status": status, "reason": "because"}))
    assert collector.status() == (Status(status), "because")
    assert collector.virtual_ns == 5


def test_the_exception_is_the_reason_of_an_error_and_of_nothing_else(collector: Collector) -> None:
    feed(collector, notes(note("failure", type="ValueError", message="no such host")))
    feed(collector, Record.of(RecordKind.END, ENDED | {"status": "error", "reason": "the job ended with exit code 1"}))
    assert collector.status() == (Status.ERROR, "ValueError: no such host")
    feed(collector, Record.of(RecordKind.END, ENDED | {"status": "timeout", "reason": "too slow"}))
    assert collector.status() == (Status.TIMEOUT, "too slow")


# Damage


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from([10**30, "ok", "x", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["equals", "at_most", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)
fields = st.sampled_from(
    ["name", "value", "unit", "expected", "measured", "passed", "phase", "begins", "t", "worst_ns", "type", "message"]
)
kinds = st.fixed_dictionaries({"note": st.sampled_from(["figure", "claim", "phase", "agent_lateness", "failure"])})
ends = st.fixed_dictionaries(dict.fromkeys(("virtual_ns", "status", "reason"), json_values | st.just("ok")))
payloads = (
    st.binary(max_size=40)
    | st.builds(lambda *args: Sample(*args).encode(), *[st.integers(-(2**63), 2**63 - 1)] * 4)
    | st.builds(json.dumps, json_values | ends).map(str.encode)
    | st.builds(lambda a, b: note(**{"kind": a["note"]} | b), kinds, st.dictionaries(fields, json_values))
)


@given(st.lists(st.builds(Record, st.sampled_from(RecordKind), payloads), max_size=8))
def test_whatever_a_lab_sends_is_taken_or_is_damage(records: list[Record]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "run")
        folder.mkdir()
        collector = Collector(folder, lambda *_: None)
        try:
            feed(collector, *records)
        except StreamError as error:
            assert str(error).startswith("the lab's stream is damaged: ")
        collector.close()
        status, reason = collector.status() if collector.ended else (Status.LOST, "")
        told = Result(
            "hello", status, reason, {}, 1, tuple(collector.figures), tuple(collector.claims),
            collector.fidelity(Thresholds()), Provenance(*[""] * 9),  # type: ignore[arg-type]
                Times(collector.virtual_ns, 1.0, None),
            collector.files,
        )  # fmt: skip
        told.write(folder)
        [expectation(claim) for claim in told.claims]
        json.loads((folder / RESULT).read_text(), parse_constant=pytest.fail)
        assert list(Path(place).iterdir()) == [folder]
        assert set(told.files) == set(there(folder)) - {RESULT}


@pytest.mark.parametrize(
    "payload",
    [
        b"[" * 100_000,
        b'{"note": "figure", "name": "", "unit": "", "value": ' + b"[" * 99 + b"]" * 99 + b"}",
        b"x" * 2**20,
    ],
    ids=["deeper than Python reads", "deeper than Run sends", "longer than Run sends"],
)
def test_a_note_that_is_too_much_is_damage(payload: bytes, collector: Collector) -> None:
    with pytest.raises(StreamError, match=r"^the lab's stream is damaged: "):
        feed(collector, notes(payload), notes(b"\n"))


@pytest.mark.parametrize("looks", [[(1, 0)] * 2, [(2, 0), (1, 0)], [(-1, 0)], [(2**62, 0)], [(0, 2**62)]])
def test_looks_out_of_time_are_damage(looks: list[tuple[int, int]], collector: Collector) -> None:
    with pytest.raises(StreamError, match=r"^the lab's stream is damaged: "):
        feed(collector, *(Record(RecordKind.SAMPLE, Sample(at, late, 0).encode()) for at, late in looks))


def test_a_name_that_cannot_be_both_file_and_folder_is_damage(collector: Collector) -> None:
    with pytest.raises(StreamError, match=r"^the lab's stream is damaged: 'a/b' is both a file and a folder$"):
        feed(collector, *left("a", b"1"), *left("a/b", b"2"))


# Files


@pytest.mark.parametrize("name", ["x" * 256, "/".join(["deep"] * 1000)])
def test_a_file_whose_name_has_no_room_here_is_kept_all_the_same(name: str, collector: Collector, folder: Path) -> None:
    feed(collector, *left(name, b"left"))
    collector.close()
    assert list(there(folder).values()) == [b"left"]
    assert there(folder).keys() == collector.files.keys()


def test_a_file_in_pieces_is_one_file(collector: Collector, folder: Path) -> None:
    feed(collector, *left("a/b/capture.pcap", b"one\0", b"", b"two"), *left("empty"))
    collector.close()
    assert there(folder) == {"a/b/capture.pcap": b"one\0two", "empty": b""}
    assert collector.files == {"a/b/capture.pcap": sha256(b"one\0two"), "empty": sha256(b"")}


def test_files_are_listed_by_name(collector: Collector) -> None:
    feed(collector, *left("b"), *left("a"), Record(RecordKind.OUT, b"x"))
    assert list(collector.files) == ["a", "b", OUTPUT_LOG]


# Absolute ones are below PLACE, and no more than four levels up: should one escape, it does no harm.
parts = st.lists(st.sampled_from([".", "..", "a", OUTPUT_LOG, RESULT]), max_size=4).map("/".join)
words = st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), max_size=20)
names = st.builds(str.__add__, st.sampled_from(["", "PLACE/", "/PLACE/"]), parts | words)


@given(names)
def test_a_file_stays_in_the_folder_whatever_its_name(name: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "1", "2", "3", "4", "run-001")
        folder.mkdir(parents=True)
        collector = Collector(folder, lambda *_: None)
        feed(collector, Record(RecordKind.OUT, b"printed"), *left(name.replace("PLACE", place), b"left"))
        feed(collector, Record.of(RecordKind.END, ENDED))
        collector.close()
        found = there(folder)
        assert len(there(Path(place))) == len(found) == 2
        assert found.pop(OUTPUT_LOG) == b"printed"
        assert list(found.values()) == [b"left"]
        assert collector.files == {OUTPUT_LOG: sha256(b"printed")} | {known: sha256(b"left") for known in found}


@pytest.mark.parametrize("name", ["PLACE/neighbour", "/PLACE/neighbour", "../neighbour", "a/../../neighbour", "..", ""])
def test_a_file_with_a_hostile_name_lands_inside(name: str, tmp_path: Path, collector: Collector, folder: Path) -> None:
    feed(collector, *left(name.replace("PLACE", str(tmp_path)), b"evil"), Record.of(RecordKind.END, ENDED))
    collector.close()
    assert (tmp_path / "neighbour").read_text() == "untouched"
    assert list(there(folder).values()) == [b"evil"]


@pytest.mark.parametrize(
    "name", [OUTPUT_LOG, RESULT, f".{RESULT}", RESERVE, f"{OUTPUT_LOG}/deep", f"{RESULT}/deep", f"./{RESULT}"]
)
def test_a_file_never_takes_the_place_of_ours(name: str, collector: Collector, folder: Path, result: Result) -> None:
    feed(collector, Record(RecordKind.OUT, b"printed"), *left(name, b"left"), Record.of(RecordKind.END, ENDED))
    collector.close()
    result.write(folder)
    found = there(folder)
    assert found.pop(OUTPUT_LOG) == b"printed"
    assert json.loads(found.pop(RESULT)) == result.as_json()
    assert list(found.values()) == [b"left"]


def test_files_with_different_names_never_share_a_place(collector: Collector, folder: Path) -> None:
    for name in (f"job-{OUTPUT_LOG}", OUTPUT_LOG, f"/job-{OUTPUT_LOG}", "a", "../a"):
        feed(collector, *left(name, name.encode()))
    collector.close()
    assert sorted(there(folder).values()) == sorted(
        name.encode() for name in (f"job-{OUTPUT_LOG}", OUTPUT_LOG, f"/job-{OUTPUT_LOG}", "a", "../a")
    )


@pytest.mark.parametrize("name", [OUTPUT_LOG, "data"])
def test_a_full_disk_is_noticed_before_the_run_counts_as_ended(name: str, collector: Collector, folder: Path) -> None:
    (folder / name).symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        feed(collector, Record(RecordKind.OUT, b"printed"), *left("data", b"left"), Record.of(RecordKind.END, ENDED))
    assert collector.ended is None


# The result


@pytest.fixture
def result() -> Result:
    return Result(
        experiment="hello",
        status=Status.OK,
        reason="",
        parameters={"hosts": 4, "rate": "100Mb/s"},
        seed=7,
        figures=(Figure("round trip", 4_050_000, "ns"), Figure("share", 0.1, "of the link")),
        claims=(Claim("every pair answers", {"equals": 12}, 12, True),),
        fidelity=Fidelity(Verdict.KEPT, (), 12, 88.5, 4000, None, Thresholds()),
        provenance=Provenance("vm", "tcg-icount", "a" * 64, "6.12.1", "", "7.2.11", "0.1.0", "0123456789ab", "b" * 64),
        times=Times(2_000_000_000, 4.0, 0.25),
        again=Again(("run", "mine.py"), {"mine.py": "e" * 64}),
        files={OUTPUT_LOG: "c" * 64, "events.jsonl": "d" * 64},
    )


FAILED = Claim("TCP fills the link", {"at_least": 90 * 10**6, "at_most": 10**8}, 42 * 10**6, False, "b/s")
REPRODUCIBLE = {"experiment", "status", "parameters", "seed", "figures", "claims", "fidelity", "virtual_ns", "files"}


def degraded(result: Result) -> Result:
    return replace(result, fidelity=replace(result.fidelity, verdict=Verdict.DEGRADED, reasons=("it was busy",)))


def test_the_result_file_is_readable_by_anybody(result: Result, folder: Path) -> None:
    failed = replace(result, claims=(*result.claims, FAILED))
    failed.write(folder)
    assert list(there(folder)) == [RESULT]
    assert json.loads((folder / RESULT).read_text(), parse_constant=pytest.fail) == {
        "schema": 2,
        "experiment": "hello",
        "status": "ok",
        "passed": False,
        "reason": "",
        "parameters": {"hosts": 4, "rate": "100Mb/s"},
        "seed": 7,
        "figures": [
            {"name": "round trip", "value": 4_050_000, "unit": "ns"},
            {"name": "share", "value": 0.1, "unit": "of the link"},
        ],
        "claims": [
            {"name": "every pair answers", "expected": {"equals": 12}, "measured": 12, "passed": True, "unit": ""},
            {
                "name": "TCP fills the link",
                "expected": {"at_least": 90 * 10**6, "at_most": 10**8},
                "measured": 42 * 10**6,
                "passed": False,
                "unit": "b/s",
            },
        ],
        "fidelity": {
            "verdict": "kept",
            "reasons": [],
            "windows": 12,
            "idle_percent": 88.5,
            "timer_late_ns": 4000,
            "agent_late_ns": None,
            "thresholds": {"idle_percent": 1, "timer_late_ns": 1_000_000, "agent_late_ns": 1_000_000},
        },
        "virtual_ns": 2_000_000_000,
        "files": {OUTPUT_LOG: "c" * 64, "events.jsonl": "d" * 64},
        "digest": failed.digest,
        "provenance": {
            "engine": "vm",
            "accelerator": "tcg-icount",
            "image": "a" * 64,
            "kernel": "6.12.1",
            "kernel_digest": "",
            "qemu": "7.2.11",
            "xoff": "0.1.0",
            "commit": "0123456789ab",
            "code": "b" * 64,
            "packages": {},
            "debian": {},
            "rate_controls": {},
            "switch_rules": {},
        },
        "times": {"virtual_ns": 2_000_000_000, "wall_s": 4.0, "first_line_s": 0.25, "cpu_s": None, "ratio": 0.5},
        "again": {"command": ["run", "mine.py"], "files": {"mine.py": "e" * 64}},
    }


def test_the_digest_can_be_checked_from_the_result_file_alone(result: Result, folder: Path) -> None:
    result.write(folder)
    content = json.loads((folder / RESULT).read_text())
    part = {name: content[name] for name in REPRODUCIBLE}
    assert sha256(json.dumps(part, sort_keys=True).encode()) == content["digest"] == result.digest


@pytest.mark.parametrize("text", ["5 µs", "café", os.fsdecode(b"caf\xe9"), "\ud800", '"\\\n\0'])
def test_any_text_can_be_in_a_result(text: str, result: Result, folder: Path) -> None:
    told = replace(result, reason=text, figures=(Figure(text, text, text),), files={text: "e" * 64})
    told.write(folder)
    content = json.loads((folder / RESULT).read_bytes().decode("utf-8"))
    assert (content["reason"], content["figures"][0]["value"], list(content["files"])) == (text, text, [text])


CHANGES: list[Callable[[Result], Result]] = [
    lambda r: replace(r, experiment="other"),
    lambda r: replace(r, status=Status.TIMEOUT),
    lambda r: replace(r, parameters=r.parameters | {"hosts": 5}),
    lambda r: replace(r, seed=8),
    lambda r: replace(r, figures=r.figures[::-1]),
    lambda r: replace(r, figures=(replace(r.figures[0], unit="s"), r.figures[1])),
    lambda r: replace(r, claims=(FAILED,)),
    degraded,
    lambda r: replace(r, fidelity=replace(r.fidelity, timer_late_ns=4001)),
    lambda r: replace(r, fidelity=replace(r.fidelity, thresholds=Thresholds(idle_percent=2))),
    lambda r: replace(r, times=replace(r.times, virtual_ns=2_000_000_001)),
    lambda r: replace(r, files=r.files | {OUTPUT_LOG: "0" * 64}),
    lambda r: replace(r, files={OUTPUT_LOG: "c" * 64}),
]


@pytest.mark.parametrize("change", CHANGES)
def test_the_digest_depends_on_all_that_must_be_the_same_everywhere(
    change: Callable[[Result], Result], result: Result
) -> None:
    assert change(result).digest != result.digest


def test_the_digest_does_not_depend_on_the_machine_or_the_order_of_names(result: Result, folder: Path) -> None:
    elsewhere = replace(
        result,
        provenance=Provenance("host", "none", "", "6.1", "", "", "0.2.0", "", "f" * 64),
        times=replace(result.times, wall_s=99.0, first_line_s=None, cpu_s=7.5),
        parameters=dict(reversed(result.parameters.items())),
        files=dict(reversed(result.files.items())),
        folder=folder,
    )
    assert elsewhere.digest == result.digest


def test_a_run_passes_when_it_ended_well_and_every_claim_held(result: Result) -> None:
    assert result.passed
    assert result.check() is result
    assert replace(result, claims=()).passed
    assert degraded(result).passed
    assert not replace(result, claims=(*result.claims, FAILED)).passed
    assert not replace(result, status=Status.ERROR).passed


def test_check_names_what_did_not_come_out(result: Result) -> None:
    with pytest.raises(RunFailed) as caught:
        replace(result, claims=(*result.claims, FAILED)).check()
    assert str(caught.value) == (
        "hello: TCP fills the link: measured 42Mb/s, expected at least 90Mb/s, at most 100Mb/s"
    )
    with pytest.raises(RunFailed) as caught:
        replace(result, status=Status.ERROR, reason="ValueError: no such host", claims=(FAILED,)).check()
    assert str(caught.value) == "hello: ValueError: no such host"


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"equals": 4}, "4"),
        ({"at_least": "1ms"}, "at least 1ms"),
        ({"at_least": 1, "at_most": 2}, "at least 1, at most 2"),
    ],
)
def test_an_expectation_is_written_in_words(expected: dict[str, Any], words: str) -> None:
    assert expectation(Claim("it", expected, None, False)) == words


def test_a_figure_is_found_by_name(result: Result) -> None:
    assert result.figure("share") == 0.1
    with pytest.raises(KeyError) as caught:
        result.figure("shape")
    assert caught.value.args == ("hello reported no figure 'shape'; it has ['round trip', 'share']",)


def test_the_ratio_of_times_is_virtual_seconds_per_wall_second() -> None:
    assert Times(3_000_000_000, 1.5, None).ratio == 2.0
    assert Times(3_000_000_000, 0.0, None).ratio == 0.0


# Exit codes


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status.OK, 0),
        (Status.ERROR, 4),
        (Status.TIMEOUT, 5),
        (Status.WALL_TIMEOUT, 5),
        (Status.MEMORY, 5),
        (Status.PROCESSES, 5),
        (Status.INTERRUPTED, 130),
        (Status.DISK_FULL, 3),
        (Status.LOST, 3),
    ],
)
def test_how_a_job_ended_is_the_exit_code_whatever_else_went_wrong(status: Status, code: int, result: Result) -> None:
    ended = replace(result, status=status)
    assert ended.exit_code() == code
    if status is not Status.OK:
        assert degraded(replace(ended, claims=(FAILED,))).exit_code() == code


def test_every_status_has_an_exit_code(result: Result) -> None:
    assert all(replace(result, status=status).exit_code() in Exit for status in Status)


def test_a_failed_claim_is_exit_code_1_even_if_the_lab_was_degraded(result: Result) -> None:
    failed = replace(result, claims=(FAILED,))
    assert failed.exit_code() == Exit.FAILED == 1
    assert degraded(failed).exit_code() == degraded(failed).exit_code(allow_degraded=True) == 1


def test_a_degraded_lab_is_exit_code_6_unless_allowed(result: Result) -> None:
    assert degraded(result).exit_code() == Exit.DEGRADED == 6
    assert degraded(result).exit_code(allow_degraded=True) == 0


def test_a_run_too_short_to_judge_is_no_failure(result: Result) -> None:
    unknown = replace(result, fidelity=replace(result.fidelity, verdict=Verdict.UNKNOWN))
    assert unknown.exit_code() == 0


def test_files_of_another_collector_are_taken_with_their_hashes(
    folder: Path, shown: Shown, collector: Collector
) -> None:
    other = Collector(folder.parent / "part-1", lambda *_: None)
    for made, name in ((collector, "captures/1/a"), (other, "captures/1/b"), (other, "events.jsonl")):
        for record in file_records(name, iter([name.encode()])):
            made.feed(record.encode())
    other.close()
    collector.adopt(other, "captures")
    assert sorted(collector.files) == ["captures/1/a", "captures/1/b"]
    for name, digest in collector.files.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert list(other.files) == ["events.jsonl"]


def test_no_file_of_another_collector_takes_the_place_of_one(folder: Path, collector: Collector) -> None:
    other = Collector(folder.parent / "part-1", lambda *_: None)
    for made in (collector, other):
        for record in file_records("captures/1/a", iter([bytes(3)])):
            made.feed(record.encode())
    with pytest.raises(StreamError, match=r"^two parts of the network have a file captures/1/a$"):
        collector.adopt(other, "captures")
    other.close()


def test_rows_of_a_series_of_all_parts_are_in_the_order_of_time(collector: Collector, folder: Path) -> None:
    head = b"t_ns,lab_ns,port\n"
    others = [Collector(folder.parent / f"part-{number}", lambda *_: None) for number in (1, 2)]
    feed(collector, *left("series-links.csv", head, b"1,10,a\n", b"3,30,a\n"))
    feed(others[0], *left("series-links.csv", head, b"1,10,b\n", b"2,20,b\n"))
    collector.join_series(others, "series-links.csv")
    collector.join_series(others, "series-marks.csv")  # which no part has
    rows = b"1,10,a\n1,10,b\n2,20,b\n3,30,a\n"
    assert there(folder) == {"series-links.csv": head + rows}
    assert collector.files == {"series-links.csv": sha256(head + rows)}
    feed(others[1], *left("series-links.csv", head, b"of no time\n"))
    with pytest.raises(StreamError, match=r"series-links.csv of a part of the network has a row without a time"):
        collector.join_series(others, "series-links.csv")
    assert set(there(folder)) == {"series-links.csv"}
