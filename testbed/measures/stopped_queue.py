"""Frames sent one at a time through a switch whose queue is stopped, until PAUSE comes; then the queue resumes.

The receiver itself holds the switch's queue, with PFC frames, so that what a frame finds in the buffer is known
exactly. Only the wire is looked at: PFC frames that come to senders, and datagrams that come to the receiver.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

from testbed.errors import XoffError
from testbed.experiment.run import Run
from testbed.frames.mac_control import PfcFrame
from testbed.linux.process import kernel
from testbed.linux.sockets import mmsg
from testbed.net.fabric.cable import Line
from testbed.net.shell.wire import RawPort
from testbed.units import Rate, Size

PRIORITIES = (3, 4)
_LINE = Rate("10Mb/s")
_PORT = 9999
_HEADERS = 42
_BESIDE = 24
_LONGEST = 9216
_SO_PRIORITY, _SO_RCVBUFFORCE = 12, 33
_PATH_NS = 1_500_000  # through the switch, and PAUSE back, whatever the agents do meanwhile


class StoppedQueue:
    """`with StoppedQueue(net) as queue`: the switch's queue to the host r, which the receiver stops and resumes.

    Senders are named "h1", "h2", ...: a host, with priority 3; "h1:4" is the same host with priority 4. Fidelity counts
    while frames are under way, and not while logs are read.
    """

    def __init__(self, net: Any) -> None:
        run = Run.current()
        self._traffic: Callable[[], AbstractContextManager[None]] = run.traffic_is_running if run else nullcontext
        self._fabric = net.fabric
        self._senders: dict[str, socket.socket] = {}
        self._sent: list[tuple[str, int]] = []
        self._stack = ExitStack()
        target = net["r"]
        self._wire = self._stack.enter_context(RawPort(target, "r-eth0"))
        port = net.fabric.port("r-eth0")
        self._mac, self._line = port.mac, self._fabric.far_end(port).line
        with kernel.in_network_of(target.pid):
            self._receiver = self._stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
        self._receiver.setsockopt(socket.SOL_SOCKET, mmsg.SO_TIMESTAMPNS, 1)
        self._receiver.bind(("", _PORT))
        self._receiver.setblocking(False)
        for host in net.hosts:
            if host is target:
                continue
            for priority in PRIORITIES:
                with kernel.in_network_of(host.pid):
                    udp = self._stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                udp.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, priority << 5)
                udp.setsockopt(socket.SOL_SOCKET, _SO_PRIORITY, priority)
                udp.connect((target.IP(), _PORT))
                self._senders[host.name if priority == PRIORITIES[0] else f"{host.name}:{priority}"] = udp

    def __enter__(self) -> StoppedQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def fill(self, frames: Iterable[tuple[str, int]]) -> dict[str, int]:
        """Stop the queue, and send frames one at a time; each is a sender and its octets without FCS.

        Return, for each sender that got PAUSE, the number of its own frame with which it came; the first is 1.
        """
        begin_ns = time.monotonic_ns()
        self._sent = []
        with self._traffic():
            self._wire.send(PfcFrame.xoff(self._mac, PRIORITIES).encode())
            time.sleep(_PATH_NS / 1e9)
            for sender, octets in frames:
                self._sent.append((sender, time.monotonic_ns()))
                self._senders[sender].send(bytes(octets - _HEADERS))
                time.sleep((_time_on_line_ns(octets) + _PATH_NS) / 1e9)
        return {
            paused: sum(1 for sender, sent_ns in self._sent if sender == paused and sent_ns <= moment_ns)
            for paused, moment_ns in self._first("xoff_received", begin_ns).items()
        }

    def drain(self) -> tuple[int, dict[str, int]]:
        """Resume the queue, and wait until it is empty.

        Return the number of frames that arrived, and for each sender that got XON how many had left the switch by then:
        on a real line those whose last bits had, and on an ideal one those whose first bits had.
        """
        begin_ns = time.monotonic_ns()
        arrived: list[int] = []
        with self._traffic():
            self._wire.send(PfcFrame.xon(self._mac, PRIORITIES).encode())
            while more := self._arrivals():
                arrived += more
        if len(arrived) > len(self._sent):
            raise XoffError(f"{len(self._sent)} frames were sent and {len(arrived)} arrived")
        return len(arrived), {
            resumed: sum(1 for left_ns in arrived if left_ns <= moment_ns)
            for resumed, moment_ns in self._first("xon_received", begin_ns).items()
        }

    def _first(self, kind: str, begin_ns: int) -> dict[str, int]:
        """Return the moment at which the port of each sender first got such a PFC frame for its priority."""
        found: dict[str, int] = {}
        for sender in self._senders:
            host, _, priority = sender.partition(":")
            self._fabric.snapshot(host)  # its agent has written all by then
            wanted = kind, f"{host}-eth0", (int(priority or PRIORITIES[0]),)
            for event in self._fabric.events():
                if (event.kind, event.port, event.priorities) == wanted and event.lab_ns >= begin_ns:
                    found.setdefault(sender, event.lab_ns)
        return found

    def _arrivals(self) -> list[int]:
        """Return the moments at which the frames of waiting datagrams had left; none if none came for a while.

        A datagram arrives with the first bit of its frame.
        """
        time.sleep(0.1)
        offset_ns = time.time_ns() - time.monotonic_ns()  # the kernel stamps with the time of day
        found: list[int] = []
        while True:
            try:
                data, control, _, _ = self._receiver.recvmsg(_LONGEST, 64)
            except BlockingIOError:
                return found
            seconds, nanoseconds = struct.unpack("=qq", control[0][2])
            left_ns = seconds * 10**9 + nanoseconds - offset_ns
            if self._line is Line.REAL:
                left_ns += _time_on_line_ns(len(data) + _HEADERS)
            found.append(left_ns)


def _time_on_line_ns(octets: int) -> int:
    """Return the time of a frame on the line; `octets` is without its FCS."""
    return _LINE.time_for(Size.from_bytes(octets + _BESIDE)).ns
