"""The kernel's UDP flows against those of processes: the same frames, and counts that mean the same."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from testbed.frames import capture_file
from testbed.lab import Result
from testbed.lab.results.result import Status

from ..conftest import Runner

pytestmark = pytest.mark.engines("um")
NAMES = "h1", "h2", "r"
FLOWS = 7
SENT = {4: slice(50, 58), 6: slice(70, 78)}
"""The octets of a frame that tell when it was sent. No checksum has them: ports of the lab leave it out."""
TARGET_PORT = {4: 36, 6: 56}
ALONE = 1, 2, 4, 5
"""Flows that meet no other one."""
BATCH, FRAME_NS = 32, 1_229_600
"""The frames that a process gives its socket by one call, and the time of one of the last flow on its line."""
CALLS_NS = 100_000
"""The time by which a process can be later: the slack of its first sleep, 50 us, and system calls, also of others."""


def passed(result: Result) -> Result:
    assert result.status is Status.OK, result.reason
    assert result.passed, [claim for claim in result.claims if not claim.passed]
    return result


def frames_of(folder: Path, host: str, ip_version: int) -> dict[int, list[bytes]]:
    """The frames that a host has sent of each flow, by the number of the flow, in their order."""
    found: dict[int, list[bytes]] = {}
    with (folder / f"{host}.pcap").open("rb") as file:
        for one in capture_file.frames(file):
            (port,) = struct.unpack_from("!H", one.octets, TARGET_PORT[ip_version])
            found.setdefault(port - 20_000, []).append(one.octets)
    return found


def without_times(frame: bytes, ip_version: int) -> bytes:
    octets = bytearray(frame)
    octets[SENT[ip_version]] = bytes(8)
    return bytes(octets)


def stamps(frames: list[bytes], ip_version: int) -> list[int]:
    """Return when the frames of a flow were given to its socket, from the first one on."""
    moments = [int.from_bytes(frame[SENT[ip_version]], "little") for frame in frames]
    return [moment - moments[0] for moment in moments]


@pytest.mark.parametrize("version", [4, 6])
def test_the_kernel_sends_the_frames_that_processes_send_and_counts_as_they_do(run: Runner, version: int) -> None:
    ours, theirs = (passed(run("udp:sends", in_kernel=in_kernel, ip_version=version)) for in_kernel in (True, False))
    assert ours.folder is not None
    assert theirs.folder is not None
    seen: set[int] = set()
    for host in NAMES:
        our_frames, their_frames = (
            frames_of(result.folder, host, version) for result in (ours, theirs) if result.folder
        )
        assert our_frames.keys() == their_frames.keys()
        seen |= our_frames.keys()
        for flow, frames in our_frames.items():
            others = their_frames[flow]
            many = min(len(frames), len(others)) if flow == FLOWS - 1 else len(others)
            assert [without_times(frame, version) for frame in frames[:many]] == [
                without_times(frame, version) for frame in others[:many]
            ]
            assert len(frames) == ours.figure(f"{flow}: counts")[0]
            if flow == FLOWS - 1:  # a socket that is full has the same room for both
                given = zip(stamps(frames, version), stamps(others, version), strict=False)
                assert max(abs(one - other) for one, other in given) < CALLS_NS
    assert seen == set(range(FLOWS))
    for flow in range(FLOWS - 1):  # the last one ends by its time, and not by its datagrams
        assert ours.figure(f"{flow}: counts") == theirs.figure(f"{flow}: counts")
    for flow in ALONE:
        (first, last), (their_first, their_last) = (result.figure(f"{flow}: moments") for result in (ours, theirs))
        assert 0 < their_first - first < CALLS_NS
        assert abs((their_last - their_first) - (last - first)) < CALLS_NS
        assert abs(theirs.figure(f"{flow}: worst delay") - ours.figure(f"{flow}: worst delay")) < CALLS_NS
    # The kernel ends a flow to the nanosecond. A process is in a call then, which gives the rest of its batch.
    (sent, (_, last)), (their_sent, (_, their_last)) = (
        (result.figure(f"{FLOWS - 1}: counts")[0], result.figure(f"{FLOWS - 1}: moments")) for result in (ours, theirs)
    )
    assert their_sent == -(-sent // BATCH) * BATCH
    assert 0 < their_last - last - (their_sent - sent) * FRAME_NS < CALLS_NS


def test_moments_are_exact(run: Runner) -> None:
    passed(run("udp:keeps_time"))


def test_numbers_in_any_order_are_counted_as_a_process_counts_them(run: Runner) -> None:
    passed(run("udp:counts"))


def test_a_killed_process_ends_its_flows_and_leaves_nothing(run: Runner) -> None:
    passed(run("udp:killed"))


def test_a_flow_that_cannot_send_any_more_says_why(run: Runner) -> None:
    result = run("udp:loses_its_way")
    assert result.status is Status.ERROR
    assert "flow at h1: [Errno 101] Network is unreachable" in result.reason


def test_flows_end_when_the_run_ends_them(run: Runner) -> None:
    passed(run("udp:stops"))
