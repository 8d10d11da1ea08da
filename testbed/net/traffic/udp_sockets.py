"""The sockets of UDP flows, and how much of a flow goes through them at a time: the same for the ends in processes and
for those in the kernel.
"""

from __future__ import annotations

import socket

from testbed.net.traffic.flow import Flow
from testbed.net.traffic.report import WIRE_OCTETS
from testbed.net.traffic.transport import Line, headers, ip_version, target_address
from testbed.units import Size

BATCH = 32
FIRST_PORT = 20_000
"""Flow n goes to this port and n."""
_IPV6_AUTOFLOWLABEL = 70
_SO_PRIORITY, _SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 12, 32, 33
_SEND_BUFFER = Size("256kB")
_RECEIVE_BUFFER = 256 << 20


def payload(flow: Flow) -> int:
    """Return the octets of a datagram."""
    return flow.frame.bytes - headers(flow)


def datagrams(flow: Flow) -> int:
    """Return the most datagrams that a flow sends."""
    most = 2**62 if flow.count is None else flow.count
    if flow.size is not None:
        most = min(most, -(-flow.size.bytes // payload(flow)))
    return most


def at_once(flow: Flow) -> int:
    """Return the number of datagrams that a sender gives to its socket at a time."""
    return 1 if flow.rate else BATCH


def gap_ps(flow: Flow) -> int:
    """Return the time from one datagram to the next; 0 without a rate."""
    return flow.rate.time_for(flow.frame + Size.from_bytes(WIRE_OCTETS)).ps if flow.rate else 0


def sending(index: int, flow: Flow, line: Line) -> socket.socket:
    """Return the connected socket of a sender, which has its share of the line from now on."""
    udp = _open(ip_version(flow))
    if udp.family == socket.AF_INET6:
        udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, flow.ds_field)
        # The kernel's own label is a hash with a number that it draws; this one is 0, as xoff path has it.
        udp.setsockopt(socket.IPPROTO_IPV6, _IPV6_AUTOFLOWLABEL, 0)
    else:
        udp.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, flow.ds_field)
    udp.setsockopt(socket.SOL_SOCKET, _SO_PRIORITY, flow.priority)
    buffer = flow.buffer or _SEND_BUFFER
    udp.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, buffer.bytes // 2)
    line.share(buffer, flow.frame, at_once(flow))
    if flow.source_port is not None:
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # several flows may have the same one
        udp.bind(("", flow.source_port))
    udp.connect((target_address(flow, index), FIRST_PORT + index))
    return udp


def receiving(index: int, flow: Flow) -> socket.socket:
    """Return the bound socket of a receiver, which does not block."""
    udp = _open(ip_version(flow))
    udp.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
    udp.bind(("", FIRST_PORT + index))
    udp.setblocking(False)
    return udp


def _open(version: int) -> socket.socket:
    """Return a socket of one IP version, so that flows of both can have the same port."""
    if version == 4:
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return udp
