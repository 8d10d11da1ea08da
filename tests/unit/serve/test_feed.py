"""Messages to viewers about the lines of a lab, and the pace of the lab's time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.cli.first_steps import serve
from testbed.errors import UsageError
from testbed.experiment.output import Record, RecordKind, Sample
from testbed.serve.feed import KEPT_NS, Feed
from testbed.serve.running import RunningLab
from tests.live_lab import ScriptedSession, described, scripted, window
from tests.report_folders import HOSTILE, MS

XOFF = [20 * MS, "xoff_received", "h1-eth0", [3], {"quanta": 65535}]
XON = [50 * MS, "xon_received", "h1-eth0", [3], {}]


def rows_of(feed: Feed, messages: list[dict[str, Any]]) -> dict[tuple[str, str], list[list[int]]]:
    """Return the rows that a viewer has after all messages, by panel and port."""
    tracks: list[dict[str, Any]] = []
    rows: dict[tuple[str, str], list[list[int]]] = {}
    for message in messages:
        tracks += message.get("tracks", [])
        for number, t_ns, value in message["rows"]:
            rows.setdefault((tracks[number]["panel"], tracks[number]["port"]), []).append([t_ns, value])
    return rows


def test_a_pause_is_open_until_its_end_and_then_an_interval() -> None:
    feed = Feed(described())
    first = feed.update([window(30 * MS, events=[XOFF])])
    assert first is not None and first["rows"] == []
    assert [(first["tracks"][n]["panel"], start) for n, start in first["open"]] == [("paused", 20 * MS)]
    assert [panel["title"] for panel in first["panels"]] == ["Pauses"]
    second = feed.update([window(60 * MS, events=[XON])])
    assert second is not None and second["open"] == []
    assert rows_of(feed, [first, second]) == {("paused", "h1-eth0"): [[20 * MS, 50 * MS]]}


def test_a_viewer_that_comes_later_has_what_the_others_have() -> None:
    feed = Feed(described())
    early = [
        feed.update([window(30 * MS, events=[XOFF], loads=[[20 * MS, "h1-eth0", 10**7]])]),
        feed.update([window(60 * MS, events=[XON], buffers=[[40 * MS, "s1-eth1", 3, 0, 301, 5]])]),
        feed.update([window(70 * MS, events=[[65 * MS, *XOFF[1:]]], marks=[[64 * MS, "s1-eth2", 7]])]),
    ]
    snapshot = feed.snapshot()
    late = {
        (track["panel"], track["port"]): [list(row) for row in zip(track["t"], track["v"], strict=True)]
        for track in snapshot["tracks"]
        if track["t"]
    }
    assert late == rows_of(feed, [one for one in early if one])
    assert late["occupancy", "s1-eth1"] == [[40 * MS, 301]] and late["series:ECN marks", "s1-eth2"] == [[64 * MS, 7]]
    assert snapshot["open"] == early[-1]["open"] != []  # type: ignore[index]
    assert snapshot["t_ns"] == 70 * MS


def test_rates_of_flows_are_those_of_frames_that_arrived() -> None:
    feed = Feed(described())
    flow = {"flow": 1, "group": 1, "source": "h1", "target": "h2", "frame": 1226}
    feed.update([{"live": "state", "t_ns": 0, "state": {"flows": [flow]}}])
    message = feed.update([window(100 * MS, flows=[[0, 1, 10, 0], [50 * MS, 1, 90, 50], [100 * MS, 1, 90, 60]])])
    assert message is not None
    (track,) = message["tracks"]
    assert track["label"] == "h1 to h2 (1)" and track["unit"] == "b/s"
    assert [row[2] for row in message["rows"]] == [50 * 1250 * 8 * 20 * 1000, 10 * 1250 * 8 * 20 * 1000], (
        "at scale 1000"
    )
    silent = feed.update([window(500 * MS)])
    assert silent is not None and [row[2] for row in silent["rows"]] == [0]


def test_states_are_sent_once_and_taken_back_when_they_have_gone() -> None:
    feed = Feed(described())
    state = {"states": {"h1-eth0 PFC": "oper 3"}}
    first = feed.update([{"live": "state", "t_ns": 5, "state": state}])
    again = feed.update([{"live": "state", "t_ns": 6, "state": state}])
    last = feed.update([{"live": "state", "t_ns": 7, "state": {"states": {}}}])
    assert first and first["states"] == [[5, "h1-eth0 PFC", "oper 3"]]
    assert again and again["states"] == []
    assert last and last["states"] == [[7, "h1-eth0 PFC", ""]]


def test_old_rows_are_let_go() -> None:
    feed = Feed(described())
    for second in range(300):
        rows = [[second * 10**9 + step, "h1-eth0", second + step] for step in range(3)]
        feed.update([window((second + 1) * 10**9, loads=rows)])
    (track,) = feed.snapshot()["tracks"]
    assert track["t"][0] >= 299 * 10**9 - 2 * KEPT_NS
    assert track["v"][-1] == 301


def test_hostile_words_are_cut_and_have_no_control_characters() -> None:
    feed = Feed(described())
    message = feed.update(
        [{"text": HOSTILE * 100}, window(5, events=[[1, "drop", HOSTILE * 9, [3], {"reason": HOSTILE}]])]
    )
    assert message is not None
    ((_, words, _),) = message["words"]
    assert len(words) < 500 and "\x1b" not in words
    (track,) = message["tracks"]
    assert len(track["port"]) < 130 and "\x1b" not in track["port"] + track["label"]


# The lab's time


def sampled(session: ScriptedSession, number: int) -> None:
    session.record(Record(RecordKind.SAMPLE, Sample(number * 10**8, 0, 0).encode()))


def test_the_lab_goes_on_after_as_much_of_our_time_as_the_speed_gives(tmp_path: Path) -> None:
    session, live = scripted(tmp_path)
    lab: RunningLab = live.lab
    sampled(session, 1)
    lab.lines(10.0)
    assert session.continued == 1
    sampled(session, 2)
    lab.lines(10.05)
    assert session.continued == 1, "100 ms of its time take 100 ms of ours"
    lab.lines(10.1)
    assert session.continued == 2
    lab.pace(speed=10.0)
    sampled(session, 3)
    lab.lines(10.101)
    assert session.continued == 3


def test_a_lab_that_is_paused_stands_and_steps(tmp_path: Path) -> None:
    session, live = scripted(tmp_path)
    live.lab.pace(paused=True)
    for number in range(1, 4):
        sampled(session, number)
        live.lab.lines(number * 10.0)
    assert session.continued == 0
    live.lab.step()
    live.lab.lines(50.0)
    live.lab.lines(60.0)
    assert session.continued == 1
    live.lab.pace(paused=False)
    sampled(session, 5)
    live.lab.lines(70.0)
    assert session.continued == 2


def test_a_pace_that_cannot_be_is_refused(tmp_path: Path) -> None:
    _, live = scripted(tmp_path)
    with pytest.raises(UsageError, match=r"it is 0\.001 to 100"):
        live.lab.pace(speed=1000.0)
    live.lab.has_pace = False
    with pytest.raises(UsageError, match="its pace cannot be changed"):
        live.lab.pace(paused=True)


def test_why_a_lab_has_ended(tmp_path: Path) -> None:
    session, live = scripted(tmp_path)
    session.record(Record(RecordKind.NOTE, b'{"note": "failure", "type": "UsageError", "message": "no such host"}'))
    session.record(Record.of(RecordKind.END, {"virtual_ns": 1, "status": "error", "reason": "exit code 1"}))
    live.lab.lines(1.0)
    assert live.lab.ended == "UsageError: no such host"


def test_a_cable_is_pulled_from_one_time_to_another() -> None:
    """The page looks back over the last minute, so it needs the times of both."""
    feed = Feed(described())

    def ports(*pulled: str) -> dict[str, Any]:
        return {"ports": {name: {"cable": name not in pulled} for name in ("h1-eth0", "s1-eth1", "h2-eth0")}}

    messages = [
        feed.update([{"live": "state", "t_ns": t_ns, "state": state}])
        for t_ns, state in ((MS, ports()), (2 * MS, ports("h1-eth0", "s1-eth1")), (3 * MS, {}), (4 * MS, ports()))
    ]
    out = [[2 * MS, "h1-eth0", "pulled"], [2 * MS, "s1-eth1", "pulled"]]
    back = [[3 * MS, "h1-eth0", ""], [3 * MS, "s1-eth1", ""]]
    assert [message["cables"] for message in messages if message] == [[], out, back, []]
    assert feed.snapshot()["cables"] == out + back


def test_a_lab_that_ends_before_its_network_runs_gives_its_reason_once(tmp_path: Path) -> None:
    session = ScriptedSession(tmp_path)
    reason = "topology incast,x: Incast: n is 'x'; a whole number, 1 or more, is expected"
    session.write("a line of before", f"incast,x: {reason}")
    session.record(Record.of(RecordKind.NOTE, {"note": "failure", "type": "UsageError", "message": reason}))
    session.record(Record.of(RecordKind.END, {"reason": "exit code 2"}))
    with pytest.raises(UsageError) as caught:
        serve._network_of(RunningLab("incast,x", session, session.stream.open("rb"), 1.0, True))
    assert str(caught.value) == f"{reason}\n  a line of before"
