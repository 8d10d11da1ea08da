"""RoCE between hosts of the lab: what is on the wire, how fast, and that it repeats to the nanosecond."""

from __future__ import annotations

import csv
import importlib.util
import struct
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from testbed import lab
from testbed.experiment import definition
from testbed.frames import roce
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.result import Result, Status
from tests.unit.frames.tshark import TSHARK, decode_capture

from ..conftest import ROOT, Output, Runner, kept

EXPERIMENTS = (
    "dcqcn_recovery",
    "go_back_n",
    "roce_recovery",
    "cnp_coalescing",
    "dcqcn",
    "dcqcn_model",
    "fairness",
    "ai_training_step",
    "timely",
    "rate_controls",
    "window_model",
    "long_haul",
    "storm_dcqcn",
    "deadlock_dcqcn",
    "tcp_beside_roce",
    "flow_completion",
    "roce_v6",
)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_claim_holds_and_the_lab_kept_its_promises(ready: PreparedEngine, tmp_path: Path, name: str) -> None:
    kept(name, ready, tmp_path)


def folder_of(result: Result) -> Path:
    assert result.status is Status.OK, result.reason
    assert result.passed, [claim for claim in result.claims if not claim.passed]
    assert result.folder is not None
    return result.folder


def test_a_flow_fills_its_line_and_its_completion_is_the_same_to_the_nanosecond(run: Runner) -> None:
    first, again = run("roce:fills_a_line"), run("roce:fills_a_line")
    folder_of(first)
    assert first.figure("completion") == again.figure("completion")
    assert first.digest == again.digest


@pytest.mark.long
@pytest.mark.engines("vm")
def test_a_flow_fills_a_line_of_100_mbps_with_the_cpu_at_most_62_percent_busy(
    vm: PreparedEngine, tmp_path: Path
) -> None:
    """Where an instruction takes a nanosecond, so that this is the same on every machine; `bench/roce.py` has more.

    The kernel counts idle time in hundredths of a second, so of 1.2 s it is known to 1 %.
    """
    job = definition.load_file(ROOT / "bench" / "jobs" / "roce.py", "whole")
    found = lab.run(job, parameters={"milliseconds": "1200"}, on=vm, out=tmp_path).check()
    assert found.figure("lost") == 0
    assert float(found.figure("filled")) >= 0.98
    assert float(found.figure("busy")) <= 0.62


def test_a_rate_control_without_marks_warns_of_the_ports_and_with_them_it_is_notified(
    run: Runner, output: Output
) -> None:
    result = run("roce:goes_by_marks")
    folder = folder_of(result)
    assert result.figure("bare: CNPs") == [0, 0]
    assert min(result.figure("marking: CNPs")) > 0
    warnings = [line for line in (folder / "output.log").read_text().splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 1
    assert "rate control dcqcn of h1 to r, h2 to r" in warnings[0]
    assert "no port on the way marks priority 3: s1-eth3." in warnings[0]
    assert warnings[0].encode() in output.err


def test_ports_stamp_telemetry_in_the_order_of_the_way_and_hpcc_without_it_warns(run: Runner) -> None:
    folder = folder_of(run("roce:stamped"))
    warnings = [line for line in (folder / "output.log").read_text().splitlines() if line.startswith("warning: ")]
    assert warnings == [
        "warning: rate control hpcc goes by telemetry alone, and keeps its first window: no port on the way stamps it: "
        "s1-eth2, s2-eth1. Port(telemetry=True) makes these ports stamp"
    ]


def test_timely_by_default_takes_little_longer_than_the_line(run: Runner) -> None:
    result = run("roce:timely_beside_fixed")
    folder_of(result)
    assert result.figure("timely") <= 1.25 * result.figure("fixed")


def test_a_rate_above_the_line_ends_the_run_with_both_values(run: Runner) -> None:
    result = run("roce:too_fast")
    assert result.status is Status.ERROR
    assert len(result.figure("refused")) == 2
    for reason in (*result.figure("refused"), result.reason):
        assert "rate is 5Gb/s, and the line of h1 is 10Mb/s;" in reason


@pytest.mark.packages("tshark")
def test_packets_on_the_wire_have_a_right_icrc_and_the_fields_of_their_flow(run: Runner) -> None:
    """Wireshark reads them too, without an expert warning."""
    folder = folder_of(run("roce:on_the_wire"))
    frames = list(read_capture(folder / "h1.pcap"))
    kinds = {frame[42] for frame in frames}
    assert {roce.Opcode.DATAGRAM, roce.Opcode.WRITE_FIRST, roce.Opcode.ACKNOWLEDGE, roce.Opcode.CNP} <= kinds
    for frame in frames:
        source, destination = (str(IPv4Address(frame[start : start + 4])) for start in (26, 30))
        (port,) = struct.unpack_from("!H", frame, 34)
        assert frame[18:22] == b"\0\0\x40\0", "identification 0, Don't Fragment"
        assert roce.Path(source, destination, port).intact(frame[42:])
        dscp, ecn = frame[15] >> 2, frame[15] & 3
        if frame[42] in (roce.Opcode.CNP, roce.Opcode.DATAGRAM):
            assert (dscp, ecn) == (48, 0)
        else:
            assert dscp == 24
            assert ecn in (2, 3)
    if TSHARK is None:
        pytest.skip("tshark is not installed: what is on the wire meets no independent decoder")
    for fields in decode_capture(folder / "h1.pcap"):
        assert "_ws.malformed" not in fields
        assert "_ws.expert" not in fields, fields["_ws.expert.message"]
        assert "infiniband.bth.opcode" in fields


def test_a_rate_control_and_a_workload_of_ones_own_run(run: Runner) -> None:
    folder_of(run("roce:own_rate_control"))


def test_a_client_waits_for_each_response(run: Runner) -> None:
    folder_of(run("roce:asks"))


def test_the_buffer_is_recorded_at_exact_times(run: Runner) -> None:
    result = run("roce:recorded")
    folder = folder_of(result)
    with (folder / "series-buffer.csv").open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    moments = [int(row["t_ns"]) for row in rows]
    assert {(moment - moments[0]) % 1_000_000 for moment in moments} == {0}
    paused = [row for row in rows if row["xoff"] == "1"]
    assert {row["port"] for row in paused} == {"s1-eth1", "s1-eth2"}
    assert {row["priority"] for row in paused} == {"3"}
    assert 90 <= max(int(row["shared"]) for row in rows) <= 100, "the threshold, in frames of six cells"
    last = {row["port"]: row for row in rows}
    assert all(row["shared"] == row["headroom"] == row["xoff"] == "0" for row in last.values())
    with (folder / "series-queue.csv").open(newline="") as opened:
        queues = [row for row in csv.DictReader(opened) if (row["port"], row["priority"]) == ("s1-eth3", "3")]
    waiting = [int(row["queued_bytes"]) for row in queues]
    assert {(int(row["t_ns"]) - moments[0]) % 1_000_000 for row in queues} == {0}
    # What the two groups hold waits in the one queue by which it leaves: frames of 1098 octets in six cells.
    assert 30 * 1098 <= max(waiting) <= result.figure("most octets queued") <= 100 * 1098
    assert waiting[-1] == 0
    assert (folder / "series-queue.parquet").is_file() is (importlib.util.find_spec("pyarrow") is not None)
    with (folder / "series-flows.csv").open(newline="") as opened:
        samples = list(csv.DictReader(opened))
    assert {row["flow"] for row in samples} == {"h1", "h2"}
    assert {"alpha", "rate_bps", "target_bps", "sent"} <= samples[0].keys()


def read_capture(file: Path) -> list[bytes]:
    """The frames of tcpdump's file, without others than those to RoCE's port."""
    octets, place, found = file.read_bytes(), 24, []
    while place < len(octets):
        _, _, length, _ = struct.unpack_from("<IIII", octets, place)
        found.append(octets[place + 16 : place + 16 + length])
        place += 16 + length
    return found
