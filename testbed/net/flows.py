"""Flows of UDP datagrams between hosts, counted datagram by datagram at both ends. Only the lab can import this.

A flow sends as fast as its port lets it, or at a rate. Each datagram has a number, so the receiver knows what is
missing, doubled or out of order without asking the network. What the ends count is independent of the port program.
"""

from __future__ import annotations

import mmap
import multiprocessing
import select
import signal
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import repeat
from operator import sub
from typing import Any

from testbed.ecn.field import Ecn
from testbed.errors import UsageError, XoffError
from testbed.linux import kernel, mmsg
from testbed.net.fabric import Fabric
from testbed.units import Duration, Rate, Size

_NUMBER, _SENT_NS = 0, 1
"""Words of a datagram: its number, and when it was sent."""
_HEADERS = 42
"""Octets of Ethernet, IPv4 and UDP headers in a frame."""
_WIRE = 24
_SHORTEST, _LONGEST = Size("60B"), Size("1514B")
_FIRST_PORT = 20_000
_SO_PRIORITY, _SO_SNDTIMEO, _SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 12, 21, 32, 33
_RECEIVE_BUFFER = 256 << 20
_POLL_S = 0.02
_READY_POLL_S = 0.001
_LEAD_NS = 20_000_000
_BATCH = 32


class FlowError(XoffError):
    """A flow that did not come about."""


class FlowOptionError(FlowError, UsageError):
    """A flow that cannot be."""


@dataclass(frozen=True)
class Flow:
    """One sender and one receiver: hosts' names, or Mininet's objects.

    `frame` is the size of each frame without FCS. Without `rate` the flow takes what its port gives; a rate counts what
    is on the wire. It ends after `count` datagrams or `duration`, or when the run stops it. `start` is when it begins.
    Rates, sizes and times are given as people write them: "4Mb/s", "64B", "1s".
    """

    source: Any
    target: Any
    priority: int
    frame: Size
    rate: Rate | None
    count: int | None
    duration: Duration | None
    start: Duration
    ecn: Ecn | None
    """The ECN field of the datagrams; the receiver then counts what it has become. None: not ECT, and not counted."""
    dscp: int | None
    """DSCP of the datagrams; by default 8 x priority. -1: none, only the socket has the priority."""
    buffer: Size
    """What the sender's socket holds before it waits."""

    def __init__(
        self,
        source: Any,
        target: Any,
        priority: int = 3,
        frame: Size | str = "1514B",
        rate: Rate | str | None = None,
        *,
        count: int | None = None,
        duration: Duration | str | None = None,
        start: Duration | str = "0s",
        ecn: Ecn | None = None,
        dscp: int | None = None,
        buffer: Size | str = "256kB",
    ) -> None:
        try:
            values = {
                "source": source,
                "target": target,
                "priority": priority,
                "frame": Size(frame),
                "rate": None if rate is None else Rate(rate),
                "count": count,
                "duration": None if duration is None else Duration(duration),
                "start": Duration(start),
                "ecn": None if ecn is None else Ecn(ecn),
                "dscp": dscp,
                "buffer": Size(buffer),
            }
        except ValueError as error:  # of units, which name the value, and of Ecn
            raise FlowOptionError(f"flow from {source} to {target}: {error}") from None
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        flow = f"flow from {self.source} to {self.target}"
        for name, value, possible, meaning in (
            ("priority", self.priority, range(8), "0 to 7"),
            ("dscp", self.dscp, range(-1, 64), "0 to 63, or -1 for none"),
            ("count", self.count, range(2**62), "a whole number of datagrams, 0 or more"),
        ):
            if value is not None and (type(value) is not int or value not in possible):
                raise FlowOptionError(f"{flow}: {name} is {value!r}; {meaning} is expected")
        if not _SHORTEST <= self.frame <= _LONGEST:
            raise FlowOptionError(
                f"{flow}: its frames are {self.frame} long; without FCS {_SHORTEST} to {_LONGEST} are possible: the "
                "shortest can be numbered, and the longest needs no fragments"
            )
        if self.rate is not None and not self.rate.bps:
            raise FlowOptionError(
                f"{flow}: a rate of {self.rate} sends nothing; without rate it is what the port takes"
            )
        if self.rate is not None and not self.rate.bps:
            raise UsageError("a flow of 0b/s sends nothing; give a rate above zero, or none for what its port gives")

    @property
    def payload(self) -> int:
        return self.frame.bytes - _HEADERS


@dataclass(frozen=True)
class Report:
    """What became of a flow."""

    sent: int
    received: int
    lost: int
    doubled: int
    out_of_order: int
    ecn: tuple[int, ...]
    """Datagrams by the ECN field that they arrived with, 0 to 3, if the flow has one."""
    octets: int
    """Received, as frames without FCS."""
    first_ns: int
    last_ns: int
    worst_delay_ns: int
    windows: tuple[int, ...]
    """Frames received in each 10 ms from `first_ns` on."""

    @property
    def marked(self) -> int:
        """Datagrams that arrived with ECN's congestion mark."""
        return self.ecn[Ecn.CE]

    @property
    def goodput(self) -> Rate:
        """Received bits on the wire over the time from the first to the last datagram."""
        if self.received < 2:
            return Rate.from_bps(0)
        return Rate.from_bps((self.received - 1) * self._wire_bits * 10**9 // (self.last_ns - self.first_ns))

    def goodput_over(self, begin_ns: int, duration: Duration) -> Rate:
        """Received bits on the wire in whole windows of 10 ms: so many as `duration` has, none before `begin_ns`.

        A window before the flow's first frame counts as one without frames.
        """
        many = duration.ns // WINDOW_NS
        if not many or not self.received:
            return Rate.from_bps(0)
        first = -(-(begin_ns - self.first_ns) // WINDOW_NS)
        frames = sum(self.windows[max(0, first) : max(0, first + many)])
        return Rate.from_bps(frames * self._wire_bits * 10**9 // (many * WINDOW_NS))

    @property
    def _wire_bits(self) -> int:
        return (self.octets // self.received + _WIRE) * 8


WINDOW_NS = 10_000_000


class Flows:
    """Running flows; `with Flows(...) as flows` starts them, and the end of the block stops and counts them."""

    def __init__(self, flows: Sequence[Flow], settle: Duration | str | None = None) -> None:
        """`settle` is how long to wait at the end for what is still on its way, at most."""
        fabric = Fabric.current()
        self._flows = [
            replace(flow, source=fabric.node(flow.source), target=fabric.node(flow.target)) for flow in flows
        ]
        self._settle = Duration("20s") if settle is None else Duration(settle)
        # [0]: senders may run; [1]: receivers may stop; [2]: when the flows begin, 0 as long as somebody is not ready;
        # the rest: which process is ready.
        self._state = mmap.mmap(-1, 8 * (3 + 2 * len(self._flows)))
        self._go = memoryview(self._state).cast("q")
        self._sent = mmap.mmap(-1, 8 * max(1, len(self._flows)))
        self._received = mmap.mmap(-1, 8 * max(1, len(self._flows)))
        self._processes: list[tuple[Any, Any]] = []
        self.reports: list[Report] = []

    def __enter__(self) -> Flows:
        context = multiprocessing.get_context("fork")
        self._go[0] = 1
        targets: dict[str, list[int]] = {}
        for index, flow in enumerate(self._flows):
            targets.setdefault(flow.target.name, []).append(index)
        for indices in targets.values():
            self._fork(context, self._flows[indices[0]].target, self._receive, indices)
        for index, flow in enumerate(self._flows):
            self._fork(context, flow.source, self._send, index)
        while not all(self._go[3 + place] or reader.poll() for place, (_, reader) in enumerate(self._processes)):
            time.sleep(_READY_POLL_S)
        self._go[2] = time.monotonic_ns() + _LEAD_NS
        return self

    def __exit__(self, *failure: object) -> None:
        try:
            if failure[0] is None:
                self.reports = self._finish()
                if fabric := Fabric.running():
                    fabric.lost += sum(report.lost for report in self.reports)
        finally:
            for process, reader in self._processes:
                process.kill()
                process.join()
                reader.close()

    def wait(self) -> None:
        """Until every flow has sent all that it has to."""
        for _, reader in self._processes[-len(self._flows) :]:
            reader.poll(None)

    def sent(self, index: int = 0) -> int:
        """Datagrams sent so far."""
        return int(memoryview(self._sent).cast("q")[index])

    def received(self, index: int = 0) -> int:
        """Datagrams received so far; the receiver looks every 20 ms."""
        return int(memoryview(self._received).cast("q")[index])

    def stop_sending(self) -> None:
        self._go[0] = 0

    def _finish(self) -> list[Report]:
        self.stop_sending()
        senders = self._processes[-len(self._flows) :]
        deadline = time.monotonic() + self._settle.ns / 1e9
        sent: list[int] = []
        for index, (_, reader) in enumerate(senders):
            if not reader.poll(max(0.0, deadline - time.monotonic())):
                sent.append(self.sent(index))  # stopped in the middle: its queue does not move
                continue
            sent.append(_answer(reader))
        quiet_since, before = time.monotonic(), -1
        while time.monotonic() < deadline:
            arrived = sum(self.received(index) for index in range(len(self._flows)))
            if arrived >= sum(sent):
                break
            if arrived != before:
                before, quiet_since = arrived, time.monotonic()
            elif time.monotonic() - quiet_since > self._settle.ns / 2e9:
                break
            time.sleep(_POLL_S)
        self._go[1] = 1
        counted: dict[int, Any] = {}
        for _, reader in self._processes[: -len(self._flows)]:
            counted |= _answer(reader)
        return [self._report(sent[index], counted[index], flow) for index, flow in enumerate(self._flows)]

    @staticmethod
    def _report(sent: int, counted: dict[str, Any], flow: Flow) -> Report:
        distinct = counted["received"] - counted["doubled"]
        return Report(
            sent=sent,
            received=distinct,
            lost=sent - distinct,
            doubled=counted["doubled"],
            out_of_order=counted["out_of_order"],
            ecn=tuple(counted["ecn"]),
            octets=distinct * flow.frame.bytes,
            first_ns=counted["first_ns"],
            last_ns=counted["last_ns"],
            worst_delay_ns=counted["worst_delay_ns"],
            windows=tuple(counted["windows"]),
        )

    def _fork(self, context: Any, node: Any, work: Any, argument: Any) -> None:
        reader, writer = context.Pipe(duplex=False)
        ready = 3 + len(self._processes)

        def body() -> None:
            try:
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started us, and then counts what came
                kernel.die_with_parent()
                kernel.enter_network_of(node.pid)
                writer.send(work(argument, ready))
            except (OSError, XoffError) as error:
                writer.send(f"flow at {node.name}: {error}")
            except Exception as error:
                writer.send(f"flow at {node.name}: {type(error).__name__}: {error}")
            # To end a process takes milliseconds of the lab's only CPU, while others are to send on time.
            signal.pause()

        process = context.Process(target=body, daemon=True)
        process.start()
        writer.close()
        self._processes.append((process, reader))

    # In the sender's process

    def _send(self, index: int, ready: int) -> int:
        flow, go = self._flows[index], self._go
        sent_so_far = memoryview(self._sent).cast("q")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            dscp = 8 * flow.priority if flow.dscp is None else max(0, flow.dscp)
            udp.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2 | (flow.ecn or Ecn.NOT_ECT))
            udp.setsockopt(socket.SOL_SOCKET, _SO_PRIORITY, flow.priority)
            udp.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, flow.buffer.bytes // 2)
            udp.connect((flow.target.IP(), _FIRST_PORT + index))
            batch = mmsg.Sender(udp, flow.payload, 1 if flow.rate else _BATCH)
            most = flow.count if flow.count is not None else 2**62
            gap_ps = flow.rate.time_for(flow.frame + Size.from_bytes(_WIRE)).ps if flow.rate else 0
            number, clock = 0, time.monotonic_ns
            self._number(batch, 0, 1, clock())
            batch.send(0)  # what runs for the first time takes long: the first datagram would be late
            go[ready] = 1
            while not go[2]:
                time.sleep(_READY_POLL_S)
            begin_ns = go[2] + flow.start.ns
            end_ns = begin_ns + flow.duration.ns if flow.duration else 2**62
            time.sleep(max(0, begin_ns - time.monotonic_ns()) / 1e9)
            # A blocked sender looks now and then whether it is over.
            udp.setsockopt(socket.SOL_SOCKET, _SO_SNDTIMEO, struct.pack("=qq", 0, 50_000))
            while number < most and go[0]:
                now_ns = clock()
                if now_ns >= end_ns:
                    break
                if gap_ps:
                    due_ns = begin_ns + number * gap_ps // 1000
                    if due_ns > now_ns:
                        if due_ns >= end_ns:
                            break
                        time.sleep((due_ns - now_ns) / 1e9)
                        now_ns = clock()
                many = min(batch.most, most - number)
                self._number(batch, number, many, now_ns)
                number += batch.send(many)
                sent_so_far[index] = number
            return number

    @staticmethod
    def _number(batch: mmsg.Sender, first: int, many: int, now_ns: int) -> None:
        batch.write(_NUMBER, range(first, first + many), many)
        batch.write(_SENT_NS, repeat(now_ns, many), many)

    # In the receiver's process

    def _receive(self, indices: list[int], ready: int) -> dict[int, dict[str, Any]]:
        sockets = {index: _listener(self._flows[index], _FIRST_PORT + index) for index in indices}
        batches = {index: mmsg.Receiver(udp, _BATCH) for index, udp in sockets.items()}
        counts = {index: _Count(self._flows[index].ecn is not None) for index in indices}
        so_far, go = memoryview(self._received).cast("q"), self._go
        files = list(sockets.values())
        go[ready] = 1
        while True:
            last = bool(go[1])
            readable = select.select(files, (), (), 0)[0]
            for index, udp in sockets.items():
                if udp in readable:
                    counts[index].drain(batches[index])
                    so_far[index] = counts[index].received
            if last:
                break
            time.sleep(_POLL_S)
        return {index: count.plain() for index, count in counts.items()}


def _answer(reader: Any) -> Any:
    """What a process of a flow found; its failure is an error here."""
    try:
        answer = reader.recv()
    except EOFError:
        raise FlowError("a flow's process was killed, so what it counted is not known") from None
    if isinstance(answer, str):
        raise FlowError(answer)
    return answer


class _Count:
    """What arrived of one flow."""

    def __init__(self, wants_ecn: bool) -> None:
        self._wants_ecn = wants_ecn
        self.received = self.doubled = self.out_of_order = 0
        self.ecn = [0] * 4
        self.first_ns = self.last_ns = self.worst_delay_ns = 0
        self._highest = -1
        self._missing: set[int] = set()
        self._window_end_ns = 0
        self._offset_ns = time.time_ns() - time.monotonic_ns()  # the kernel stamps datagrams with the time of day
        self.windows: list[int] = []

    def drain(self, batch: mmsg.Receiver) -> None:
        """Read and count everything that waits; datagrams in order, which most are, are looked at together."""
        while many := batch.receive():
            self.received += many
            numbers, first = batch.words(_NUMBER, many), self._highest + 1
            if numbers == list(range(first, first + many)):
                self._highest += many
            else:
                for number in numbers:
                    self._count(number)
            arrivals = list(map(sub, batch.arrivals(many), repeat(self._offset_ns)))
            self.worst_delay_ns = max(self.worst_delay_ns, *map(sub, arrivals, batch.words(_SENT_NS, many)))
            self.last_ns = arrivals[-1]
            if self.last_ns < self._window_end_ns:
                self.windows[-1] += many
            else:
                for arrived_ns in arrivals:
                    if arrived_ns >= self._window_end_ns:
                        self._next_window(arrived_ns)
                    self.windows[-1] += 1
            if self._wants_ecn:
                for octet in batch.ds_fields(many):
                    self.ecn[octet & 3] += 1

    def _count(self, number: int) -> None:
        """One datagram: the next one, ahead of missing ones, late, or here already."""
        if number > self._highest:
            self._missing.update(range(self._highest + 1, number))
            self._highest = number
        elif number in self._missing:
            self._missing.discard(number)
            self.out_of_order += 1
        else:
            self.doubled += 1

    def _next_window(self, arrived_ns: int) -> None:
        if not self.first_ns:
            self.first_ns = self._window_end_ns = arrived_ns
        while arrived_ns >= self._window_end_ns:
            self._window_end_ns += WINDOW_NS
            self.windows.append(0)

    def plain(self) -> dict[str, Any]:
        names = ("received", "doubled", "out_of_order", "ecn", "first_ns", "last_ns", "worst_delay_ns", "windows")
        return {name: getattr(self, name) for name in names}


def _listener(flow: Flow, port: int) -> socket.socket:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
    udp.setsockopt(socket.SOL_SOCKET, mmsg.SO_TIMESTAMPNS, 1)
    if flow.ecn is not None:
        udp.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    udp.bind(("", port))
    udp.setblocking(False)
    return udp


@contextmanager
def flowing(*flows: Flow) -> Iterator[Flows]:
    """Run flows for as long as the block lasts."""
    with Flows(flows) as running:
        yield running
