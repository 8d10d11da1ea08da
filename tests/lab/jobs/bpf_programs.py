"""An incast whose BPF programs are looked at: the kernel compiles them, or interprets them."""

from __future__ import annotations

import ctypes
import struct

from testbed.lab import Run, experiment

_BPF = 321
_NEXT_ID, _BY_ID, _INFO = 11, 13, 15
_COMPILED_AT, _VERIFIED_AT = 16, 216
"""The offsets of the compiled code's length and of the instructions that the verifier went through in struct
bpf_prog_info."""


@experiment(_in_lab_time=True, timeout="60s")
def incast(run: Run, frames: int = 600, line: str = "real") -> None:
    """Three senders into one port of 100 Mb/s."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    with network(Incast(3, scale=100, line=line), run) as net:
        *senders, target = net.hosts
        with Flows([Flow(sender, target, count=frames) for sender in senders]) as flows:
            flows.wait()
        programs = loaded_programs()
        run.figure("programs", len(programs))
        run.figure("compiled", sum(length > 0 for length, _ in programs))
        run.figure("verified", sum(verified for _, verified in programs))
        run.figure("received", [report.received for report in flows.reports])
        run.figure("last", [report.last_lab_ns - report.first_lab_ns for report in flows.reports])
        run.figure("worst delay", [report.worst_delay_lab_ns for report in flows.reports])
        run.figure("pauses", [net.fabric.pfc(f"s1-eth{port}", 3)["xoff_sent"] for port in (1, 2, 3)])


def loaded_programs() -> list[tuple[int, int]]:
    """Return the octets of each program's compiled code, 0 if the kernel interprets it, and the instructions that its
    verifier went through, each as often as it did."""
    libc = ctypes.CDLL(None, use_errno=True)
    found: list[tuple[int, int]] = []
    number = 0
    while True:
        following = ctypes.create_string_buffer(struct.pack("=III", number, 0, 0), 64)
        if libc.syscall(_BPF, _NEXT_ID, following, 12):
            return found
        (number,) = struct.unpack_from("=I", following, 4)
        file = libc.syscall(_BPF, _BY_ID, ctypes.create_string_buffer(struct.pack("=III", number, 0, 0), 64), 12)
        info = ctypes.create_string_buffer(256)
        request = ctypes.create_string_buffer(struct.pack("=IIQ", file, len(info), ctypes.addressof(info)), 64)
        if libc.syscall(_BPF, _INFO, request, 16):
            raise OSError(ctypes.get_errno(), f"program {number} cannot be looked at")
        found.append(tuple(struct.unpack_from("=I", info, at)[0] for at in (_COMPILED_AT, _VERIFIED_AT)))
