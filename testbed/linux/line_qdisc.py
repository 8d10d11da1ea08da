"""The qdisc xoff_line of the kernel of `um`: one direction of a cable with errors and Link Layer Retry.

The kernel's side is testbed/lab/um/linux/xoff_line_kern.c, and xoff_line.h has the structures. Times are the lab's.
"""

from __future__ import annotations

from typing import Any

from testbed.linux import udp_device
from testbed.linux.c_structures import Headers
from testbed.linux.netlink import qdiscs
from testbed.linux.netlink.messages import Message, Socket

HEADERS = Headers("xoff_line.h")
JAMS = 4
"""The most disturbances of a direction at a time."""


def is_there() -> bool:
    """Return True if the kernel has the qdisc, which only that of `um` does."""
    return udp_device.is_there()


def message(interface: int, own: int, settings: dict[str, Any]) -> Message:
    """Create the qdisc at an interface, or change it."""
    jams = settings.pop("jams", ())
    made = HEADERS.xl_settings(**settings)
    for number, jam in enumerate(jams):
        made.jams[number] = HEADERS.xl_jam(**jam)
    return qdiscs.own(interface, own, qdiscs.LINE, bytes(made))


def reports(netlink: Socket) -> dict[int, Any]:
    """Return what each such qdisc of a namespace reports, by its interface."""
    size = len(bytes(HEADERS.xl_report()))
    return {
        interface: HEADERS.xl_report.from_buffer_copy(statistics)
        for interface, _, _, statistics in qdiscs.listed(netlink)
        if len(statistics) == size
    }
