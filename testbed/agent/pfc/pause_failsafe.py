"""The pause failsafe: what applies at a node between the death of its PFC agent and the start of the successor.

Without an agent a node neither reacts to PFC frames nor sends any, and frames of lossless priorities would be lost. So
the supervisor stops every queue of a lossless priority, and sends XOFF for all of them on every port whose buffer can
become congested. The successor finds in shared memory which pauses are left, ends the others, and sends XON for what is
not congested. Until then a pause that is over lasts somewhat longer.
"""

from __future__ import annotations

from collections.abc import Callable

from testbed.agent.pfc.port import ENABLED, SHARED
from testbed.agent.plan import AgentPlan, PortPlan
from testbed.frames.mac_control import PfcFrame
from testbed.switch.pfc import PRIORITIES_IN


class PauseFailsafe:
    """The pause failsafe of one node."""

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

    def engage(self) -> None:
        """Stop all lossless traffic of the node, in both directions."""
        for port in self._ports:
            if queues := self._queues(port):  # the kernel refuses an empty request
                self._request(b"".join(port.stop[queue] for queue in PRIORITIES_IN[queues]))
        for port in self._ports:
            if port.has_buffer:
                self._send_to_far_end(port, port.pfc.pause_quanta)

    def release(self) -> None:
        """Resume all queues, here and at the far ends, because there will be no successor."""
        for port in self._ports:
            self._request(b"".join(port.go))
            if port.has_buffer:
                self._send_to_far_end(port, 0)

    def _queues(self, port: PortPlan) -> int:
        """Return the queues of the priorities for which PFC is on at this moment, as a mask."""
        at, queues = port.slot * SHARED, 0
        for priority in PRIORITIES_IN[self._shared[at + ENABLED]]:
            queues |= self._shared[at + priority]
        return queues

    def _send_to_far_end(self, port: PortPlan, quanta: int) -> None:
        if enabled := PRIORITIES_IN[self._shared[port.slot * SHARED + ENABLED]]:
            self._send(port, PfcFrame.of(port.mac, dict.fromkeys(enabled, quanta)).encode())
