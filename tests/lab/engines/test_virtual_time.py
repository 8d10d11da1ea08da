"""The promise: the lab's time is its own, and the same inputs give the same bytes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from testbed.experiment.fidelity import Thresholds, Verdict
from testbed.lab import Result, Status
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.result import Exit

from ..conftest import Output, Runner


def test_idle_time_costs_nothing_and_is_exact(run: Runner) -> None:
    begin = time.monotonic()
    result = run("behave:waits", how_long="300s")
    assert result.status is Status.OK
    late_ns = result.figure("slept") - 300 * 10**9
    assert 0 <= late_ns < 200_000  # the timer's own slack is 50 us
    assert time.monotonic() - begin < 300  # however slow this machine is


def test_output_and_files_arrive_as_the_job_wrote_them(run: Runner, output: Output) -> None:
    result = run("behave:says", lines=5000)
    expected = "".join(f"line {number}\n" for number in range(5000)) + "no end of line"
    assert output.out.decode() == expected
    assert output.err == b"to standard error\n"
    assert result.folder is not None
    assert (result.folder / "deep/er/binary").read_bytes() == bytes(range(256)) * 8192
    assert (result.folder / "empty").read_bytes() == b""
    assert not (result.folder / "link").exists()
    assert (result.folder / "job-result.json").read_text() == "not the real one"
    assert set(result.files) == {
        "output.log", "events.jsonl", "empty", "deep/er/binary", "job-result.json"
    }  # fmt: skip


def test_the_seed_reaches_every_source_of_chance(run: Runner) -> None:
    same = [run("behave:draws", seed=7) for _ in range(2)]
    other = run("behave:draws", seed=8)
    assert same[0].digest == same[1].digest
    for figure in same[0].figures:
        assert figure.value != other.figure(figure.name), f"{figure.name} does not depend on the seed"
    # Request and reply each pass the qdisc with its 50 % loss: 10 of 40 are answered on average.
    assert 2 < len(same[0].figure("answers")) < 20


def test_a_busy_cpu_degrades_the_verdict_only_while_measuring(run: Runner, vm: PreparedEngine) -> None:
    busy = run("behave:works", on=vm)
    assert busy.fidelity.verdict is Verdict.DEGRADED
    assert busy.fidelity.idle_percent is not None
    assert busy.fidelity.idle_percent < 1
    assert "the CPU was busy" in busy.fidelity.reasons[0]
    assert busy.exit_code() is Exit.DEGRADED
    assert busy.exit_code(allow_degraded=True) is Exit.OK
    rested = run("behave:works", on=vm, measured=False)
    assert rested.fidelity.verdict is Verdict.KEPT
    assert rested.fidelity.idle_percent is not None
    assert rested.fidelity.idle_percent > 95
    assert rested.fidelity.timer_late_ns is not None
    assert rested.fidelity.timer_late_ns < 200_000


@pytest.mark.parametrize(
    ("lasts", "span"),
    [
        ("400ms", "[34][0-9]0ms, in which the kernel looked [34][0-9] times"),  # fewer than a span has: all are one
        pytest.param("1200ms", "500ms, in which the kernel looked 50 times", marks=pytest.mark.long),
    ],
    ids=["a part of a span", "a span"],
)
def test_on_um_system_calls_keep_the_cpu_busy_which_counts_where_idle_time_is_asked_for(
    run: Runner, lasts: str, span: str
) -> None:
    asked = Thresholds(idle_percent=2)
    part = run("behave:calls", percent=90, lasts=lasts, thresholds=asked)
    assert part.fidelity.idle_percent == 0, "in a window of 100 ms each of the ten ticks met a call"
    assert part.fidelity.verdict is Verdict.KEPT, part.fidelity
    whole = run("behave:calls", percent=100, lasts=lasts, thresholds=asked)
    assert whole.fidelity.verdict is Verdict.DEGRADED
    assert re.match(f"the CPU was busy: {span}, had 0 % idle", whole.fidelity.reasons[0])
    usual = run("behave:calls", percent=100, lasts=lasts)
    assert (usual.fidelity.verdict, usual.fidelity.idle_percent) == (Verdict.KEPT, 0)


def test_setting_a_network_up_degrades_no_verdict(run: Runner, vm: PreparedEngine) -> None:
    result = run("topologies:rests", on=vm, wanted="incast,8")
    assert result.figure("set up in") > 200  # ms, in which the CPU was busy: two windows or more
    assert result.fidelity.verdict is Verdict.KEPT, result.fidelity
    assert 15 <= result.fidelity.windows <= 20


def test_the_shipped_controllers_start_and_a_switch_connects(run: Runner) -> None:
    result = run("behave:controllers_start")
    assert result.check().passed


def test_what_a_job_imports_does_not_move_its_network(run: Runner) -> None:
    few, many = run("behave:imports"), run("behave:imports", modules="sqlite3 http.client scapy.all")
    assert few.check().figure("last frames") == many.check().figure("last frames")
    assert few.figure("setuptools") is False, "Mininet asks for one module of distutils, which brings 140"


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=pytest.mark.long)])
def test_runs_on_an_idle_and_on_a_busy_machine_are_one_result(run: Runner, count: int) -> None:
    """Half of the runs have more busy processes beside them than there are cores; `bench/repeats.py` makes more."""

    def half() -> list[Result]:
        with ThreadPoolExecutor(2) as pool:  # two at a time
            return list(pool.map(lambda _: run("behave:mixes"), range(count // 2)))

    results = half()
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range((os.cpu_count() or 1) + 1)]
    try:
        results += half()
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert {result.status for result in results} == {Status.OK}
    captures = {result.files["last.pcap"] for result in results}
    assert len(captures) == 1
    assert results[0].folder is not None
    assert Path(results[0].folder, "last.pcap").stat().st_size > 500_000  # there was traffic to differ in
    assert len({result.digest for result in results}) == 1
