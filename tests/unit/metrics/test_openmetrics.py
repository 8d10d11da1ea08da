"""The text of OpenMetrics: exact lines, escapes and times, which the parser of prometheus_client reads back."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed

from testbed.metrics import names
from testbed.metrics.names import EXPORTED, Exposition
from testbed.metrics.openmetrics import Family, Kind, render


def test_a_counter_has_its_type_unit_and_help_and_times_in_seconds() -> None:
    family = Family("paused_seconds", Kind.COUNTER, 'Time "off",\nas a \\ shows.', "seconds")
    family.add({"port": 'a"b\\c\nd'}, 0, 1_500_000_000)
    family.add({"port": 'a"b\\c\nd'}, 0.25, 1_500_000_001)
    family.add({}, 2.0, -1)
    text = render([family, Family("empty", Kind.GAUGE, "Nothing.")])
    assert text == (
        "# TYPE paused_seconds counter\n"
        "# UNIT paused_seconds seconds\n"
        '# HELP paused_seconds Time \\"off\\",\\nas a \\\\ shows.\n'
        'paused_seconds_total{port="a\\"b\\\\c\\nd"} 0 1.5\n'
        'paused_seconds_total{port="a\\"b\\\\c\\nd"} 0.25 1.500000001\n'
        "paused_seconds_total 2 -0.000000001\n"
        "# EOF\n"
    )
    (found,) = parsed(text)
    assert (found.name, found.type, found.unit) == ("paused_seconds", "counter", "seconds")
    assert [one.value for one in found.samples] == [0, 0.25, 2]
    assert found.samples[0].labels == {"port": 'a"b\\c\nd'}
    assert found.samples[1].timestamp is not None and float(found.samples[1].timestamp) == 1.500000001


def test_an_info_and_what_is_no_character_are_written() -> None:
    family = Family("net", Kind.INFO, "A network.")
    family.add({"topology": "a\ud800b"}, 1)
    assert render([family]).splitlines()[2:] == ['net_info{topology="a?b"} 1', "# EOF"]


@pytest.mark.parametrize(
    ("name", "unit"), [("9a", ""), ("a-b", ""), ("a_total", ""), ("", ""), ("a_info", ""), ("a_bytes", "seconds")]
)
def test_a_name_that_openmetrics_does_not_allow_is_refused(name: str, unit: str) -> None:
    with pytest.raises(ValueError, match=r"is no name of a family|does not end with its unit"):
        Family(name, Kind.COUNTER, "", unit)


def test_wrong_values_times_and_labels_are_refused() -> None:
    family = Family("a", Kind.COUNTER, "")
    family.add({"x": "1"}, 1, 5)
    for value, t_ns, labels in ((-1, None, {}), (float("nan"), None, {}), (2, 5, {"x": "1"}), (2, None, {"x": "1"})):
        with pytest.raises(ValueError, match="a"):
            family.add(labels, value, t_ns)
    for label in ("__name", "a-b", ""):
        with pytest.raises(ValueError, match="label"):
            Family("a", Kind.GAUGE, "").add({label: ""}, 1)
    with pytest.raises(ValueError, match="two families"):
        render([Family("a", Kind.GAUGE, ""), Family("a", Kind.GAUGE, "")])


def test_every_family_has_a_name_of_its_own_and_a_counter_of_sonic_once() -> None:
    assert len({one.name for one in EXPORTED}) == len(EXPORTED)
    sonic = [one.sonic for one in EXPORTED if one.sonic]
    assert len(set(sonic)) == len(sonic)
    assert all(re.fullmatch(r"(SAI|PFC)_([A-Z0-9_]|\{(priority|counter)\})+", one) for one in sonic)
    for one in EXPORTED:
        Family(one.name, one.kind, one.help, one.unit)
        assert {name for _, name, _, _ in Formatter().parse(one.sonic) if name} <= {"priority", "counter"}
        assert one.help.endswith(".")


def test_the_name_that_sonic_has_is_a_label_with_the_priority_in_it() -> None:
    into = Exposition({"result": "r"})
    into.add(names.PFC_RECEIVED, 7, None, {"port": "s1-eth1", "priority": "3"})
    (line,) = [line for line in render(into.families).splitlines() if not line.startswith("#")]
    assert line == (
        'xoff_pfc_received_frames_total{result="r",port="s1-eth1",priority="3",sonic="SAI_PORT_STAT_PFC_3_RX_PKTS"} 7'
    )


def test_a_value_that_stays_comes_again_after_a_while_and_at_the_end() -> None:
    into = Exposition(repeated_after_ns=100)
    added = [
        into.add(names.STORMS, value, t_ns, {"priority": "3"}, is_last)
        for value, t_ns, is_last in ((0, 0, False), (0, 50, False), (1, 60, False), (1, 170, False), (1, 171, True))
    ]
    assert added == [True, False, True, True, True]


def test_the_page_names_every_family_and_its_counter_of_sonic() -> None:
    page = (Path(__file__).parents[3] / "docs/telemetry.md").read_text()
    for one in EXPORTED:
        sonic = f"`{one.sonic.replace('{priority}', 'n')}`" if one.sonic else "-"
        assert f"| `{one.sample}` | {sonic} | {one.help.rstrip('.')} |" in page


def test_a_label_gives_no_orders_to_a_terminal() -> None:
    family = Family("ports", Kind.GAUGE, "Ports \x1b[2J", "")
    family.add({"port": 's1\x1b]0;owned\x07\r\x9b31m\n"\\'}, 1)
    text = render([family])
    assert text.replace("\n", "").isprintable()
    assert 'ports{port="s1\\\\x1b]0;owned\\\\x07\\\\r\\\\x9b31m\\n\\"\\\\"} 1\n' in text
