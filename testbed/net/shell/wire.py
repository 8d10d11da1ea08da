"""The tools of a protocol analyser at a port: they send single frames of any kind, and capture.

They are for the lab's own networks, as they work in the namespace of a node.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any

from testbed.errors import XoffError
from testbed.linux.process import kernel
from testbed.linux.sockets import mmsg
from testbed.units import Size

_SO_PRIORITY = 12
_SOL_PACKET, _PACKET_AUXDATA, _PACKET_QDISC_BYPASS, _PACKET_IGNORE_OUTGOING = 263, 8, 20, 23
_ETH_P_ALL, _LONGEST_FRAME = 3, 10_240
_AUXDATA = struct.Struct("=IIIHHHH")  # status, len, snaplen, mac, net, vlan_tci, vlan_tpid
_TIMESPEC = struct.Struct("=qq")
_TCI_VALID, _TPID_VALID = 0x10, 0x40
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_STARTED = b"listening on"
_HANDED_OVER_S = 1.1
"""The kernel hands tcpdump a block of frames when the block is full or a second old, and an interrupted tcpdump does
not fetch the last block."""


class CaptureError(XoffError):
    """A capture did not start."""


class RawPort:
    """A raw socket at a port, which sends frames as they are given, without the host's protocols.

    The port marks the frames and puts them into its queues. With `past_queues` they are on the wire at once and
    unchanged, and may follow each other faster than the line carries. Where its queue is stopped, `send` waits when so
    many octets of `buffer` wait, as the kernel counts them; by default 208 kB.
    """

    def __init__(self, node: Any, interface: str, past_queues: bool = False, buffer: Size | str | None = None) -> None:
        with kernel.in_network_of(node.pid):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self._socket.bind((interface, 0))
        if buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, Size(buffer).bytes // 2)  # it is doubled
        if past_queues:
            self._socket.setsockopt(_SOL_PACKET, _PACKET_QDISC_BYPASS, 1)

    def set_priority(self, priority: int) -> None:
        """Set the priority of further frames that carry none themselves."""
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_PRIORITY, priority)

    def send(self, frame: bytes) -> None:
        """Send one frame."""
        self._socket.send(frame)

    def send_all(self, frames: Sequence[bytes]) -> None:
        """Send many frames back to back."""
        mmsg.send_all(self._socket, frames)

    def send_at(self, frame: bytes, moment_lab_ns: int) -> None:
        """Send a frame at a moment of the monotonic clock, or at once if it has passed."""
        time.sleep(max(0, moment_lab_ns - time.monotonic_ns()) / 1e9)
        self.send(frame)

    def repeat(self, frame: bytes, period_lab_ns: int, times: int) -> int:
        """Send a frame now and then every `period_lab_ns`; return the time at which the last one was due."""
        begin_ns = time.monotonic_ns()
        for number in range(times):
            self.send_at(frame, begin_ns + number * period_lab_ns)
        return begin_ns + (times - 1) * period_lab_ns

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> RawPort:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Tap:
    """A tap on an interface: all frames in one direction, as they are on the wire."""

    def __init__(self, node: Any, interface: str, outgoing: bool = False) -> None:
        self._outgoing = outgoing
        with kernel.in_network_of(node.pid):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
            self._socket.bind((interface, _ETH_P_ALL))
        self._socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 0 if outgoing else 1)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 8 << 20)
        self._socket.setsockopt(socket.SOL_SOCKET, mmsg.SO_TIMESTAMPNS, 1)
        self._socket.setblocking(False)

    def frames(self) -> Iterator[bytes]:
        """Yield the frames that passed since the last call."""
        return (frame for _, frame in self.arrivals())

    def arrivals(self) -> Iterator[tuple[int, bytes]]:
        """Yield the frames that passed since the last call, each with its time by the monotonic clock."""
        offset_ns = time.time_ns() - time.monotonic_ns()  # the kernel stamps with the time of day
        while True:
            try:
                data, messages, _, address = self._socket.recvmsg(_LONGEST_FRAME, 256)
            except BlockingIOError:
                return
            if (address[2] == socket.PACKET_OUTGOING) != self._outgoing:
                continue
            found = {kind: content for _, kind, content in messages}
            status, *_, tci, tpid = _AUXDATA.unpack(found[_PACKET_AUXDATA])
            if status & _TCI_VALID:  # the kernel has taken the outermost tag out of the frame
                kind = tpid if status & _TPID_VALID else 0x8100
                data = data[:12] + struct.pack("!HH", kind, tci) + data[12:]
            seconds, nanoseconds = _TIMESPEC.unpack(found[mmsg.SO_TIMESTAMPNS])
            yield seconds * 10**9 + nanoseconds - offset_ns, data

    def __enter__(self) -> Tap:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()


@contextmanager
def capture(node: Any, interface: str, file: str | PathLike[str], expression: str = "") -> Iterator[None]:
    """Capture an interface by tcpdump into a file while the block runs, with times in nanoseconds.

    The capture of a port has all arriving frames, MAC control included, and the sent frames as they leave the queues.
    `expression` is a capture filter.
    """
    command = ["tcpdump", "-i", interface, "-w", os.fspath(file), "-U", "--nano", "-B", "65536", *expression.split()]
    with kernel.in_network_of(node.pid):
        # In a session of its own: Ctrl-C in a shell is for the command that runs, and no capture ends with it.
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    assert process.stderr is not None
    try:
        output = b""
        while _STARTED not in output:
            ready = kernel.wait_readable([process.stderr], 10)
            piece = os.read(process.stderr.fileno(), 4096) if ready else b""
            if not piece:
                raise CaptureError(f"tcpdump on {interface} did not start: {output.decode(errors='replace').strip()}")
            output += piece
        yield
        time.sleep(_HANDED_OVER_S)  # the last frames are on their way to tcpdump
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
        process.stderr.close()
