"""The kernel's counters of sent frames and octets, read for all interfaces of a namespace by one request."""

from __future__ import annotations

import struct
from typing import NamedTuple

from testbed.linux.netlink.netlink import Socket, attributes

_GET_STATISTICS, _LINK_64 = 94, 1
_REQUEST = struct.Struct("=BxxxII")
_COUNTERS = struct.Struct("=4Q")


class Sent(NamedTuple):
    """Frames and octets that left an interface, without preamble, FCS and gap."""

    frames: int
    octets: int


def sent(netlink: Socket) -> dict[int, Sent]:
    """Return the counters of each interface, by its index."""
    found = {}
    for _, body in netlink.dump(_GET_STATISTICS, _REQUEST.pack(0, 0, 1 << (_LINK_64 - 1))):
        _, interface, _ = _REQUEST.unpack_from(body)
        counters = attributes(body, _REQUEST.size).get(_LINK_64, b"")
        if len(counters) >= _COUNTERS.size:
            _, frames, _, octets = _COUNTERS.unpack_from(counters)
            found[interface] = Sent(frames, octets)
    return found
