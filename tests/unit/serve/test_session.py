"""A saved session is a Python file with the controls as literals, whatever viewers have typed."""

from __future__ import annotations

import ast
from typing import Any

from testbed.serve import commands
from testbed.serve.commands import Action, Session
from testbed.serve.feed import Feed
from tests.report_folders import HOSTILE, MS, network


def literals(source: str) -> dict[str, Any]:
    """Return the constants of a file, which is parsed and not executed."""
    tree = ast.parse(source)
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def test_the_file_has_topology_actions_and_length() -> None:
    session = Session("incast,4,scale=100")
    session.add(1_250_000_001, {"do": "cable", "port": "s1-eth1", "on": False}, "out")
    session.add(2_000_000_000, {"do": "stop"}, "nothing")
    found = literals(session.as_experiment(3_500_000_000))
    assert found["TOPOLOGY"] == "incast,4,scale=100" and found["LASTS"] == "3.5s"
    assert found["ACTIONS"] == [
        ("1.250000001s", {"do": "cable", "port": "s1-eth1", "on": False}),
        ("2s", {"do": "stop"}),
    ]
    assert "@experiment(timeout='63s')" in session.as_experiment(3_500_000_000)
    assert literals(session.as_experiment(0))["LASTS"] == "2s", "not before its last action"
    assert literals(Session("incast").as_experiment(0))["ACTIONS"] == []


def test_what_viewers_type_is_text_in_the_file() -> None:
    session = Session(f"{HOSTILE}\n'''\"\"\"")
    typed = {
        "do": "traffic",
        "source": "h1')]; import os; os.system('x')",
        "target": '"""',
        "priority": 3,
        "rate": "{0}",
    }
    session.add(1, typed, HOSTILE)
    source = session.as_experiment(1)
    found = literals(source)
    assert found["TOPOLOGY"] == session.topology and found["ACTIONS"][0][1] == typed
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert len(imports) == 2


def test_every_control_that_is_admitted_can_be_saved() -> None:
    for text in (
        '{"do": "traffic", "source": "h1", "target": "r", "priority": 3, "ecn": true}',
        '{"do": "kill", "node": "s1", "speaker": true}',
        '{"do": "ecn", "port": "s1-eth1", "priority": 3, "on": true, "kmin": "20kB"}',
    ):
        session, command = Session("incast"), commands.read(text)
        session.add(1, command, "")
        assert literals(session.as_experiment(1))["ACTIONS"][0][1] == command


def test_viewers_get_actions_once_and_those_who_come_later_all_of_them() -> None:
    feed = Feed(network(0, ""))
    assert feed.update([]) is None
    feed.act(Action(5 * MS, {"do": "stop"}, "\x1b[31mstopped"))
    message = feed.update([])
    assert message is not None and message["actions"] == [[5 * MS, "\\x1b[31mstopped"]]
    assert feed.update([]) is None
    assert feed.snapshot()["actions"] == [[5 * MS, "\\x1b[31mstopped"]]
