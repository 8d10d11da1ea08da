"""The relay of a part: it carries connections between the doors of a process of part 0 and the management network."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from testbed.linux.process.forked_helper import PacketPipe

_LARGEST = 1 << 16
Address = str | tuple[str, int]
"""The path of a Unix socket, or an address of IP and a port."""


def relay(pipe: PacketPipe, ways: Sequence[tuple[socket.socket, Address]]) -> None:
    """Carry on each connection to one of these sockets, until the pipe is readable."""
    asyncio.run(_relay(pipe, ways))


async def _relay(pipe: PacketPipe, ways: Sequence[tuple[socket.socket, Address]]) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_reader(pipe.fileno(), stopped.set)
    servers = [await asyncio.start_server(partial(_join, target), sock=listening) for listening, target in ways]
    await stopped.wait()
    for server in servers:
        server.close()


async def _join(target: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Join a connection with one of its own to the target."""
    connecting = asyncio.open_unix_connection(target) if isinstance(target, str) else asyncio.open_connection(*target)
    try:
        far_reader, far_writer = await connecting
    except OSError:  # no process listens there now
        writer.close()
        return
    await asyncio.gather(_carry(reader, far_writer), _carry(far_reader, writer))


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry on what comes at one end of a connection, and end the other one when it is over."""
    with suppress(OSError):
        while octets := await reader.read(_LARGEST):
            writer.write(octets)
            await writer.drain()
    writer.close()
