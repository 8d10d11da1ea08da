"""What holds at a node while it has no agent, because that is dead and its successor is not there yet.

A dead agent neither obeys PAUSE nor sends it, and frames of lossless priorities would be lost for want of both. So its
parent stops every queue of a lossless priority, and sends XOFF for all of them by every port whose buffer can become
congested. The successor finds in shared memory which pauses are left, ends the others, and sends XON for what is not
congested. Until then a pause that is over lasts somewhat longer.
"""

from __future__ import annotations

from collections.abc import Callable

from testbed.agent.pfc.port import ENABLED, SHARED
from testbed.agent.plan import AgentPlan, PortPlan
from testbed.frames.mac_control import PfcFrame
from testbed.pfc import PRIORITIES_IN


class PauseFailsafe:
    """The ports of one node."""

    def __init__(
        self,
        plan: AgentPlan,
        shared: memoryview[int],
        request: Callable[[bytes], object],
        send: Callable[[PortPlan, bytes], object],
    ) -> None:
        """`shared` has what a pause of each priority stops (`port.py`), SHARED octets for each slot. `request` sends a
        netlink request in the node's network, and `send` a frame by a port.
        """
        self._ports, self._shared = plan.ports, shared
        self._request, self._send = request, send

    def hold(self) -> None:
        """Let no frame of a lossless priority leave, and have none sent to this node."""
        for port in self._ports:
            if queues := self._queues(port):  # the kernel refuses an empty request
                self._request(b"".join(port.stop[queue] for queue in PRIORITIES_IN[queues]))
        for port in self._ports:
            if port.charged:
                self._tell(port, port.pfc.pause_quanta)

    def let_go(self) -> None:
        """There will be no successor: nothing stays stopped, here or at the far ends."""
        for port in self._ports:
            self._request(b"".join(port.go))
            if port.charged:
                self._tell(port, 0)

    def _queues(self, port: PortPlan) -> int:
        """The queues of the priorities for which PFC is on at this moment, as a mask."""
        at, queues = port.slot * SHARED, 0
        for priority in PRIORITIES_IN[self._shared[at + ENABLED]]:
            queues |= self._shared[at + priority]
        return queues

    def _tell(self, port: PortPlan, quanta: int) -> None:
        if enabled := PRIORITIES_IN[self._shared[port.slot * SHARED + ENABLED]]:
            self._send(port, PfcFrame.of(port.mac, dict.fromkeys(enabled, quanta)).encode())
