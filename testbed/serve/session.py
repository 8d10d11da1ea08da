"""The actions of viewers in a session, and the session as an experiment file that does the same again.

An action is a control that the lab has carried out; it has the moment of the lab at which it was taken. The file has
topology, actions and length as literals, and calls `testbed/net/live/replay.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from testbed.units import Duration

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
