"""Views of a network from outside, for jobs: frames in a capture, processes, interfaces."""

from __future__ import annotations

import ctypes
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NANOSECONDS = 0xA1B23C4D
_RECORD = struct.Struct("=IIII")
WIRE = 24
"""The octets that a frame takes on the wire beyond its own: preamble, FCS, gap."""


@dataclass(frozen=True)
class Seen:
    """A frame in a capture, with its time by the lab's monotonic clock."""

    t_ns: int
    octets: bytes
    """The octets of the frame that the capture has."""
    length: int

    @property
    def wire(self) -> int:
        """The octets that the frame takes on the wire."""
        return self.length + WIRE

    @property
    def priority(self) -> int:
        """The priority of an IPv4 frame by its DSCP, which is 8 times the priority in all flows, or -1."""
        return self.octets[15] >> 5 if self.octets[12:14] == b"\x08\x00" else -1


def frames_in(file: Path) -> list[Seen]:
    """Return all frames of a capture by tcpdump."""
    offset_ns = time.time_ns() - time.monotonic_ns()
    data = file.read_bytes()
    assert struct.unpack_from("=I", data)[0] == _NANOSECONDS
    found, at = [], 24
    while at + 16 <= len(data):
        seconds, nanoseconds, here, length = _RECORD.unpack_from(data, at)
        found.append(Seen(seconds * 10**9 + nanoseconds - offset_ns, data[at + 16 : at + 16 + here], length))
        at += 16 + here
    return found


def received_frames(port: Any) -> int:
    """Return the kernel's count of frames that a port received."""
    lines = Path(f"/proc/{port.node.pid}/net/dev").read_text().splitlines()
    (counts,) = [line.split(":")[1].split() for line in lines if line.split(":")[0].strip() == port.name]
    return int(counts[1])


def wait_for(is_true: Any, seconds: float = 10) -> bool:
    """Look every millisecond until a condition is true, and return False if it never was."""
    deadline = time.monotonic() + seconds
    while not (done := bool(is_true())) and time.monotonic() < deadline:
        time.sleep(0.001)
    return done


def processes() -> set[int]:
    """Return all processes."""
    return {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()}


def bpf_objects() -> dict[str, set[int]]:
    """Return the BPF objects in the kernel, by ID."""
    library = ctypes.CDLL(None, use_errno=True)
    found: dict[str, set[int]] = {}
    for kind, command in (("programs", 11), ("maps", 12), ("links", 31)):  # BPF_*_GET_NEXT_ID
        found[kind] = set()
        request = bytearray(12)
        buffer = (ctypes.c_char * 12).from_buffer(request)
        while library.syscall(321, command, buffer, 12) == 0:
            number = struct.unpack_from("=I", request, 4)[0]
            found[kind].add(number)
            struct.pack_into("=III", request, 0, number, 0, 0)
    return found


def network_namespaces() -> set[str]:
    """Return the network namespaces that a process is in or holds by a file."""
    found = set()
    for place in ("[0-9]*/ns/net", "[0-9]*/fd/*"):
        for entry in Path("/proc").glob(place):
            with suppress(OSError):
                found.add(str(entry.readlink()))
    return {name for name in found if name.startswith("net:")}


def room_for_namespaces() -> int:
    """Return for how many network namespaces the kernel has memory; it grows if some are never freed."""
    lines = Path("/proc/slabinfo").read_text().splitlines()
    (counts,) = [line.split() for line in lines if line.startswith("net_namespace ")]
    return int(counts[2])


def interfaces() -> set[str]:
    """Return the interfaces of this network namespace."""
    return {path.name for path in Path("/sys/class/net").iterdir()}


def everything() -> dict[str, object]:
    """Return everything that a network must not leave behind."""
    return {
        "processes": processes(),
        **bpf_objects(),
        "network namespaces": network_namespaces(),
        "interfaces": interfaces(),
    }


def agent_pid(fabric: Any, node: str, speaker: bool = False) -> int:
    """Return the process ID of a node's agent, or of its speaker; 0 if there is none."""
    return int(fabric.core.agents.pid(node, speaker))
