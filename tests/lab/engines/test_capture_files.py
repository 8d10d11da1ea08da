"""The promises of `--capture`: every frame on all cables, the same bytes each time, and an unchanged run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from testbed import lab
from testbed.cli import main
from testbed.frames.capture_file import frames
from testbed.frames.mac_control import PfcFrame, parse
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.job.job import WHOLE_FRAMES, Limits
from testbed.lab.results.result import Status
from tests.unit.frames.test_wireshark_dissector import OURS

from .. import once

pytestmark = pytest.mark.packages("tshark")


@pytest.fixture
def tshark() -> str:
    found = shutil.which("tshark")
    if found is None:
        pytest.skip("tshark is missing: no independent decoder reads the captures")
    return found


@pytest.fixture
def captured(ready: PreparedEngine, tmp_path: Path) -> lab.Result:
    return once.run("incast", {"frames": 200}, on=ready, out=tmp_path, capture_octets=WHOLE_FRAMES).check()


def place(result: lab.Result) -> Path:
    assert result.folder is not None
    return result.folder


def test_captures_are_the_same_for_the_same_seed_and_change_nothing_that_the_run_measures(
    captured: lab.Result, ready: PreparedEngine, tmp_path: Path
) -> None:
    again = lab.run("incast", parameters={"frames": 200}, on=ready, out=tmp_path, capture_octets=WHOLE_FRAMES)
    without = once.run("incast", {"frames": 200}, on=ready, out=tmp_path)
    assert again.digest == captured.digest
    files = {name for name in captured.files if name.startswith("captures/")}
    assert len(files) == 2 * 6, "two networks of three cables, a file for each direction"
    assert files.isdisjoint(without.files)
    assert (captured.figures, captured.claims) == (without.figures, without.claims)
    times = [_event_times(place(result)) for result in (captured, without)]
    assert len(times[0]) == len(times[1]) > 100
    assert max(abs(one - other) for one, other in zip(*times, strict=True)) < 2_000, "nanoseconds"


def _event_times(folder: Path) -> list[int]:
    return [json.loads(line)["t"] for line in (folder / "events.jsonl").read_text().splitlines()]


def test_a_capture_has_every_frame_and_a_comment_for_each_pause(captured: lab.Result) -> None:
    first = place(captured) / "captures" / "1"
    for source, target, count in (("h1-eth0", "s1-eth1", 200), ("h2-eth0", "s1-eth2", 200), ("s1-eth3", "r-eth0", 400)):
        with (first / f"{source}-to-{target}.pcapng").open("rb") as file:
            found = list(frames(file))
        assert len(found) == count
        assert {frame.interface for frame in found} == {f"{source} > {target}"}
        assert all(frame.length == len(frame.octets) == 1514 for frame in found)
        assert [frame.t_ns for frame in found] == sorted(frame.t_ns or 0 for frame in found)
    events = [json.loads(line) for line in (place(captured) / "events.jsonl").read_text().splitlines()]
    sent = [event for event in events if event["port"] == "s1-eth1" and event["event"] in ("xoff_sent", "xon_sent")]
    with (first / "s1-eth1-to-h1-eth0.pcapng").open("rb") as file:
        pauses = list(frames(file))
    assert len(pauses) == len(sent) > 4
    for frame, event in zip(pauses, sent, strict=True):
        read = parse(frame.octets)
        assert isinstance(read, PfcFrame) and frame.t_ns is not None
        stops = event["event"] == "xoff_sent"
        # At 10 Mb/s a quantum is 51.2 us, and the network is a thousand times slower than hardware.
        wanted = "XOFF priorities 3: 65535 quanta = 3.355 s, 3.355 ms in hardware" if stops else "XON priorities 3"
        assert frame.comments == (wanted,)
        assert dict(read.changes()) == {3: 65535 if stops else 0}
        assert 0 <= frame.t_ns - event["t"] < 100_000, "it arrives when the agent has sent it"


def test_wireshark_reads_all_captures_in_one_file_without_a_warning(
    captured: lab.Result, tmp_path: Path, tshark: str
) -> None:
    assert main(["export", str(captured.folder), "--pcapng", "-o", str(tmp_path / "all.pcapng")]) == 0
    warned = 'not _ws.expert.group == "Comment" and _ws.expert.severity >= "Warning"'
    command = [tshark, *OURS, "-r", str(tmp_path / "all.pcapng")]
    shown = subprocess.run([*command, "-Y", warned], capture_output=True, text=True, check=True).stdout
    assert shown == ""
    pauses = subprocess.run([*command, "-Y", "macc.opcode == 0x0101"], capture_output=True, text=True, check=True)
    assert len(pauses.stdout.splitlines()) > 8


def test_a_run_that_is_cut_short_keeps_the_beginnings_of_its_frames(ready: PreparedEngine, tmp_path: Path) -> None:
    octets = 64
    limits = Limits(virtual_s=0.2)
    result = lab.run("incast", on=ready, out=tmp_path, limits=limits, capture_octets=octets)
    assert result.status is Status.TIMEOUT
    with (place(result) / "captures" / "1" / "s1-eth3-to-r-eth0.pcapng").open("rb") as file:
        found = list(frames(file))
    assert len(found) > 100 and 190_000_000 < (found[-1].t_ns or 0) < 201_000_000
    assert {(frame.length, len(frame.octets)) for frame in found} == {(1514, octets)}
