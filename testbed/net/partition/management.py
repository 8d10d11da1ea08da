"""The management network of a network with parts, over which all of them reach a process that only part 0 has.

Such a process, a controller, listens at Unix sockets, its `doors`, which agents and switches find from each network
namespace of their kernel. In the other parts a relay listens at doors in their place. It takes each connection by TCP
over a cable to the relay of part 0, which has a port for each door. These cables end in the kernels' own namespaces.
All else is as with any cable between parts: frames take its delay, and are counted.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from testbed.frames import Mac
from testbed.linux.netlink import links
from testbed.linux.netlink.messages import Socket
from testbed.linux.process.forked_helper import Ending, ForkedHelper, PacketPipe

if TYPE_CHECKING:
    from testbed.net.partition.connections import Address

doors: list[str] = []
"""The Unix sockets of processes of part 0, by their paths in this part; in the same order in all parts."""
_FIRST_PORT = 7000
_MACS = 0x02_59_00_00_00_00


class Management:
    """The pieces of the management network in this part: ends of cables, and the relay."""

    def __init__(self, part: int, cables: Iterable[tuple[int, int]]) -> None:
        """Lay the ends of cables that are here, and start the relay. `cables` have their number, and the part to which
        they lead from part 0.
        """
        from testbed.net.partition.connections import relay  # it takes long to import, and few networks need it

        self._interfaces = [_lay(number, far, is_far=part == far) for number, far in cables if part in (0, far)]
        ways: list[tuple[socket.socket, Address]] = []
        for place, door in enumerate(doors):
            port = _FIRST_PORT + place
            if part:
                ways.append((_bound(socket.AF_UNIX, door), (_address(part, is_far=False), port)))
            else:
                ways.append((_bound(socket.AF_INET, ("", port)), door))
        self._relay = ForkedHelper(
            "the relay to the controller failed", partial(relay, ways=ways), PacketPipe.pair(),
            Ending.RETURNS, name="xoff-relay",
        )  # fmt: skip
        for listening, _ in ways:
            listening.close()
        self._doors = [door for door in doors if part]

    def stop(self) -> None:
        """End the relay, and remove the ends of cables."""
        try:
            self._relay.stop()
        finally:
            for door in self._doors:
                with suppress(OSError):
                    os.unlink(door)  # noqa: PTH108
            connection = Socket()
            connection.send(map(links.delete, self._interfaces))
            connection.close()


def _lay(number: int, far: int, *, is_far: bool) -> int:
    """Make one end of a cable from part 0 to another part, and return its interface."""
    name = "part0" if is_far else f"part{far}"
    own, other = (Mac((_MACS + 2 * far + end).to_bytes(6, "big")) for end in (is_far, not is_far))
    namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    connection = Socket()
    try:
        connection.send([links.end_of_cable(links.End(name, 0, namespace, own), number)])
        interface = socket.if_nametoindex(name)
        connection.send([
            links.quiet(interface), links.up(interface), links.address(interface, _address(far, is_far=is_far) + "/31"),
            links.neighbour(interface, _address(far, is_far=not is_far), other),
        ])  # fmt: skip
    finally:
        connection.close()
        os.close(namespace)
    return interface


def _address(far: int, *, is_far: bool) -> str:
    """Return the address of one end of the cable from part 0 to another part."""
    return f"169.254.255.{2 * far + is_far}"


def _bound(family: socket.AddressFamily, address: Address) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    if family == socket.AF_INET:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(address)
    return listening
