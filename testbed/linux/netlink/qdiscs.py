"""Netlink messages for queueing disciplines: line rate and shares, ECN, the pause point, the delay of a cable.

Handles are numbers as in the kernel, major << 16 | minor. Rates count all octets of a frame on the wire: 24 more than
Linux counts, which are preamble, FCS and interframe gap.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from testbed.linux.netlink.messages import Message, Socket, attribute, attributes, text, u32, u64
from testbed.units import Duration, Rate, Size

ROOT = 0xFFFF_FFFF
WIRE_OVERHEAD = 24
LINE = "xoff_line"
"""The qdisc of our kernel that is a direction of a cable (`linux/line_qdisc.py`)."""

_NEW_QDISC, _GET_QDISC, _NEW_CLASS, _GET_CLASS = 36, 38, 40, 42
_HTB_TAIL = 24
"""The position in the parameters of an htb class behind its two rates."""
_STATISTICS, _QUEUE_STATISTICS, _OWN_STATISTICS = 7, 3, 4
_REQUEST, _REPLACE, _CREATE = 0x1, 0x100, 0x400
_ETHERNET = 1
_TICK_NS = 64
_STOP, _GO = 0, 2
_NO_LIMIT = 0xFFFF_FFFF
"""The limit of netem in frames: a cable holds as many frames as its delay makes it hold."""


def handle(major: int, minor: int = 0) -> int:
    return major << 16 | minor


def htb(interface: int, own: int, default: int, *, parent: int = ROOT) -> Message:
    """Create a queue with classes; `default` is the minor number of the default class."""
    options = attribute(2, struct.pack("=IIIII", 3, 10, default, 0, 0)) + u32(5, 100_000)
    return _qdisc(interface, parent, own, "htb", options)


def htb_class(
    interface: int, parent: int, own: int, *, rate: Rate, burst_ns: int, quantum: int, level: int = 0
) -> Message:
    """Create one class. Level 0 is served before level 1 and so on; classes of one level share by their quanta.

    `burst_ns` is how far a class may run ahead of its rate: as much as the kernel may be late, and no more.
    """
    ticks = -(-burst_ns // _TICK_NS)
    parameters = _rate(rate) + _rate(rate) + struct.pack("=IIIII", ticks, ticks, quantum, 0, level)
    options = attribute(1, parameters)
    if rate.bps // 8 >= 1 << 32:
        options += u64(6, rate.bps // 8) + u64(7, rate.bps // 8)
    body = _message(interface, parent, own, "htb", options)
    return Message(_NEW_CLASS, body, f"class {own & 0xFFFF:x} of interface {interface}", create=True)


def tbf(interface: int, parent: int, own: int, *, rate: Rate, burst: int, limit: int) -> Message:
    """Create a queue that sends at a rate; `burst` and `limit` are in octets."""
    ticks = -(-rate.time_for(Size.from_bytes(burst)).ns // _TICK_NS)
    parameters = _rate(rate) + bytes(12) + struct.pack("=III", limit, ticks, 0)
    options = attribute(1, parameters) + u32(6, burst)
    if rate.bps // 8 >= 1 << 32:
        options += u64(4, rate.bps // 8)
    return _qdisc(interface, parent, own, "tbf", options)


def red(interface: int, parent: int, own: int, attributes: Iterable[tuple[int, bytes]]) -> Message:
    """Create a queue that marks early; the attributes are those of `testbed.switch.ecn`."""
    return _qdisc(interface, parent, own, "red", b"".join(attribute(kind, value) for kind, value in attributes))


def plug(interface: int, parent: int, own: int, limit: int) -> list[Message]:
    """Create the pause point, which passes frames at first; it holds up to `limit` octets while it is stopped."""
    made = _qdisc(interface, parent, own, "plug", struct.pack("=iI", _STOP, limit))
    opened = Message(
        _NEW_QDISC, _message(interface, parent, own, "plug", struct.pack("=iI", _GO, 0)), "opening a queue"
    )
    return [made, opened]


def pausing(interface: int, parent: int, stop: bool) -> bytes:
    """Return a finished message that stops or restarts the plug under `parent`; the kernel does not answer it."""
    return _silent(0, _message(interface, parent, 0, "plug", struct.pack("=iI", _STOP if stop else _GO, 0)))


def paused_places(requests: bytes) -> list[int]:
    """Return the handles under which the plugs are that these messages of `pausing` stop or restart."""
    found, at = [], 0
    while at < len(requests):
        (length,) = struct.unpack_from("=I", requests, at)
        found.append(struct.unpack_from("=I", requests, at + 28)[0])
        at += length
    return found


def emptied(interface: int, parent: int, own: int, limit: int) -> bytes:
    """Return a finished message that drops the frames in a plug, by putting a new, stopped plug in its place.

    `own` has to differ from the handle of the old plug. The kernel does not answer the message.
    """
    return _silent(_CREATE | _REPLACE, _message(interface, parent, own, "plug", struct.pack("=iI", _STOP, limit)))


def netem(
    interface: int,
    own: int,
    delay: Duration,
    *,
    loss: int = 0,
    seed: int = 1,
    parent: int = ROOT,
    rate: Rate | None = None,
) -> Message:
    """Create the delay of a cable and its loss, which is in parts of 2**32.

    With a `rate` a frame is delayed by its time on the line, too, and waits for the last bit of the frame before it.
    """
    options = struct.pack("=IIIIII", 0, _NO_LIMIT, loss, 0, 0, 0) + u64(10, delay.ns) + u64(14, seed)
    if rate is not None:
        options += attribute(6, struct.pack("=IiIi", min(rate.bps // 8, 0xFFFF_FFFF), WIRE_OVERHEAD, 0, 0))
        if rate.bps // 8 >= 1 << 32:
            options += u64(8, rate.bps // 8)
    return _qdisc(interface, parent, own, "netem", options)


def own(interface: int, own: int, kind: str, options: bytes) -> Message:
    """Create a root qdisc of our kernel, or change it; it reads its options as they are."""
    return _qdisc(interface, ROOT, own, kind, options)


def _silent(flags: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), _NEW_QDISC, _REQUEST | flags, 0, 0) + body


def listed(netlink: Socket) -> list[tuple[int, int, int, bytes]]:
    """Return all qdiscs of a namespace: (interface, handle, waiting octets, the statistics of this kind of qdisc)."""
    found = []
    for _, body in netlink.dump(_GET_QDISC, struct.pack("=BxxxiIII", 0, 0, 0, 0, 0)):
        interface, own = struct.unpack_from("=iI", body, 4)
        inside = attributes(body, 20)
        statistics = attributes(inside.get(_STATISTICS, b""))
        queue = statistics.get(_QUEUE_STATISTICS, b"").ljust(8, b"\0")
        found.append((interface, own, struct.unpack_from("=II", queue)[1], statistics.get(_OWN_STATISTICS, b"")))
    return found


def htb_classes(netlink: Socket, interface: int) -> dict[int, tuple[int, int]]:
    """Return (level, quantum in octets) of each htb class at an interface, by its handle."""
    found = {}
    for _, body in netlink.dump(_GET_CLASS, struct.pack("=BxxxiIII", 0, interface, 0, 0, 0)):
        (own,) = struct.unpack_from("=I", body, 8)
        inside = attributes(body, 20)
        parameters = attributes(inside.get(2, b"")).get(1, b"")
        if inside.get(1, b"").rstrip(b"\0") == b"htb" and len(parameters) >= _HTB_TAIL + 20:
            _, _, quantum, _, level = struct.unpack_from("=IIIII", parameters, _HTB_TAIL)
            found[own] = level, quantum
    return found


class Counted(NamedTuple):
    """Counters of frames, summed over all qdiscs of one kind in a namespace."""

    waiting: int = 0
    """The frames that wait in these qdiscs and their children."""
    dropped: int = 0
    """The frames that these qdiscs dropped. For red only early drops count, not those for want of room below it."""


def counters(netlink: Socket) -> defaultdict[str, Counted]:
    """Return the numbers of frames that all qdiscs of a namespace hold and have dropped, by kind of qdisc."""
    found: defaultdict[str, Counted] = defaultdict(Counted)
    for _, body in netlink.dump(_GET_QDISC, struct.pack("=BxxxiIII", 0, 0, 0, 0, 0)):
        inside = attributes(body, 20)
        kind = inside.get(1, b"").rstrip(b"\0").decode()
        statistics = attributes(inside.get(_STATISTICS, b""))
        waiting, _, dropped = struct.unpack_from("=III", statistics.get(_QUEUE_STATISTICS, b"").ljust(12, b"\0"))
        if kind == "red":
            (dropped,) = struct.unpack_from("=I", statistics.get(_OWN_STATISTICS, b"").ljust(4, b"\0"))
        before = found[kind]
        found[kind] = Counted(before.waiting + waiting, before.dropped + dropped)
    return found


def _qdisc(interface: int, parent: int, own: int, kind: str, options: bytes) -> Message:
    what = f"{kind} of interface {interface}"
    return Message(_NEW_QDISC, _message(interface, parent, own, kind, options), what, create=True, replace=True)


def _message(interface: int, parent: int, own: int, kind: str, options: bytes) -> bytes:
    return struct.pack("=BxxxiIII", 0, interface, own, parent, 0) + text(1, kind) + attribute(2, options)


def _rate(rate: Rate) -> bytes:
    return struct.pack("=BBHhHI", 0, _ETHERNET, WIRE_OVERHEAD, 0, 0, min(rate.bps // 8, 0xFFFF_FFFF))
