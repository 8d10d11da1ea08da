"""The requester of an unreliable service: writes and sends over an unreliable connection (UC), or datagrams (UD).

Nothing is acknowledged. A work is complete when its last packet has been sent, so there is no window, no timer and
nothing that is sent again. A datagram is one packet, to the queue pair that its address handle names.

Runs in C: `testbed/lab/um/linux/xoff_roce_user.c`.
"""

from __future__ import annotations

from typing import Any

from testbed.frames.roce import Deth, Opcode, Packet, Service
from testbed.roce.requester import Completed, Posted, Requester, Run
from testbed.roce.settings import RoceError
from testbed.roce.work import Operation, Work
from testbed.units import NEVER

_DATAGRAM, _DATAGRAM_IMMEDIATE = Opcode.DATAGRAM, Opcode.DATAGRAM_IMMEDIATE


class UnreliableRequester(Requester):
    """Works of one queue pair of an unreliable service."""

    service = Service.UC

    def __init__(self, *arguments: Any, number: int = 0, q_key: int = 0, **keywords: Any) -> None:
        """`number` is that of the queue pair, and `q_key` that of the far end, both for datagrams alone."""
        super().__init__(*arguments, **keywords)
        self._number, self._q_key = number, q_key

    @property
    def ready_ns(self) -> int:
        return NEVER if self.failure or not self._works else max(self._resume_ns, self._works[0].ready_ns)

    def run(self, now_ns: int, most: int) -> Run | None:
        return None

    def post(self, work: Work, now_ns: int = 0) -> int:
        refuse_other(work, self.service, self._settings.mtu)
        return super().post(work, now_ns)

    def packet(self, now_ns: int) -> Packet:
        posted, number = self._works[0], self._next
        made = self._data(posted, number, now_ns)
        self._next = self._oldest = self._highest = number + 1
        self.counters.fresh += 1
        if self._next == posted.end:
            self._works.popleft()
            self.completed.append(Completed(posted.number, now_ns))
            self.counters.completed += 1
        return made

    def _data(self, posted: Posted, number: int, now_ns: int) -> Packet:
        made = super()._data(posted, number, now_ns)
        return made._replace(opcode=Opcode(Service.UC.opcodes | made.opcode), ack_request=False)


class DatagramRequester(UnreliableRequester):
    """Datagrams of one queue pair."""

    service = Service.UD

    def _data(self, posted: Posted, number: int, now_ns: int) -> Packet:
        work = posted.work
        self.sent_to = to = work.to
        made = super()._data(posted, number, now_ns)
        return made._replace(
            opcode=_DATAGRAM if work.immediate is None else _DATAGRAM_IMMEDIATE,
            destination_qp=made.destination_qp if to is None else to.queue_pair,
            deth=Deth(self._q_key if to is None else to.q_key, self._number),
        )


def refuse_other(work: Work, service: Service, mtu: int) -> None:
    """Refuse a work that a service does not have."""
    operation = work.operation
    has = (Operation.SEND,) if service is Service.UD else (Operation.WRITE, Operation.SEND)
    if operation not in has or work.invalidate is not None:
        what = f"{operation} that invalidates memory" if work.invalidate is not None else operation
        raise RoceError(f"{service} has no {what}; it has {' and '.join(has)} alone; RC has all of them")
    if service is Service.UD and work.length > mtu:
        raise RoceError(f"a datagram of {work.length} octets; it is one packet, so it has up to {mtu}, the MTU")
