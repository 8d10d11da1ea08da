"""Netlink messages of the kernel's RDMA subsystem (rdma/rdma_netlink.h): devices that do RDMA by software.

What `rdma link add rxe0 type rxe netdev eth0` of iproute2 sends. A device is in the network namespace of the socket if
the kernel keeps those of namespaces apart.
"""

from __future__ import annotations

import struct

from testbed.linux.netlink.messages import Message, attributes, text, u32

PROTOCOL = 20
"""NETLINK_RDMA: the protocol of the socket for these messages."""
_DEVICES = 5 << 10  # RDMA_NL_NLDEV
LIST = _DEVICES | 1
"""The type of the request that lists devices."""
_ADD, _DELETE = _DEVICES | 3, _DEVICES | 4
_INDEX, _NAME, _INTERFACE, _KIND = 1, 2, 51, 65
SOFT_ROCE, SOFT_IWARP = "rxe", "siw"
"""The kinds of devices: verbs over UDP, and over TCP."""


def add(name: str, interface: str, kind: str) -> Message:
    """Make a device on an interface, of the kind `SOFT_ROCE` or `SOFT_IWARP`."""
    body = text(_NAME, name) + text(_KIND, kind) + text(_INTERFACE, interface)
    return Message(_ADD, body, f"making the RDMA device {name} on {interface}")


def delete(index: int, name: str) -> Message:
    """Remove a device; its index is known from `listed`."""
    return Message(_DELETE, u32(_INDEX, index), f"removing the RDMA device {name}", may_be_gone=True)


def listed(body: bytes) -> tuple[str, int]:
    """Return the name and the index of a device from an answer to `LIST`."""
    found = attributes(body)
    return found[_NAME].rstrip(b"\0").decode(), struct.unpack("=I", found[_INDEX])[0]
