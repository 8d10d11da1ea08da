"""The kernel's RoCE against that of Python: the same packets at the same nanosecond, whatever happens to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.lab.results.result import Status

from ..conftest import Runner
from .both import load
from .random_links import Done, run_both

JOBS = Path(__file__).parents[1] / "jobs" / "roce.py"


@pytest.fixture(scope="module")
def library(library_file: Path) -> Any:
    """The library that is built with the kernel of `um`."""
    return load(library_file)


@pytest.mark.engines("um")
@pytest.mark.parametrize("seed", range(30))
def test_both_do_the_same(library: Any, seed: int) -> None:
    run_both(library, seed, 1500)


@pytest.mark.engines("um")
@pytest.mark.long
def test_both_do_the_same_in_a_million_packets_of_all_operations_and_services(library: Any) -> None:
    done, seed = Done(), 1000
    while done.packets < 1_000_000:
        run_both(library, seed, 4000, done)
        seed += 1
    assert min(done.messages[service] for service in ("RC", "UC", "UD")) > 10_000
    print(f"{done.packets} packets, {done.events} events, messages {done.messages}")


@pytest.mark.engines("um")
def test_the_kernel_serves_rate_controls_that_have_code_and_python_all_others(run: Runner) -> None:
    result = run("roce:who_serves")
    assert result.status is Status.OK, result.reason
    assert result.passed, [claim for claim in result.claims if not claim.passed]
    assert result.provenance.rate_controls == {
        "Dcqcn": "code in the kernel", "Swift": "code in the kernel", "Plain": "code in the kernel, Python",
        "Logarithm": "Python",
    }  # fmt: skip


@pytest.mark.engines("um")
@pytest.mark.parametrize("job", ["faulty", "faulty_in_python"])
def test_a_fault_of_a_rate_control_ends_its_flow_and_names_its_line(run: Runner, job: str) -> None:
    result = run(f"roce:{job}")
    assert result.status is Status.OK, result.reason
    assert result.passed, [claim for claim in result.claims if not claim.passed]
    line = next(number for number, text in enumerate(JOBS.read_text().splitlines(), 1) if "1e12 / max" in text)
    (failure,) = (figure.value for figure in result.figures if figure.name == "failure")
    assert failure == f"its rate control has a fault: a division by 0, at roce.py:{line}"


@pytest.mark.engines("um")
def test_the_kernel_refuses_code_that_could_reach_outside_its_frame(run: Runner) -> None:
    result = run("roce:refused_programs")
    assert result.status is Status.OK, result.reason
    assert result.passed, [claim for claim in result.claims if not claim.passed]


@pytest.mark.engines("um")
def test_a_killed_process_ends_its_queue_pairs_and_leaves_nothing(run: Runner) -> None:
    result = run("roce:killed")
    assert result.status is Status.OK, result.reason
    assert result.passed, [claim for claim in result.claims if not claim.passed]


@pytest.mark.engines("um")
def test_packets_above_the_mtu_are_an_error_that_says_so(run: Runner) -> None:
    result = run("roce:too_long")
    assert result.status is Status.ERROR
    assert "its packets are too long for the MTU of the port" in result.reason


@pytest.mark.engines("um")
def test_a_notification_concerns_a_flow_or_all_of_its_priority(run: Runner) -> None:
    result = run("roce:notified_by_priority")
    assert result.status is Status.OK, result.reason
    assert result.passed, [claim for claim in result.claims if not claim.passed]
