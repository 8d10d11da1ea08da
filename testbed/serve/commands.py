"""Commands of viewers: controls of the lab and of its pace. Anything else is refused here, before it reaches the
lab.

The actions of viewers in a session, and the session as an experiment file that does the same again.

An action is a control that the lab has carried out; it has the moment of the lab at which it was taken. The file has
topology, actions and length as literals, and calls `testbed/net/live/replay.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.errors import UsageError, nearest
from testbed.units import Duration

LONGEST = 2000
"""The most octets of one message."""


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 100 and value.isprintable()


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _speed(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < 10**6


_Fields = Mapping[str, Callable[[Any], bool]]
CONTROLS: dict[str, _Fields] = {
    "traffic": {
        "source": _text,
        "target": _text,
        "priority": _number,
        "rate": _text,
        "transport": _text,
        "frame": _text,
        "ecn": _flag,
    },
    "stop": {"flow": _number},
    "cable": {"port": _text, "on": _flag},
    "delay": {"port": _text, "delay": _text},
    "pfc": {"port": _text, "priority": _number, "on": _flag},
    "ecn": {"port": _text, "priority": _number, "on": _flag, "kmin": _text, "kmax": _text, "pmax": _text},
    "storm": {"port": _text, "priority": _number, "on": _flag},
    "xoff": {"node": _text, "xoff": _text, "xon_offset": _number},
    "kill": {"node": _text, "speaker": _flag},
    "undo": {},
}
"""The controls of the lab (`testbed/net/live/controls.py`), with the fields of each."""
_OPTIONAL = {"rate", "transport", "frame", "ecn", "flow", "kmin", "kmax", "pmax", "speaker", "xon_offset"}
PACE: dict[str, _Fields] = {"pace": {"speed": _speed}, "pause": {"on": _flag}, "step": {}}


def read(text: str) -> dict[str, Any]:
    """Read a command, which has the key `do` and the fields of that control and no others."""
    if len(text) > LONGEST:
        raise UsageError(f"a command of {len(text)} characters is too long; {LONGEST} is the most")
    try:
        command = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError("a command is a JSON object, and this is none") from None
    if not isinstance(command, dict) or not isinstance(command.get("do"), str):
        raise UsageError('a command is a JSON object with "do", as in {"do": "stop"}')
    known = CONTROLS | PACE
    name = command["do"]
    if name not in known:
        raise UsageError(f"there is no control {name[:40]}; {nearest(name[:40], known)}")
    fields = known[name]
    for key, value in command.items():
        if key == "do":
            continue
        if key not in fields:
            raise UsageError(f"{name} has no {key[:40]}")
        if not fields[key](value):
            raise UsageError(f"{name}: {key} is {str(value)[:40]!r}, which it cannot be")
    for key in fields:
        if key not in command and key not in _OPTIONAL:
            raise UsageError(f"{name} takes {key}, and there is none")
    return command


FILE = "session.py"
_MOST = 10_000
_SPARE_S = 60
"""The seconds of the lab beyond a session's length after which its replay has failed."""
_TEXT = '''"""A session of xoff serve, saved: the same controls at the same times of the lab.

    ./xoff run {file}               what each control did is a figure, and that it was carried out a claim
    ./xoff run {file} --series 10us --report

Times are the lab's, from the start of the network. Change, add or remove actions as you like.
"""

from testbed.net.live.replay import replay
from xoff import Run, experiment

TOPOLOGY = {topology!r}
ACTIONS = [
{actions}]
LASTS = {lasts!r}


@experiment(timeout={timeout!r})
def session(run: Run) -> None:
    """A session of the live view, again."""
    replay(run, TOPOLOGY, ACTIONS, lasts=LASTS)
'''


@dataclass(frozen=True)
class Action:
    """A control that was carried out."""

    t_ns: int
    """The moment of the lab at which it was taken."""
    command: dict[str, Any]
    text: str
    """The answers of the lab."""


@dataclass
class Session:
    """The actions of a session, in the order of their times."""

    topology: str
    actions: list[Action] = field(default_factory=list)

    def add(self, t_ns: int, command: dict[str, Any], text: str) -> Action:
        """Add an action that was carried out."""
        action = Action(t_ns, command, text)
        if len(self.actions) < _MOST:
            self.actions.append(action)
        return action

    def as_experiment(self, end_ns: int) -> str:
        """Return the file of an experiment that does the same again, up to this moment of the lab."""
        last_ns = max([end_ns, *(action.t_ns for action in self.actions)])
        actions = "".join(
            f"    ({str(Duration.from_ns(max(0, action.t_ns)))!r}, {action.command!r}),\n" for action in self.actions
        )
        return _TEXT.format(
            file=FILE, topology=self.topology, actions=actions, lasts=str(Duration.from_ns(max(0, last_ns))),
            timeout=f"{last_ns // 10**9 + _SPARE_S}s",
        )  # fmt: skip
