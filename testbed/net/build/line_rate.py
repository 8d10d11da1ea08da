"""A rate for links of Mininet that have none. It needs Mininet.

On a computer the work of the CPU limits what such a link carries. In a lab where that takes no time TCP would find no
limit at all, and a test of some seconds would send a million megabytes.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mininet.link import Link, OVSIntf, TCIntf

from testbed.experiment.replaced import replaced
from testbed.linux.netlink import qdiscs
from testbed.linux.netlink.messages import Socket
from testbed.linux.process.kernel import in_network_of
from testbed.net.build.link import LosslessIntf
from testbed.units import Rate

DEFAULT = Rate("1Gb/s")
"""The most that Mininet's own links take as `bw`."""
_BURST, _LIMIT = 1 << 17, 4 << 20
"""Octets: a burst takes the largest segment of TCP as it is; the queue is as long as 33 ms of the default rate."""
_HANDLE = qdiscs.handle(1)
_SHAPES = ("bw", "delay", "loss", "max_queue_size")
"""Options of Mininet's shaped links that give an interface a queue of its own."""


@contextmanager
def of_links(rate: Rate) -> Iterator[None]:
    """Give each link that is made in the block this rate in both directions, unless its options shape it.

    An interface that is shaped later loses it, and so do ports of Open vSwitch: there what the hosts send is limited.
    """
    make = Link.__init__

    def made(link: Any, *arguments: Any, **options: Any) -> None:
        make(link, *arguments, **options)
        for interface in (link.intf1, link.intf2):
            if not _is_shaped(interface):
                _shape(interface, rate)

    with replaced(Link, __init__=made):
        yield


def _is_shaped(interface: Any) -> bool:
    if isinstance(interface, LosslessIntf | OVSIntf):  # one has its port's rate, the other is no device
        return True
    return isinstance(interface, TCIntf) and any(interface.params.get(name) for name in _SHAPES)


def _shape(interface: Any, rate: Rate) -> None:
    with in_network_of(interface.node.pid):
        netlink = Socket()
        try:
            index = socket.if_nametoindex(interface.name)
            netlink.send([qdiscs.tbf(index, qdiscs.ROOT, _HANDLE, rate=rate, burst=_BURST, limit=_LIMIT)])
        finally:
            netlink.close()
