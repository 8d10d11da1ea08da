"""Whatever a job does, the run ends with a reason, keeps what there was, and leaves nothing behind."""

from __future__ import annotations

import json
import re

import pytest

from testbed.lab import Result, Status
from testbed.lab.engines import table
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.job.job import Limits
from testbed.lab.results.result import Exit
from testbed.lab.runs import api

from ..conftest import JOBS, Output, Runner

pytestmark = pytest.mark.engines("vm", "um")


@pytest.fixture(scope="module", params=["vm", "um"])
def ready(request: pytest.FixtureRequest) -> PreparedEngine:
    """Return the engines in virtual time, one after the other."""
    return table.prepare(request.param, print)


def at(code: str) -> str:
    """A reason's end for a job that was at the first line of `misbehave.py` that is this, or at a loop's head above."""
    lines = [line.strip() for line in (JOBS / "misbehave.py").read_text().splitlines()]
    number = lines.index(code) + 1
    found = f"({number - 1}|{number})" if lines[number - 2] == "while True:" else str(number)
    return rf"at line {found} of misbehave\.py \(the stack is in output\.log\)"


def assert_kept(result: Result, output: Output) -> None:
    """Check that what the job printed and left before it went wrong is in the result and in the folder."""
    assert result.figure("begun") == 1
    assert output.out.startswith(b"begun\n")
    assert result.folder is not None
    assert (result.folder / "output.log").read_bytes().startswith(b"begun\n")
    written = json.loads((result.folder / "result.json").read_text())
    assert written["status"] == result.status
    assert written["reason"] == result.reason


@pytest.mark.parametrize(
    ("job", "limits", "status", "reason", "code"),
    [
        ("raises", {}, Status.ERROR, "ValueError: something is odd", Exit.ERROR),
        ("refuses", {}, Status.ERROR, "XoffError: the cable is not plugged in; plug it in", Exit.ERROR),
        ("exits", {}, Status.ERROR, "the job ended with exit code 7", Exit.ERROR),
        ("crashes", {}, Status.ERROR, "the job was ended by SIGABRT", Exit.ERROR),
        (
            "sleeps",
            {"virtual_s": 2},
            Status.TIMEOUT,
            f"the job did not end within 2 s of virtual time; it was in sleeps, {at('time.sleep(10_000)')}"
            "; --timeout gives it longer",
            Exit.LIMIT,
        ),
        (
            "spins",
            {"virtual_s": 1e5, "wall_s": 6},
            Status.WALL_TIMEOUT,
            f"the job did not end within 6 s of wall time; it was in spins, {at('pass')}"
            "; --wall-timeout gives it longer",
            Exit.LIMIT,
        ),
        (
            "spins_in_a_child",
            {"virtual_s": 1e5, "wall_s": 6},
            Status.WALL_TIMEOUT,
            f"the job did not end within 6 s of wall time; it was in _waits, {at('os.wait()')}"
            "; --wall-timeout gives it longer",
            Exit.LIMIT,
        ),
        (
            "spins_deaf",
            {"virtual_s": 1e5, "wall_s": 6},
            Status.WALL_TIMEOUT,
            "the job did not end within 6 s of wall time",
            Exit.LIMIT,
        ),
        (
            "eats",
            {"memory_mb": 100},
            Status.MEMORY,
            "the job used more than its 100 MB of memory; --memory raises that",
            Exit.LIMIT,
        ),
    ],
)
def test_a_job_that_goes_wrong_ends_with_its_reason_and_keeps_what_it_had(  # noqa: PLR0917
    run: Runner,
    output: Output,
    ready: PreparedEngine,
    job: str,
    limits: dict[str, float],
    status: Status,
    reason: str,
    code: Exit,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(api, "_STALLS_AFTER_S", 1.0)
    monkeypatch.setattr(api, "_STALLS_EVERY_S", 0.5)  # two looks are needed before the limit, on a busy machine too
    if job == "spins_in_a_child" and ready.engine.name != "um":
        pytest.skip("on vm a command reaches a supervisor by a signal, which waits for the process that spins")
    result = run(f"misbehave:{job}", limits=Limits(**limits))  # type: ignore[arg-type]
    assert result.status is status
    assert re.fullmatch(reason, result.reason), result.reason
    assert result.exit_code() == code
    assert not result.passed
    assert_kept(result, output)
    if job == "raises":
        # From the user's first line on; the line of the error is the result's reason, and is said once.
        assert output.err.startswith(b"Traceback") and b"supervisor.py" not in output.err
        assert re.search(rb'raise ValueError\("something is odd"\)\n[ ~^]*\n?$', output.err), output.err
    elif job == "refuses":  # an error that is meant for the user comes without a traceback
        assert output.err == b""
    stalls = [said for said in output.reports if "the lab's clock has stood still" in said]
    assert len(stalls) == (ready.engine.name == "um" and job.startswith("spins")), output.reports
    assert result.folder is not None
    assert (result.folder / "kept.txt").read_text() == "kept"
    assert '"event": "begun"' in (result.folder / "events.jsonl").read_text()


def test_a_job_that_prints_for_ever_ends(run: Runner, output: Output) -> None:
    result = run("misbehave:floods", limits=Limits(output_mb=2))
    assert (result.status, result.reason) == (Status.ERROR, "the job printed and reported more than its 2 MB")
    assert_kept(result, output)
    assert 2 << 20 < len(output.out) < 3 << 20


def test_a_lab_that_writes_more_than_its_job_may_ends(run: Runner, output: Output, ready: PreparedEngine) -> None:
    """A job can write to the console of its kernel, which is a file on the user's machine."""
    if ready.engine.name != "um":
        pytest.skip("a virtual machine takes minutes to write so much: tests/unit/lab/engines/test_qemu.py")
    result = run("misbehave:floods", path="/dev/console")
    assert result.status is Status.LOST
    assert result.reason == "the lab wrote more than 64 MB to its console, and was ended"
    assert_kept(result, output)


def test_a_job_that_forks_for_ever_ends_by_a_limit(run: Runner, output: Output, ready: PreparedEngine) -> None:
    """It is the limit of virtual time on vm, and mostly of wall time on um, where a refused fork takes half a us."""
    um = ready.engine.name == "um"
    limits = Limits(virtual_s=1, wall_s=6 if um else 120, processes=64)
    result = run("misbehave:forks", limits=limits)
    assert result.status in ((Status.TIMEOUT, Status.WALL_TIMEOUT) if um else (Status.TIMEOUT,))
    assert result.exit_code() == Exit.LIMIT
    assert_kept(result, output)
    assert result.folder is not None
    assert (result.folder / "kept.txt").read_text() == "kept"


def test_a_job_that_is_refused_processes_reports_it(run: Runner, output: Output) -> None:
    result = run("misbehave:forks", limits=Limits(processes=64), politely=True)
    assert result.status is Status.PROCESSES
    assert result.reason.startswith("the job needed more than its 64 processes")
    assert_kept(result, output)


def test_a_kernel_panic_is_reported_with_what_the_kernel_said(
    run: Runner, output: Output, ready: PreparedEngine
) -> None:
    if ready.engine.name == "um":
        pytest.skip("User-Mode Linux has no magic SysRq key; tests/lab/engines/test_um.py has another panic")
    result = run("misbehave:panics")
    assert result.status is Status.LOST
    assert result.reason.startswith("the lab's kernel panicked; its last output:")
    assert "sysrq" in result.reason
    assert result.exit_code() == Exit.MACHINE
    assert_kept(result, output)


def test_a_daemon_left_behind_does_not_hold_the_run_up(run: Runner) -> None:
    result = run("misbehave:survives_its_children")
    assert result.status is Status.OK
    assert result.times.virtual_ns < 2_000_000_000
