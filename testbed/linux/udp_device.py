"""/dev/xoff-udp: UDP flows that the kernel of the engine `um` serves by itself.

The kernel's side is testbed/lab/um/linux/xoff_udp_kern.c, and xoff_udp_device.h has the structures. All times are
nanoseconds of the monotonic clock.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from testbed.linux.flow_device import FlowDevice, address_of

_DEVICE = Path("/dev/xoff-udp")
_ATTACH, _SEND, _RECEIVE, _STOP, _PROGRESS, _REPORT, _WINDOWS = (ord("u") << 8 | n for n in range(1, 8))
_ATTACHED = struct.Struct("=Q4I")
_SENT = struct.Struct("=i5IQ2qQ2q")
_RECEIVED = struct.Struct("=iI")
_REPORTED = struct.Struct("=8Q3qIi")


def is_there() -> bool:
    """Return True if the kernel serves UDP flows, which only that of `um` does."""
    return _DEVICE.exists()


@dataclass(frozen=True)
class Sending:
    """A flow that is sent."""

    payload: int
    """The octets of a datagram."""
    at_once: int
    """The datagrams that the socket is given at a time."""
    most: int
    """The datagrams of the flow."""
    begin_ns: int
    end_ns: int
    gap_ps: int
    """From one datagram to the next; 0: as fast as the socket takes them."""
    frame_ns: int
    """The time in ns that the line takes for a frame."""
    held_ns: int
    """The time in ns that the line takes for all that the sockets of the queue hold."""
    sent_at: int
    """The place in the counters of the datagrams that have been sent."""
    line_at: int
    """The place in the counters of the moment until which the line is taken."""


@dataclass(frozen=True)
class Received:
    """The counters of a flow where it arrives."""

    received: int
    """With duplicates."""
    doubled: int
    out_of_order: int
    extent: int
    """The largest number of datagrams by which one of these came too late."""
    ecn: tuple[int, ...]
    first_ns: int
    last_ns: int
    worst_delay_ns: int
    windows: tuple[int, ...]


class UdpDevice(FlowDevice):
    """The UDP flows of one host in the kernel, from when it is made until it is closed."""

    def __init__(self, counters: mmap.mmap, senders: int, receivers: int) -> None:
        """In `counters`, memory of whole pages that processes share, the kernel writes how far flows are."""
        super().__init__(_DEVICE)
        self._states = bytearray(4 * senders)
        try:
            self.give(_ATTACH, _ATTACHED.pack(address_of(counters), len(counters), senders, receivers, 0))
        except BaseException:
            self.close()
            raise

    def send(self, udp: socket.socket, flow: Sending) -> None:
        """Have a flow sent by a connected socket."""
        self.give(
            _SEND,
            _SENT.pack(
                udp.fileno(), flow.payload, flow.at_once, flow.sent_at, flow.line_at, 0, flow.most, flow.begin_ns,
                flow.end_ns, flow.gap_ps, flow.frame_ns, flow.held_ns,
            ),
        )  # fmt: skip

    def receive(self, udp: socket.socket, received_at: int) -> int:
        """Have the datagrams of a bound socket counted, also at a place in the counters. Return the receiver's
        number.
        """
        return self.give(_RECEIVE, _RECEIVED.pack(udp.fileno(), received_at))

    def stop(self) -> None:
        """Let no flow send more."""
        fcntl.ioctl(self.fd, _STOP, 0)

    def ended(self) -> list[bool]:
        """Return, for each flow that is sent, in the order of `send`, True if it is at its end. The device is readable
        when one has come to its end since the last call. OSError, as from the socket, if one has failed.
        """
        many = self.ask(_PROGRESS, 0, self._states)
        states = memoryview(self._states).cast("i")[:many].tolist()
        for state in states:
            if state < 0:
                raise OSError(-state, os.strerror(-state))
        return [bool(state) for state in states]

    def report(self, number: int) -> Received:
        """Return the counters of a receiver. OSError if the kernel had no memory for them."""
        room = bytearray(_REPORTED.size)
        self.ask(_REPORT, number, room)
        received, doubled, late, extent, *ecn, first_ns, last_ns, worst_ns, windows, error = _REPORTED.unpack(room)
        if error:
            raise OSError(-error, f"what came could not be counted: {os.strerror(-error)}")
        counted = self.row(_WINDOWS, number, windows)
        return Received(received, doubled, late, extent, tuple(ecn), first_ns, last_ns, worst_ns, counted)
