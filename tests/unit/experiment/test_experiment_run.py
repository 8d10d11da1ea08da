"""The run of an experiment: what it reports goes out at once, and as it was meant."""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import UsageError
from testbed.experiment.demand import Board, Demand
from testbed.experiment.output import EVENT_LOG, PUBLISHED_LOG
from testbed.experiment.run import LARGEST_NOTE, Run, plain, running
from testbed.lab.results.published import Published, published_of
from testbed.units import Duration, Length, Rate, Scale, Size


class Clock:
    """The lab's time, in nanoseconds."""

    def __init__(self) -> None:
        self.now = 5_000_000_000

    def __call__(self) -> int:
        return self.now


class Notes(io.StringIO):
    """The notes that went out; one that was not flushed would be lost with the run."""

    def __init__(self) -> None:
        super().__init__()
        self.out: list[dict[str, Any]] = []

    def flush(self) -> None:
        for line in self.getvalue().splitlines(keepends=True):
            assert line.endswith("\n")
            self.out.append(json.loads(line))
        self.seek(0)
        self.truncate()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic_ns", clock)
    return clock


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def run(clock: Clock, notes: Notes, tmp_path: Path) -> Run:
    return Run(7, clock.now, tmp_path, notes)


def complaint(call: Callable[[], object]) -> str:
    with pytest.raises(UsageError) as caught:
        call()
    return str(caught.value)


def events(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.directory / EVENT_LOG).read_text().splitlines()]


# Time and chance


def test_time_starts_at_zero_with_the_experiment(run: Run, clock: Clock) -> None:
    assert run.lab_ns == 0
    clock.now += 1_500
    assert run.lab_ns == 1_500


def test_the_seed_decides_the_random_numbers(run: Run) -> None:
    assert run.seed == 7
    same = random.Random(7)
    assert [run.rng.random() for _ in range(3)] == [same.random() for _ in range(3)]


# Figures


def test_a_figure_goes_out_at_once(run: Run, notes: Notes) -> None:
    run.figure("retransmits", 3)
    assert notes.out == [{"note": "figure", "name": "retransmits", "value": 3, "unit": ""}]
    run.figure("share", 0.5, "of the link")
    assert notes.out[1:] == [{"note": "figure", "name": "share", "value": 0.5, "unit": "of the link"}]


@pytest.mark.parametrize(
    ("value", "number", "unit"),
    [
        (Rate("94522026b/s"), 94522026, "b/s"),
        (Duration("4ms"), 4_000_000, "ns"),
        (Duration.from_ps(1_111_112), 1111.112, "ns"),
        (Size("9216B"), 9216, "B"),
        (Length("50km"), 50_000, "m"),
        ([Rate("25Gb/s"), None, {"peak": Rate("1Mb/s")}], [25 * 10**9, None, {"peak": 10**6}], "b/s"),
        (
            {"sent": 3, "goodput": Rate("1Mb/s"), "in": (Duration("1us"),)},
            {"sent": 3, "goodput": {"value": 10**6, "unit": "b/s"}, "in": [{"value": 1000, "unit": "ns"}]},
            "",
        ),
    ],
)
def test_a_quantity_is_reported_as_a_number_with_its_unit_beside(
    run: Run, notes: Notes, value: Any, number: Any, unit: str
) -> None:
    run.figure("it", value)
    assert notes.out == [{"note": "figure", "name": "it", "value": number, "unit": unit}]


def test_a_figure_name_is_used_once(run: Run, notes: Notes) -> None:
    run.figure("longest delay", 1)
    assert complaint(lambda: run.figure("longest delay", 2)) == (
        "figure longest delay: the run has reported a figure of this name; give each its own, as in "
        'run.figure("second case: longest delay", ...)'
    )
    assert [note["value"] for note in notes.out] == [1]


def test_what_networks_have_in_common_is_numbered(run: Run, notes: Notes) -> None:
    for lost in (5, 6, 7):
        run.figure_of_each("lost by flows", lost)
    names = [note["name"] for note in notes.out]
    assert names == ["lost by flows", "lost by flows (2)", "lost by flows (3)"]


def test_lines_for_the_end_are_written_at_the_end(run: Run) -> None:
    log = run.directory / "flows.jsonl"
    with running(run):
        run.lines_at_end("flows.jsonl", [{"t_ns": 5_000_000_100, "flow": 0}])
        run.lines_at_end("flows.jsonl", [{"t_ns": 5_000_000_200, "flow": 1}])
        assert not log.exists()
    run.write_rest()
    assert [json.loads(line) for line in log.read_text().splitlines()] == [
        {"lab_ns": 100, "flow": 0}, {"lab_ns": 200, "flow": 1},
    ]  # fmt: skip


def test_a_note_is_one_line_whatever_is_in_it(run: Run, notes: Notes) -> None:
    run.figure("two\nlines", "a\r\nb\u2028c", "µs")
    assert notes.out == [{"note": "figure", "name": "two\nlines", "value": "a\r\nb\u2028c", "unit": "µs"}]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), [1.0, float("nan")]])
def test_nothing_is_reported_that_json_cannot_hold(value: Any, tmp_path: Path) -> None:
    notes = io.StringIO()
    try:
        Run(1, 0, tmp_path, notes).figure("ratio", value)
    except UsageError:
        return
    json.loads(notes.getvalue(), parse_constant=pytest.fail)


# Claims


@pytest.mark.parametrize(
    ("measured", "bounds", "passed"),
    [
        (4, {"equals": 4}, True),
        (4, {"equals": 5}, False),
        (0, {"equals": 0}, True),
        (1, {"equals": 0}, False),
        (False, {"equals": False}, True),
        ("kept", {"equals": "kept"}, True),
        ([1, 2], {"equals": [1, 2]}, True),
        (4, {"at_least": 4}, True),
        (3.9, {"at_least": 4}, False),
        (4, {"at_most": 4}, True),
        (4.1, {"at_most": 4}, False),
        (0, {"at_most": 0}, True),
        (4, {"at_least": 3, "at_most": 5}, True),
        (2, {"at_least": 3, "at_most": 5}, False),
        (6, {"at_least": 3, "at_most": 5}, False),
    ],
)
def test_a_claim_holds_within_its_bounds(
    measured: Any, bounds: dict[str, Any], passed: bool, run: Run, notes: Notes
) -> None:
    assert run.claim("it", measured, **bounds) is passed
    note = {"note": "claim", "name": "it", "expected": bounds, "measured": measured, "passed": passed, "unit": ""}
    assert notes.out == [note]


def test_a_claim_on_quantities_compares_them_and_reports_numbers(run: Run, notes: Notes) -> None:
    assert run.claim("trip", Duration("4.5ms"), at_least=Duration("4ms"), at_most=Duration("5ms"))
    assert not run.claim("goodput", Rate("9Mb/s"), at_least=Rate("10Mb/s"))
    assert [(note["measured"], note["expected"], note["unit"]) for note in notes.out] == [
        (4_500_000, {"at_least": 4_000_000, "at_most": 5_000_000}, "ns"),
        (9_000_000, {"at_least": 10_000_000}, "b/s"),
    ]


@pytest.mark.parametrize("bounds", [{"equals": Duration("1ms")}, {"at_least": Duration("1ms")}, {"at_most": 3}])
def test_a_claim_on_what_could_not_be_measured_fails_and_does_not_stop_the_run(
    bounds: dict[str, Any], run: Run, notes: Notes
) -> None:
    """As with the round trip of a ping without an answer."""
    assert run.claim("round trip", None, **bounds) is False
    assert (notes.out[0]["measured"], notes.out[0]["passed"]) == (None, False)


@pytest.mark.parametrize("bounds", [{}, {"equals": 1, "at_least": 0}, {"equals": 1, "at_most": 2}])
def test_a_claim_has_one_value_or_bounds(bounds: dict[str, Any], run: Run, notes: Notes) -> None:
    expected = "claim it: give equals=, or at_least= and/or at_most="
    assert complaint(lambda: run.claim("it", 1, **bounds)) == expected
    assert notes.out == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_json_has_no_name_for_is_written_in_words(value: float, run: Run, notes: Notes) -> None:
    assert run.claim("ratio", value, at_least=0, at_most=1) is False
    assert notes.out[0]["measured"] == str(value)


def test_what_is_too_large_or_too_deep_to_report_is_refused(run: Run, notes: Notes) -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert complaint(lambda: run.figure("all", endless)) == "what is nested deeper than 32 times cannot be reported"
    assert complaint(lambda: run.figure("all", "x" * LARGEST_NOTE)).startswith("figure all has 1048635 octets")
    assert notes.out == []
    run.failed(ValueError("x" * 10_000_000))
    assert len(notes.out[0]["message"]) == 10_000


# Phases, lateness, failure


def test_a_measuring_phase_is_marked_at_both_ends(run: Run, clock: Clock, notes: Notes) -> None:
    clock.now += 10
    with run.measuring():
        assert notes.out == [{"note": "phase", "phase": "measuring", "begins": True, "t": 10}]
        clock.now += 90
    assert notes.out[1:] == [{"note": "phase", "phase": "measuring", "begins": False, "t": 100}]


def test_traffic_is_marked_unless_the_experiment_marks_what_counts(run: Run, notes: Notes) -> None:
    with run.traffic_is_running():
        pass
    with run.measuring(), run.traffic_is_running():
        pass
    marks = [(note["phase"], note["begins"]) for note in notes.out]
    assert marks == [("traffic", True), ("traffic", False), ("measuring", True), ("measuring", False)]


def test_a_measuring_phase_ends_with_an_error_in_it(run: Run, notes: Notes) -> None:
    with pytest.raises(RuntimeError), run.measuring():
        raise RuntimeError
    assert [note["begins"] for note in notes.out] == [True, False]


def test_lateness_of_agents_and_the_exception_that_ends_the_run_go_out(run: Run, notes: Notes) -> None:
    run.agent_lateness(1234)
    run.failed(ZeroDivisionError("division by zero"))
    assert notes.out == [
        {"note": "agent_lateness", "worst_ns": 1234},
        {"note": "failure", "type": "ZeroDivisionError", "message": "division by zero"},
    ]


def test_a_package_that_the_lab_lacks_is_named_with_the_option_that_brings_it(run: Run, notes: Notes) -> None:
    run.failed(ModuleNotFoundError("No module named 'numpy.linalg'", name="numpy.linalg"))
    assert notes.out[0]["message"] == (
        "No module named 'numpy.linalg'; --with numpy brings a package that the lab lacks"
    )


# The event log


def test_the_event_log_is_there_from_the_start(run: Run) -> None:
    assert events(run) == []


def test_events_have_the_labs_time_and_are_written_at_once(run: Run, clock: Clock) -> None:
    clock.now += 3
    run.event("network started", hosts=4)
    assert events(run) == [{"t": 3, "event": "network started", "hosts": 4}]
    clock.now += 1
    run.event("pause", delay=Duration("3.3us"), classes=(3, 4))
    assert events(run)[1:] == [{"t": 4, "event": "pause", "delay": "3.3us", "classes": [3, 4]}]


def test_two_runs_may_write_the_same_log(run: Run, clock: Clock) -> None:
    other = Run(7, clock.now, run.directory, Notes())
    for number in range(3):
        run.event("one", number=number)
        other.event("other", number=number)
    assert [(e["event"], e["number"]) for e in events(run)] == [
        (who, number) for number in range(3) for who in ("one", "other")
    ]


@pytest.mark.parametrize("field", ["t", "event"])
def test_a_field_cannot_take_the_place_of_an_events_time_or_name(field: str, run: Run) -> None:
    try:
        run.event("pause", **{field: "mine"})
    except (UsageError, TypeError):
        assert events(run) == []
    else:
        assert (events(run)[0]["t"], events(run)[0]["event"]) == (0, "pause")


def test_the_networks_of_a_run_write_one_log_and_no_events_make_no_file(run: Run, clock: Clock) -> None:
    run.lines("nothing.jsonl", [])
    for name in ("the first network", "the second"):
        clock.now += 1_000
        run.lines("dcbx.jsonl", [{"t_ns": clock.now, "port": name}])
    assert [json.loads(line) for line in (run.directory / "dcbx.jsonl").read_text().splitlines()] == [
        {"lab_ns": 1_000, "port": "the first network"},
        {"lab_ns": 2_000, "port": "the second"},
    ]
    assert not (run.directory / "nothing.jsonl").exists()


# What can be reported


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (0.1, 0.1),
        ("text", "text"),
        ((1, (2,)), [1, [2]]),
        ({1: {"a": ()}}, {"1": {"a": []}}),
        (Rate("25Gb/s"), "25Gb/s"),
        (Length("50km"), "50km"),
        (Size("9216B"), "9216B"),
        (Scale(1000), "x1000"),
        ({Duration("1ms"): Size("1B")}, {"1ms": "1B"}),
    ],
)
def test_values_become_what_json_can_hold(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    assert type(plain(value)) is type(expected)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_json_values_stay_as_they_are(value: Any) -> None:
    assert plain(value) == value


@pytest.mark.parametrize("value", [{1}, b"octets", object(), [1, [b""]]])
def test_anything_else_is_refused(value: Any) -> None:
    assert complaint(lambda: plain(value)).endswith("cannot be reported; numbers, texts, lists and units can")


def test_what_is_refused_is_shown() -> None:
    assert complaint(lambda: plain(b"x")) == "b'x' cannot be reported; numbers, texts, lists and units can"


def test_what_flows_ask_for_is_on_the_board_by_the_runs_clock(clock: Clock, notes: Notes, tmp_path: Path) -> None:
    board = Board()
    run = Run(7, clock.now, tmp_path, notes, board=board)
    run.demands(1, Demand(clock.now + 5, 20, {"udp": 1}, {}))
    run.demands(2, Demand(clock.now + 7, 30))
    assert [one["begin_ns"] for one in json.loads(board.news() or b"")] == [5, 7]
    run.demands(1, None)
    assert [one["begin_ns"] for one in json.loads(board.news() or b"")] == [7]
    assert notes.out == []
    run.sets_up(12)
    assert notes.out == [{"note": "set_up", "nodes": 12, "t": 0}]


# What others have published


@pytest.mark.parametrize(
    ("published", "measured", "passed"),
    [
        ((100, "5%"), 95, True),
        ((100, "5%"), 105, True),
        ((100, "5%"), 106, False),
        ((Rate("10Gb/s"), "2.5%"), Rate("9.75Gb/s"), True),
        ((Rate("10Gb/s"), "2.5%"), Rate("9.74Gb/s"), False),
        ((Duration("1ms"), Duration("10us")), Duration("1010us"), True),
        ((Duration("1ms"), Duration("10us")), Duration("1011us"), False),
        ((Rate("0b/s"), 0), Rate("0b/s"), True),
        ((Rate("0b/s"), 0), Rate("1b/s"), False),
        ((5, 0), 5, True),
    ],
)
def test_what_was_published_is_a_claim_within_its_tolerance(
    published: tuple[Any, Any], measured: Any, passed: bool, run: Run, notes: Notes
) -> None:
    value, within = published
    run.published("x", measured, value=value, within=within, source="a book")
    assert [(note["note"], note["name"], note["passed"]) for note in notes.out] == [("claim", "x", passed)]


def test_what_was_published_without_a_tolerance_is_a_figure(run: Run, notes: Notes, clock: Clock) -> None:
    run.published("x", Size("5B"), value=Size("7B"), source="a book", differs="its cables")
    run.published("y", 1, value=1, within=0, source="a paper")
    assert [(note["note"], note["name"]) for note in notes.out] == [("figure", "x"), ("claim", "y")]
    run.write_rest()
    lines = [json.loads(line) for line in (run.directory / PUBLISHED_LOG).read_text().splitlines()]
    found = [published_of(line) for line in lines]
    assert found == [
        Published("x", 7, 5, "B", None, "a book", "its cables"),
        Published("y", 1, 1, "", "0", "a paper", ""),
    ]
    assert [one.texts for one in found if one] == [("7B", "5B", "not claimed"), ("1", "1", "exactly")]


@pytest.mark.parametrize(
    ("value", "within", "said"),
    [
        (1, "5", "published x: within is '5'; write a part of the value such as '5%'"),
        (Rate("1Gb/s"), 5, "published x: within is 5 and the value Rate('1Gb/s'); give both the same unit"),
    ],
)
def test_a_tolerance_that_is_none_is_refused(value: Any, within: Any, said: str, run: Run) -> None:
    assert complaint(lambda: run.published("x", value, value=value, within=within, source="")) == said
