"""The table of events, and the log that is written and read by it."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.agent import event_log
from testbed.agent.events import EVENTS, AgentEvent, SwitchEvent
from testbed.switch.pfc.record import Ignored, PfcEvent

DOCS = Path(__file__).parents[3] / "docs" / "events.md"
PORTS = {5: "s1-eth1"}


@pytest.mark.parametrize(
    ("record", "kind", "priorities", "detail"),
    [
        ((1, AgentEvent.DROP, 5, 0b1000, 2 << 32 | 1514), "drop", (3,), {"reason": "threshold", "octets": 1514}),
        ((1, AgentEvent.QUEUE_STOPPED, 5, 0b1000, 36_000), "queue_stopped", (3,), {"reaction_ns": 36_000}),
        ((1, AgentEvent.SEND_FAILED, 5, 0, 19), "send_failed", (), {"error": "No such device"}),
        ((1, AgentEvent.FRAME_SENT, 5, 0b1000, 27_000), "frame_sent", (3,), {"reaction_ns": 27_000}),
        ((1, AgentEvent.THRESHOLD, 5, 0b1000, 80), "threshold", (3,), {"shared_cells": 80}),
        ((1, AgentEvent.AGENT_DIED, 5, 0, 9), "agent_died", (), {"status": 9}),
        ((1, AgentEvent.QUEUE_EMPTIED, 5, 0b1000, 0), "queue_emptied", (3,), {}),
        ((1, PfcEvent.XOFF_SENT, 5, 0b11000, 65535), "xoff_sent", (3, 4), {"quanta": 65535}),
        ((1, PfcEvent.PAUSE_EXPIRED, 5, 0b1000, 17_000), "pause_expired", (3,), {"late_ns": 17_000}),
        ((1, PfcEvent.PAUSE_RESTORED, 5, 0b1000, 10**9), "pause_restored", (3,), {"left_ns": 10**9}),
        ((1, PfcEvent.STORM_DETECTED, 5, 0b1000, 10**8), "storm_detected", (3,), {"paused_ns": 10**8}),
        ((1, PfcEvent.STORM_ENDED, 5, 0b1000, 10**8), "storm_ended", (3,), {"lasted_ns": 10**8}),
        ((1, PfcEvent.RELIEVED, 5, 0b1000, 0), "relieved", (3,), {}),
        ((1, PfcEvent.IGNORED, 5, 0, Ignored.GLOBAL_PAUSE), "ignored", (), {"reason": "global_pause"}),
        ((1, AgentEvent.SR_INSTALLED, 5, 0, 1), "sr_installed", (), {"what": "tunnel"}),
        ((1, AgentEvent.SR_REMOVED, 5, 0, 2), "sr_removed", (), {"what": "vpn"}),
        ((1, AgentEvent.SR_REMOVED, 5, 0, 3), "sr_removed", (), {"what": 3}),
        ((1, PfcEvent.IGNORED, 9, 0b100, Ignored.NOT_ENABLED), "ignored", (2,), {"reason": "not_enabled"}),
    ],
)
def test_a_logged_record_is_decoded_by_the_table(
    record: tuple[int, int, int, int, int], kind: str, priorities: tuple[int, ...], detail: dict[str, object]
) -> None:
    event = event_log.decoded(record, PORTS)
    port = PORTS.get(record[2], "")  # one that is gone has no name
    assert (event.kind, event.port, event.priorities, event.detail) == (kind, port, priorities, detail)


RECORDS = st.builds(
    lambda time_ns, kind, slot, mask, value: (time_ns, kind, slot, mask, value),
    st.integers(10**9, 2**63),
    st.sampled_from([*PfcEvent, *AgentEvent]),
    st.sampled_from([5, 9, 11]),
    st.sampled_from([0, 0b1000, 0xFF]),
    st.integers(0, 10) | st.integers(0, 3 << 32 | 9216),
)


@given(st.lists(RECORDS, max_size=30))
def test_lines_of_the_event_log_have_the_fields_of_the_decoded_events(records: list[event_log.Record]) -> None:
    ports = PORTS | {11: 'h%d-"eth"%'}
    parsed = [json.loads(line) for line in event_log.lines(records, ports, 10**9)]
    expected = [event_log.decoded(record, ports) for record in records]
    assert parsed == [
        {"t": event.lab_ns - 10**9, "event": event.kind, "port": event.port, "priorities": list(event.priorities)}
        | event.detail
        for event in expected
    ]


def test_a_log_outlives_a_record_cut_short() -> None:
    file = event_log.new()
    whole = event_log.RECORD.pack(7, PfcEvent.XON_SENT, 5, 8, 0)
    with open(file, "r+b", buffering=0) as memory:
        memory.write(whole + whole[:5])
        assert list(event_log.read(file)) == [(7, PfcEvent.XON_SENT, 5, 8, 0)]


def test_a_mapped_log_is_read_while_it_is_written_and_goes_on_with_its_next_writer() -> None:
    file = event_log.new()
    first = event_log.MappedLog(file)
    written = []
    for number in range(3):
        written.append((number, PfcEvent.XON_SENT, 5, 8, -number))
        first.add(*written[-1])
        assert list(event_log.read(file)) == written
    successor = event_log.MappedLog(file)
    successor.add(7, PfcEvent.XON_SENT, 5, 8, 0)
    assert list(event_log.read(file, 2 * event_log.RECORD.size)) == [written[2], (7, PfcEvent.XON_SENT, 5, 8, 0)]


def test_a_mapped_log_grows() -> None:
    file, records = event_log.new(), 2 * (1 << 20) // event_log.RECORD.size
    log = event_log.MappedLog(file)
    for number in range(records):
        log.add(number, PfcEvent.XON_SENT, 5, 8, 0)
    event_log.MappedLog(file).add(records, PfcEvent.XON_SENT, 5, 8, 0)
    assert [time_ns for time_ns, *_ in event_log.read(file)] == list(range(records + 1))


def test_a_mapped_log_has_no_part_of_a_record_that_was_not_finished() -> None:
    file = event_log.new()
    log = event_log.MappedLog(file)
    log.add(7, PfcEvent.XON_SENT, 5, 8, 0)
    with pytest.raises(struct.error):  # as if the process died in the middle: the record's last field does not fit
        log.add(8, PfcEvent.XON_SENT, 5, 8, 1 << 64)
    assert list(event_log.read(file)) == [(7, PfcEvent.XON_SENT, 5, 8, 0)]
    event_log.MappedLog(file).add(9, PfcEvent.XON_SENT, 5, 8, 0)
    assert [time_ns for time_ns, *_ in event_log.read(file)] == [7, 9]


def test_names_of_events_are_unique_and_texts_have_places_for_their_fields_alone() -> None:
    assert (
        len({event.name for event in EVENTS.values()})
        == len(EVENTS)
        == len(PfcEvent) + len(AgentEvent) + len(SwitchEvent)
    )
    for event in EVENTS.values():
        places = re.findall(r"{(\w+)}", event.text)
        assert sorted(places) == sorted(field.name for field in event.fields), event.name


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ((1_500_000_000, PfcEvent.XOFF_SENT, 5, 0b11000, 65535), "s1-eth1 priority 3,4: XOFF sent, 65535 quanta"),
        ((1_500_000_000, AgentEvent.DROP, 5, 8, 1514), "s1-eth1 priority 3: frame of 1514 octets dropped: headroom"),
        ((1_500_000_000, AgentEvent.AGENT_STARTED, 5, 0, 77), "s1-eth1: agent started"),
        ((1_500_000_000, AgentEvent.AGENT_DIED, 9, 0, 9), "-: agent or speaker died, status 9"),
    ],
)
def test_a_line_of_the_text_log_has_time_port_priorities_and_text(record: event_log.Record, text: str) -> None:
    assert str(event_log.decoded(record, {5: "s1-eth1"})) == f"1.500000000 {text}"


def test_the_page_about_events_lists_all_of_them_with_their_fields() -> None:
    rows = {cells[1]: cells for line in DOCS.read_text().splitlines() if len(cells := line.split(" | ")) == 4}
    expected = {}
    for code, event in EVENTS.items():
        fields = "; ".join(f"`{field.name}`: {field.meaning}" for field in event.fields) or "-"
        text = re.sub(r"{(\w+)}", r"*\1*", event.text)
        expected[f"`{event.name}`"] = [f"| {code}", f"`{event.name}`", text, f"{fields} |"]
    del rows["event"]
    assert rows == expected
