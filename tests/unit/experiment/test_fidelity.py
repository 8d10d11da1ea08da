"""The verdict on fidelity: a lab that was short of CPU, or late, reports it."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import UsageError
from testbed.experiment.fidelity import WINDOW_NS, Fidelity, Thresholds, Verdict, judge
from testbed.experiment.output import Sample

DEFAULT = Thresholds()
MS = 1_000_000


def looks(*idle_percent: float, late_ns: dict[int, int] | None = None, tick_ns: int = 0) -> list[Sample]:
    """Looks on the dot with so much idle time in the windows between them, some of them late."""
    idle = accumulate((int(percent * WINDOW_NS / 100) for percent in idle_percent), initial=0)
    late = late_ns or {}
    return [Sample(n * WINDOW_NS, late.get(n, 0), total, tick_ns) for n, total in enumerate(idle)]


def verdict(samples: list[Sample], *phases: tuple[int, int], agent: int | None = None) -> Fidelity:
    return judge(samples, phases, agent, DEFAULT)


def test_idle_time_in_every_window_and_no_lateness_is_kept() -> None:
    assert verdict(looks(80, 1, 30), agent=20) == Fidelity(Verdict.KEPT, (), 3, 1.0, 0, 20, DEFAULT)


def test_one_busy_window_degrades_the_run() -> None:
    found = verdict(looks(90, 0.5, 90))
    assert (found.verdict, found.windows, found.idle_percent) == (Verdict.DEGRADED, 3, 0.5)
    assert found.reasons == (
        "the CPU was busy: a window of 100 ms had 0.5 % idle time, 1 % are required; "
        "a larger scale or less traffic helps",
    )


@pytest.mark.parametrize(
    ("late_ns", "expected"),
    [(MS, ()), (MS + 1, ("a timer was 1.000001ms late, 1ms are allowed",)),
     (3 * MS // 2, ("a timer was 1.5ms late, 1ms are allowed",))],
)  # fmt: skip
def test_a_timer_may_be_as_late_as_the_threshold_and_no_later(late_ns: int, expected: tuple[str, ...]) -> None:
    found = verdict(looks(50, 50, late_ns={1: late_ns, 2: 7}))
    assert found.timer_late_ns == late_ns
    assert found.reasons == expected
    assert found.verdict is (Verdict.DEGRADED if expected else Verdict.KEPT)


@pytest.mark.parametrize(("late_ns", "expected"), [(MS, ()), (2 * MS, ("an agent was 2ms late, 1ms are allowed",))])
def test_an_agent_may_be_as_late_as_the_threshold_and_no_later(late_ns: int, expected: tuple[str, ...]) -> None:
    found = verdict(looks(50), agent=late_ns)
    assert found.agent_late_ns == late_ns
    assert found.reasons == expected
    assert found.verdict is (Verdict.DEGRADED if expected else Verdict.KEPT)


def test_all_that_went_wrong_is_reported() -> None:
    found = verdict(looks(0, late_ns={1: 2 * MS}), agent=3 * MS)
    assert [reason.partition(" was ")[0] for reason in found.reasons] == ["the CPU", "a timer", "an agent"]


@pytest.mark.parametrize("samples", [[], looks()], ids=["no look", "one look"])
def test_a_run_without_a_whole_window_is_unknown(samples: list[Sample]) -> None:
    reason = "no window of 100 ms was measured"
    assert verdict(samples) == Fidelity(Verdict.UNKNOWN, (reason,), 0, None, None, None, DEFAULT)


def test_a_late_agent_degrades_a_run_without_a_whole_window() -> None:
    assert verdict([], agent=2 * MS).verdict is Verdict.DEGRADED


def test_only_windows_inside_a_measuring_phase_count() -> None:
    # Busy and late before and after the phase; idle and on time in its three windows.
    samples = looks(0, 40, 30, 20, 0, late_ns={1: 5 * MS, 5: 5 * MS})
    assert verdict(samples, (WINDOW_NS, 4 * WINDOW_NS)) == Fidelity(Verdict.KEPT, (), 3, 20.0, 0, None, DEFAULT)


def test_a_window_partly_outside_of_the_phase_does_not_count() -> None:
    samples = looks(0, 40, 0)
    assert verdict(samples, (WINDOW_NS - 1, 2 * WINDOW_NS + 1)).windows == 1
    assert verdict(samples, (WINDOW_NS + 1, 2 * WINDOW_NS)).verdict is Verdict.UNKNOWN
    assert verdict(samples, (WINDOW_NS, 2 * WINDOW_NS - 1)).verdict is Verdict.UNKNOWN


def test_every_measuring_phase_counts() -> None:
    samples = looks(50, 0, 30)
    first, last = (0, WINDOW_NS), (2 * WINDOW_NS, 3 * WINDOW_NS)
    assert (verdict(samples, first, last).windows, verdict(samples, first, last).idle_percent) == (2, 30.0)


def test_a_window_longer_than_it_should_be_is_judged_by_its_length() -> None:
    samples = [Sample(0, 0, 0), Sample(3 * WINDOW_NS, 0, 3 * WINDOW_NS // 2)]
    assert verdict(samples).idle_percent == 50.0


@given(st.lists(st.integers(0, 100), min_size=1), st.integers(0, 100))
def test_the_window_with_the_least_idle_time_decides(idle: list[int], wanted: int) -> None:
    found = judge(looks(*idle), [], None, Thresholds(idle_percent=wanted))
    assert found.idle_percent == min(idle)
    assert (found.verdict is Verdict.DEGRADED) == (min(idle) < wanted)


# Idle time that is counted in ticks of 10 ms, ten of which are in a window


def ticks(*idle_percent: int, wanted: int = 2, phases: tuple[tuple[int, int], ...] = ()) -> Fidelity:
    return judge(looks(*idle_percent, tick_ns=10 * MS), phases, None, Thresholds(idle_percent=wanted))


def test_a_window_whose_ticks_all_met_work_is_no_proof_of_a_busy_cpu() -> None:
    found = ticks(*[10] * 5, *[0] * 4, *[10] * 5)
    assert (found.verdict, found.idle_percent) == (Verdict.KEPT, 0.0)


def test_idle_time_counts_there_only_if_more_of_it_is_asked_for_than_usual() -> None:
    assert ticks(*[0] * 20, wanted=1).verdict is Verdict.KEPT
    late = judge(looks(0, 0, late_ns={1: 2 * MS}, tick_ns=10 * MS), (), None, Thresholds())
    assert late.reasons == ("a timer was 2ms late, 1ms are allowed",)


def test_fifty_ticks_in_a_row_without_an_idle_one_are() -> None:
    found = ticks(*[10] * 5, *[0] * 5, *[10] * 5)
    assert found.verdict is Verdict.DEGRADED
    assert found.reasons == (
        "the CPU was busy: 500ms, in which the kernel looked 50 times, had 0 % idle time, 2 % are required; "
        "a larger scale or less traffic helps",
    )


def test_the_more_idle_time_is_required_the_fewer_ticks_show_it() -> None:
    assert ticks(50, 0, 50, wanted=5).verdict is Verdict.KEPT
    assert ticks(50, 0, 0, 50, wanted=5).verdict is Verdict.DEGRADED
    assert ticks(50, 0, 50, wanted=10).verdict is Verdict.DEGRADED
    assert ticks(0, 0, wanted=0).verdict is Verdict.KEPT


def test_a_stretch_too_short_for_so_many_ticks_counts_as_it_is() -> None:
    assert ticks(0, 0, 0).verdict is Verdict.DEGRADED
    assert ticks(0, 0, 10).verdict is Verdict.KEPT


def test_windows_of_two_phases_are_not_joined() -> None:
    apart = ((0, 8 * WINDOW_NS), (9 * WINDOW_NS, 12 * WINDOW_NS))
    assert ticks(*[10, 0, 0, 0] * 2, 90, 0, 0, 0, phases=apart).verdict is Verdict.DEGRADED
    assert ticks(*[10, 0, 0, 0] * 2, 90, 0, 0, 10, phases=apart).verdict is Verdict.KEPT


def test_a_verdict_is_explained_by_its_reasons() -> None:
    assert verdict(looks(50)).explained == "kept"
    assert verdict(looks()).explained == "unknown (no window of 100 ms was measured)"
    assert verdict(looks(0)).explained.startswith("degraded (the CPU was busy: ")


def test_the_verdict_as_json_has_everything() -> None:
    assert verdict(looks(0.25), agent=7).as_json() == {
        "verdict": "degraded",
        "reasons": [
            "the CPU was busy: a window of 100 ms had 0.25 % idle time, 1 % are required; "
            "a larger scale or less traffic helps"
        ],
        "windows": 1,
        "idle_percent": 0.25,
        "timer_late_ns": 0,
        "agent_late_ns": 7,
        "thresholds": {"idle_percent": 1, "timer_late_ns": MS, "agent_late_ns": MS},
    }


# Thresholds


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("idle=5%", Thresholds(5, MS, MS)),
        ("idle=0", Thresholds(0, MS, MS)),
        ("idle=100%", Thresholds(100, MS, MS)),
        ("timer=200us", Thresholds(1, 200_000, MS)),
        ("agent=2ms", Thresholds(1, MS, 2 * MS)),
    ],
)
def test_a_setting_changes_its_threshold_and_no_other(setting: str, expected: Thresholds) -> None:
    assert DEFAULT.changed(setting) == expected


def test_settings_add_up() -> None:
    changed = DEFAULT.changed("idle=3%").changed("timer=3us").changed("agent=4us")
    assert changed == Thresholds(3, 3000, 4000)
    assert changed.changed("timer=5us").changed("idle=6%") == Thresholds(6, 5000, 4000)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("idle=101%", "idle takes 0% to 100%"),
        ("idle=-1%", "idle takes 0% to 100%"),
        ("idle=much", "idle takes 0% to 100%"),
        ("idle=", "idle takes 0% to 100%"),
        ("idle", "idle takes 0% to 100%"),
        ("timer=5", "'5' is not a duration: it has no unit (ps, ns, us, ms, s); write for example '3.3us'"),
        ("agent=soon", "'soon' is not a duration: it does not start with a number; write for example '3.3us'"),
        ("jitter=1us", "there are idle=5%, timer=200us and agent=200us"),
        ("", "there are idle=5%, timer=200us and agent=200us"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_with_what_would(setting: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        DEFAULT.changed(setting)
    assert str(caught.value) == f"--fidelity {setting}: {message}"
