"""A packet socket that sends whole frames by an interface, past its queueing disciplines or by one of its queues.

Past them a frame is on the wire at once, so the sender has to pace its frames to the line's rate. In a queue frames
wait until they may leave; the socket is writable while few of its frames do.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence

from testbed.linux.sockets import mmsg, packet_filter, stamped

_SOL_PACKET, _PACKET_IGNORE_OUTGOING, _PACKET_QDISC_BYPASS = 263, 23, 20
_ETH_P_ALL = 3
_DOWN = (errno.ENETDOWN, errno.ENXIO, errno.ENOBUFS)
_LONGEST = 2048
_SO_PRIORITY = 12
_WAITING = 8192
"""The octets, with what the kernel adds, from which on the frames that wait in a queue are enough."""


class RawSocket:
    """A raw socket on an interface of the network namespace in which it is constructed.

    It receives the frames that the filter `takes` (`packet_filter`) accepts; without a filter it receives none.
    What it sends goes past the queues, or into `queue`.
    """

    def __init__(self, interface: str, takes: bytes | None = None, queue: int | None = None) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # 0: nothing comes before it is bound
        packet_filter.attach(self._socket, takes or packet_filter.nothing())
        self._socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        if queue is None:
            self._socket.setsockopt(_SOL_PACKET, _PACKET_QDISC_BYPASS, 1)
        else:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_PRIORITY, queue)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _WAITING)
        stamped.enable(self._socket)
        self._socket.bind((interface, _ETH_P_ALL if takes else 0))

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, frames: Sequence[bytes]) -> bool:
        """Send frames, and return True if they were sent; False if the link is down."""
        try:
            mmsg.send_all(self._socket, frames)
        except OSError as error:
            if error.errno not in _DOWN:
                raise
            return False
        return True

    def receive(self) -> tuple[bytes, int] | None:
        """Return a frame that waits and its arrival time by the monotonic clock, or None if no frame waits."""
        self._socket.setblocking(False)
        try:
            return stamped.receive(self._socket, _LONGEST)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != errno.ENETDOWN:
                raise
            return None
        finally:
            self._socket.setblocking(True)

    def close(self) -> None:
        self._socket.close()
