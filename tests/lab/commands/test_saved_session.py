"""A saved session of the live view is an experiment: it does the same controls at the same times of the lab."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from testbed.lab.engines.engine import PreparedEngine
from testbed.serve.commands import Session

MS = 1_000_000
ROOT = Path(__file__).parents[3]
TRAFFIC = {
    "do": "traffic",
    "source": "h1,h2",
    "target": "r",
    "priority": 3,
    "rate": "",
    "transport": "udp",
    "ecn": False,
}
ACTIONS: list[tuple[int, dict[str, Any]]] = [
    (100 * MS, TRAFFIC),
    (1000 * MS, {"do": "pfc", "port": "s1-eth1", "priority": 3, "on": False}),
    (1800 * MS, {"do": "pfc", "port": "s1-eth1", "priority": 3, "on": True}),
    (
        1900 * MS,
        {"do": "ecn", "port": "s1-eth3", "priority": 3, "on": True, "kmin": "20kB", "kmax": "80kB", "pmax": "20%"},
    ),
    (2000 * MS, {"do": "cable", "port": "s1-eth2", "on": False}),
    (2100 * MS, {"do": "cable", "port": "s1-eth2", "on": True}),
    (2200 * MS, {"do": "kill", "node": "s1", "speaker": False}),
    (2400 * MS, {"do": "stop"}),
]


def saved(folder: Path, actions: list[tuple[int, dict[str, Any]]]) -> Path:
    session = Session("incast,2")
    for t_ns, command in actions:
        session.add(t_ns, command, "")
    file = folder / "session.py"
    file.write_text(session.as_experiment(2500 * MS), encoding="utf-8")
    return file


def run(file: Path, out: Path) -> tuple[int, dict[str, Any], list[dict[str, Any]]]:
    """Run a saved file as a user does, and return the exit status, the figures and the events."""
    ran = subprocess.run(
        [sys.executable, "-m", "testbed", "run", str(file), "--out", str(out), "--json"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    (result,) = json.loads(ran.stdout)
    events = [json.loads(line) for line in (out / "session-001" / "events.jsonl").read_text().splitlines()]
    return ran.returncode, {one["name"]: one["value"] for one in result["figures"]}, events


def test_each_control_acts_at_its_time(ready: PreparedEngine, tmp_path: Path) -> None:
    status, figures, events = run(saved(tmp_path, ACTIONS), tmp_path / "out")
    assert status == 0
    answers = list(figures.values())
    assert answers[:6] == [
        "h1, h2 to r on priority 3: started",
        "PFC of priority 3 at s1-eth1 is off",
        "PFC of priority 3 at s1-eth1 is on",
        "ECN of priority 3 at s1-eth3 is on",
        "the cable of s1-eth2 is out",
        "the cable of s1-eth2 is in",
    ]
    assert answers[6].startswith("the agent of s1, process ") and "h1 to r: " in answers[7]
    begun = next(one["t"] for one in events if one["event"] == "action") - 100 * MS
    taken = [one["t"] - begun for one in events if one["event"] == "action"]
    assert [abs(one - due) < 2 * MS for one, (due, _) in zip(taken, ACTIONS, strict=True)] == [True] * 8, taken
    paused = [one["t"] - begun for one in events if one["event"] == "xoff_sent" and one["port"] == "s1-eth1"]
    drops = [one["t"] - begun for one in events if one["event"] == "drop" and one["port"] == "s1-eth1"]
    assert any(100 * MS < t < 1000 * MS for t in paused) and not any(1010 * MS < t < 1800 * MS for t in paused)
    assert drops and min(drops) > 1000 * MS, "without PFC frames are dropped"
    died = [one["t"] - begun for one in events if one["event"] == "agent_died"]
    assert died and 2200 * MS <= min(died) < 2300 * MS


def test_a_control_that_cannot_be_carried_out_fails_its_claim(ready: PreparedEngine, tmp_path: Path) -> None:
    status, figures, _ = run(saved(tmp_path, [(100 * MS, {"do": "stop"})]), tmp_path / "out")
    assert status == 1 and list(figures.values()) == ["there is no traffic"]


def test_storms_and_thresholds_act_and_are_taken_back(ready: PreparedEngine, tmp_path: Path) -> None:
    actions: list[tuple[int, dict[str, Any]]] = [
        (100 * MS, TRAFFIC),
        (300 * MS, {"do": "storm", "port": "r-eth0", "priority": 3, "on": True}),
        (9000 * MS, {"do": "undo"}),
        (9300 * MS, {"do": "xoff", "node": "s1", "xoff": "20"}),
        (9500 * MS, {"do": "undo"}),
        (9600 * MS, {"do": "stop"}),
        (9700 * MS, {"do": "undo"}),
        (9900 * MS, {"do": "stop"}),
    ]
    session = Session("incast,2")
    for t_ns, command in actions:
        session.add(t_ns, command, "")
    file = tmp_path / "session.py"
    file.write_text(session.as_experiment(10_000 * MS), encoding="utf-8")
    status, figures, events = run(file, tmp_path / "out")
    answers = list(figures.values())
    assert (status, answers[1:5]) == (
        0,
        [
            "r-eth0 pauses priority 3 of its peer",
            "undone: r-eth0 pauses no longer priority 3 of its peer",
            "s1 sends XOFF above 20",
            "undone: s1 sends XOFF above 50%",
        ],
    )
    assert answers[6] == "undone: h1, h2 to r on priority 3: started"
    begun = next(one["t"] for one in events if one["event"] == "action") - 100 * MS
    paused = [one["t"] - begun for one in events if one["event"] == "xoff_received" and one["port"] == "s1-eth3"]
    going_on = [one["t"] - begun for one in events if one["event"] == "xon_received" and one["port"] == "s1-eth3"]
    # An XOFF of the longest pause lasts 3.355 s on a line of 10 Mb/s, and comes again after the half of it.
    assert [round((one - paused[0]) / 1e6) for one in paused] == [0, 1678, 3355, 5033, 6711, 8389]
    assert len(going_on) == 1 and abs(going_on[0] - 9000 * MS) < 2 * MS
    assert not any(one["event"] == "pause_expired" and one["port"] == "s1-eth3" for one in events)

    assert run(file, tmp_path / "again") == (status, figures, events)
    first, again = (
        json.loads((tmp_path / name / "session-001" / "result.json").read_text()) for name in ("out", "again")
    )
    assert again["digest"] == first["digest"]


def test_what_cannot_be_undone_says_so_and_the_next_undo_is_of_what_was_before(
    ready: PreparedEngine, tmp_path: Path
) -> None:
    actions: list[tuple[int, dict[str, Any]]] = [
        (100 * MS, {"do": "cable", "port": "s1-eth2", "on": False}),
        (200 * MS, {"do": "kill", "node": "s1", "speaker": False}),
        (300 * MS, {"do": "undo"}),
        (400 * MS, {"do": "undo"}),
        (500 * MS, {"do": "undo"}),
    ]
    status, figures, _ = run(saved(tmp_path, actions), tmp_path / "out")
    answers = list(figures.values())
    assert status == 1 and answers[2].startswith("this cannot be undone: the agent of s1, process ")
    assert answers[3:] == ["undone: the cable of s1-eth2 is in", "there is nothing to undo"]


def test_a_session_is_refused_over_several_kernels(ready: PreparedEngine, tmp_path: Path) -> None:
    file = saved(tmp_path, [(100 * MS, {"do": "stop"})])
    file.write_text(
        file.read_text(encoding="utf-8").replace("incast,2", "leaf-spine,2,2,2,length=1km"), encoding="utf-8"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "testbed", "run", str(file), "--out", str(tmp_path / "out"), "--partitions", "2"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode != 0
    assert "a session runs on one kernel" in ran.stderr and "run it without --partitions" in ran.stderr
