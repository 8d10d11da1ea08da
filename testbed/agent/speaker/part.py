"""Parts of a speaker: what a subject does in it, beside the node's PFC agent.

The plan of a part (`agent/plan.py:PartPlan`) is made before the speaker is forked. The part gets what the speaker
has: the port program, the buffer, orders to the agent, the logs. It waits for nothing itself: the speaker calls it when
one of its files is readable, when its deadline has passed, and when a link or the PFC agent has news.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from testbed.agent.orders import NoticeType
from testbed.agent.speaker.node_buffer import NodeBuffer
from testbed.agent.speaker.outputs import OrderSocket, SpeakerLog
from testbed.linux.netlink.messages import Socket
from testbed.linux.port_program import PortProgram
from testbed.units import NEVER


class Notice(NamedTuple):
    """News of the PFC agent: a measurement frame that came in, or a group that is congested or has room again."""

    what: NoticeType
    slot: int
    priority: int
    arrived_ns: int
    effective_ns: int
    frame: bytes


@dataclass(frozen=True)
class Services:
    """The means that a speaker gives its parts."""

    program: PortProgram
    netlink: Socket
    orders: OrderSocket
    buffer: NodeBuffer
    log: SpeakerLog
    changed: Callable[[], None]
    """Called when what a successor has to know has changed."""


class Part:
    """A subject's part of one speaker. A part that has none of these things leaves the method out."""

    @property
    def files(self) -> Mapping[int, Callable[[int], None]]:
        """The function to call, with the time, for each file that is readable."""
        return {}

    @property
    def deadline_ns(self) -> int:
        return NEVER

    @property
    def notes(self) -> Any:
        """The state that a successor takes over; None if there is none."""
        return None

    def start(self, up: Mapping[int, bool], now_ns: int) -> None:
        """Begin, or continue for a predecessor. `up` has the links by interface: True for those with a carrier."""

    def expire(self, now_ns: int) -> None:
        """Do what is due."""

    def link(self, interface: int, is_up: bool, now_ns: int) -> None:
        """Note that a link has a carrier, or has lost it."""

    def notice(self, notice: Notice) -> None:
        """Take news of the PFC agent."""

    def answer(self, verb: str, argument: Any, now_ns: int) -> dict[str, Any]:
        """Answer a question of the network's own process; UsageError if it cannot be answered."""
        raise NotImplementedError(verb)

    def snapshot(self) -> Any:
        """Return the state, as data that JSON can have."""
        return None

    def measured(self) -> dict[str, Any]:
        """Return the measured headroom of each port that measures it for this part (`HeadroomMeasurements`)."""
        return {}
