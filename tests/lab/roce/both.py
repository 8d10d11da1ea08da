"""One end of a RoCE queue pair in Python and in the C of the kernel's library, of which everything is compared."""

from __future__ import annotations

import ctypes
import socket
from dataclasses import asdict
from pathlib import Path
from typing import Any

from testbed.frames import roce
from testbed.frames.roce import Service
from testbed.frames.roce_cm import CM_QP
from testbed.linux import roce_device
from testbed.linux.roce_device import C, ends
from testbed.roce import in_kernel, rates
from testbed.roce.memory import Content, Scattered, Sink, Words, content_block
from testbed.roce.nic import NicTiming
from testbed.roce.queue_pair import QueuePair, State
from testbed.roce.rates.base import RateControl
from testbed.roce.rates.dcqcn import Dcqcn
from testbed.roce.services.receives import Receives
from testbed.roce.services.unreliable_responder import UnreliableResponder
from testbed.roce.settings import RoceError, Settings, Timing
from testbed.roce.source_port import from_number
from testbed.roce.work import AddressHandle, Operation, Work
from testbed.units import Line, Scale

from . import own_rate

ADDRESSES = (("10.0.0.1", "10.0.0.2"), ("fd00::1", "2001:db8::2"))
SCALE = Scale(1000)
RESTS = (48, 63)
"""The DSCPs of rests."""
KEYS = tuple(range(roce_device.FIRST_KEY, roce_device.FIRST_KEY + 4))
"""The keys of the content, of the sink, of words, and of memory that is there to be invalidated."""
WORDS = 8
SEEDS = 1, 2
OPERATIONS = {
    Operation.WRITE: roce_device.WRITE, Operation.READ: roce_device.READ, Operation.SEND: roce_device.SEND,
    Operation.COMPARE_SWAP: roce_device.COMPARE_SWAP, Operation.FETCH_ADD: roce_device.FETCH_ADD,
}  # fmt: skip
SERVICES = list(Service)
"""The services by their numbers in enum xr_service."""
Q_KEY = 0x11


class Compiled:
    """A queue pair of the library."""

    def __init__(
        self, library: Any, settings: Settings, given: Any, own: RateControl | None, receives: Any = None
    ) -> None:
        """`receives` is a `struct xr_receives` of several, or None."""
        self._library, self._own = library, own
        self._told = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(C.xr_event))(self._tell)
        self._error: BaseException | None = None
        kept = C.xr_settings(**in_kernel.settings(settings, Timing.of(settings, SCALE), RESTS))
        self._block = ctypes.create_string_buffer(content_block() * 2, 2 * len(content_block()))
        self._handles: dict[AddressHandle, Any] = {}
        shared = None if receives is None else ctypes.byref(receives)
        self._pair = ctypes.c_void_p(
            library.xl_new(ctypes.byref(kept), ctypes.byref(given), self._block, self._told, shared)
        )
        self._rate = C.xr_rate.from_address(library.xl_rate(self._pair))
        self._room = ctypes.create_string_buffer(512 * 4200)
        self._lengths = (ctypes.c_uint32 * 512)()

    def _tell(self, pair: int, event: Any) -> None:
        assert self._own is not None
        try:
            own_rate.tell(self._own, told := event.contents, self._rate, stamps_of(told))
        except BaseException as error:  # ctypes would only print it
            self._error = error

    def transmit(self, now_ns: int, most: int) -> list[bytes]:
        """Datagrams, or with `most` 0 the notification."""
        many = self._library.xl_transmit(self._pair, ctypes.c_int64(now_ns), most, self._room, self._lengths)
        found, at = [], 0
        octets = ctypes.string_at(self._room, sum(self._lengths[:many]))
        for length in self._lengths[:many]:
            found.append(octets[at : at + length])
            at += length
        return found

    def receive(self, datagram: bytes, ds_field: int, now_ns: int) -> str | None:
        refused = self._library.xl_receive(self._pair, datagram, len(datagram), ds_field, ctypes.c_int64(now_ns))
        return in_kernel.REFUSALS[refused - 1] if refused else None

    def post(self, work: Work, region: int, now_ns: int) -> bool:
        immediate, invalidate = (-1 if one is None else one for one in (work.immediate, work.invalidate))
        u64 = ctypes.c_uint64
        return bool(
            self._library.xl_post(
                self._pair, OPERATIONS[work.operation], u64(work.length), u64(work.local_address),
                u64(work.remote_address), work.r_key, region, ctypes.c_int64(immediate),
                ctypes.c_int64(invalidate), u64(work.data), u64(work.compare), self._handle(work.to),
                ctypes.c_int64(now_ns),
            )
        )  # fmt: skip

    def _handle(self, to: AddressHandle | None) -> Any:
        if to is None:
            return None
        if to not in self._handles:
            packed = socket.inet_pton(socket.AF_INET6 if ":" in to.address else socket.AF_INET, to.address)
            address = (ctypes.c_uint8 * 16)(*packed)
            self._handles[to] = C.xr_handle(address=address, number=to.queue_pair, q_key=to.q_key)
        return ctypes.byref(self._handles[to])

    def cnp(self, now_ns: int) -> None:
        self._library.xl_cnp(self._pair, ctypes.c_int64(now_ns))

    @property
    def deadline_ns(self) -> int:
        found: int = self._library.xl_deadline(self._pair)
        return found

    def state(self) -> tuple[Any, tuple[float, ...], list[int]]:
        """Return the report, rate, target, alpha and gradient, and the words."""
        if self._error is not None:
            raise self._error
        report, rate, words = C.xr_report(), (ctypes.c_double * 4)(), (ctypes.c_uint64 * WORDS)()
        self._library.xl_state(self._pair, ctypes.byref(report), rate, words)
        return report, tuple(rate), list(words)

    def end(self) -> None:
        self._library.xl_end(self._pair)


class Both:
    """One end of a connection, in Python and in C, of which everything is compared."""

    def __init__(
        self,
        library: Any,
        place: int,
        addresses: tuple[str, str],
        settings: Settings,
        line: Line,
        *,
        choice: Any,
        nic: NicTiming,
        service: Service = Service.RC,
        message: int = 0,
        shared: tuple[Receives, Any] | None = None,
    ) -> None:
        """`message` is the length of the messages of an unreliable service, and `shared` a shared receive queue."""
        near, far = addresses[place], addresses[1 - place]
        number, far_number = 0x100 + place, 0x101 - place
        self.content = Content(SEEDS[0])
        is_reliable = service is Service.RC
        self.sink = Sink(content=Content(SEEDS[0])) if is_reliable else Scattered(Content(SEEDS[0]))
        self.service, self.message, self._shared = service, message, shared
        self.writes = False
        """True if an unreliable connection fills the memory of this end by writes."""
        self.words = Words(WORDS)
        self._arguments = library, number, far_number, near, far, settings, line, choice, nic

    def start(self, first: int, far_first: int) -> None:
        library, number, far_number, near, far, settings, line, choice, nic = self._arguments
        rate = rates.control(choice, line)
        self.pair = QueuePair(
            number, far, roce.Path(near, far, from_number(number)), first=first, settings=settings,
            timing=Timing.of(settings, SCALE), rate=rate, nic=nic, service=self.service, q_key=Q_KEY,
            receives=self._shared[0] if self._shared else None,
            memory=dict(zip(KEYS, (self.content, self.sink, self.words, Content(0, 0)), strict=True)),
        )  # fmt: skip
        self.pair.responder.receive_into = self.sink
        if isinstance(self.pair.responder, UnreliableResponder):
            self.pair.responder.place_by_number(self.message)
        self.pair.established(far_number, first, far_first, roce.Path(far, near, from_number(far_number)))
        self.own = None if rate.in_kernel() else rates.control(choice, line)
        kind = rate.in_kernel() or (own_rate.KIND, own_rate.numbers(rate))
        self.compiled = Compiled(library, settings, C.xr_add(
            number=number, far_number=far_number, first=first, far_first=far_first, **ends(near, far),
            port=from_number(number), far_port=from_number(far_number),
            content=self.content.start, line_bps=line.rate.bps, rate=roce_device.rate(*kind),
            nic=C.xr_nic(**nic.numbers()), service=SERVICES.index(self.service), q_key=Q_KEY, message=self.message,
        ), self.own, self._shared[1] if self._shared else None)  # fmt: skip

    def transmit(self, now_ns: int, most: int) -> list[bytes]:
        notification = self.pair.notification(now_ns)
        found = [notification] if notification else []
        assert self.compiled.transmit(now_ns, 0) == found
        data = self.pair.transmit(now_ns, most)
        assert self.compiled.transmit(now_ns, most) == data
        self.compare()
        return found + data

    def receive(self, datagram: bytes, ds_field: int, now_ns: int) -> None:
        refused: str | None = None
        try:
            packet = roce.parse(datagram)
            if packet.opcode == roce.Opcode.DATAGRAM and packet.destination_qp <= CM_QP:
                return  # connection management, which the kernel leaves to the process
            if self.pair.state is State.FAILED:
                refused = "queue_pair_not_ready"
            elif self.pair.far_path is None or not self.pair.far_path.intact(datagram):
                refused = roce.RoceReason.BAD_ICRC
            elif not roce.is_of(packet.opcode, self.service):
                refused = roce.RoceReason.OTHER_SERVICE
            else:
                self.pair.receive(packet, ds_field & 3 == 3, now_ns)
        except roce.RocePacketError as error:
            refused = error.reason
        if refused is not None and ds_field >> 2 in RESTS and self.pair.takes_rest(datagram):
            refused = roce.RoceReason.TRIMMED
        assert self.compiled.receive(datagram, ds_field, now_ns) == refused
        self.compare()

    def post(self, work: Work, region: int, now_ns: int) -> bool:
        """Post a work in both; False if there are as many as a flow has."""
        if self.pair.requester.outstanding >= 64:
            return False
        try:
            self.pair.post(work, now_ns)
        except RoceError:  # the service has no such work
            assert not self.compiled.post(work, region, now_ns)
            return False
        assert self.compiled.post(work, region, now_ns)
        return True

    def compare(self) -> None:
        pair, rate = self.pair, self.pair.rate
        report, numbers, words = self.compiled.state()
        assert words == self.words.words
        assert report.counters.values() == asdict(pair.counters)
        assert report.received == self.sink.received
        assert bool(report.as_expected) is self.sink.is_as_expected
        assert report.packets == pair.requester.outstanding
        assert in_kernel.failure((report.failure.why, *getattr(report.failure, "with"))) == pair.failure
        assert bool(report.failure.why) is (pair.state is State.FAILED)
        assert numbers[0] == rate.rate_lab_bps
        if self.own is not None:
            assert {**vars(self.own), "line": 0} == {**vars(rate), "line": 0}
        elif isinstance(rate, Dcqcn):
            assert numbers[1:3] == (rate.target_lab_bps, rate.alpha)
        assert self.compiled.deadline_ns == pair.deadline_ns
        pair.requester.completed.clear()


def stamps_of(event: Any) -> bytes:
    return ctypes.string_at(event.stamps, 16 * event.stamps_count) if event.stamps else b""


def load(file: Path) -> Any:
    found = ctypes.CDLL(str(file))
    found.xl_new.restype = found.xl_rate.restype = ctypes.c_void_p
    found.xl_deadline.restype = ctypes.c_int64
    return found
