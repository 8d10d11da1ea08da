"""Fixtures and helpers of the tests with the lab."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed import lab
from testbed.experiment import definition
from testbed.experiment.definition import Experiment
from testbed.experiment.fidelity import Thresholds, Verdict
from testbed.lab.engines import table
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.job.job import Limits
from testbed.lab.results.result import Status
from testbed.lab.studies import references
from testbed.lab.studies.references import Outcome
from tools import published_figures

from . import once
from .processes import Process, Start

ROOT = Path(__file__).parents[2]
QUOTED = published_figures.read(ROOT)
"""The figures of experiments that the documentation quotes."""
JOBS = Path(__file__).parent / "jobs"


@pytest.fixture(scope="session", autouse=True)
def _runs_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> None:
    once.Session.begin(tmp_path_factory)


@pytest.fixture(scope="session")
def ready() -> PreparedEngine:
    """The lab in virtual time, set up; `XOFF_TEST_ENGINE=vm` runs all of these tests on the other engine."""
    return table.prepare(os.environ.get("XOFF_TEST_ENGINE", "um"), print)


@pytest.fixture(scope="session")
def vm() -> PreparedEngine:
    """The virtual machine, set up: for what depends on the CPU's work, which takes no time on the other engine."""
    return table.prepare("vm", print)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of `behave:mixes` on um, of a run that nothing disturbs."""
    um = table.prepare("um", print)
    return lab.run(_job("behave:mixes"), on=um, out=tmp_path_factory.mktemp("undisturbed")).check().digest


class Output:
    """A watcher that keeps what it is shown."""

    def __init__(self) -> None:
        self.out = b""
        self.err = b""
        self.reports: list[str] = []

    def report(self, text: str) -> None:
        self.reports.append(text)

    def output(self, data: bytes, is_error: bool) -> None:
        if is_error:
            self.err += data
        else:
            self.out += data

    def progress(self, virtual_ns: int, wall_s: float) -> None: ...


@pytest.fixture
def output() -> Output:
    return Output()


Runner = Callable[..., lab.Result]
Marks = Mapping[str, Sequence[Sequence[str]]]
Cases = Mapping[str, Sequence[Mapping[str, Any]]]


def pytest_pycollect_makeitem(collector: pytest.Module, name: str, obj: object) -> list[pytest.Item] | None:
    """An experiment whose name begins with `test_` is a test: it runs in the lab, and its claims are the assertions."""
    if not (isinstance(obj, Experiment) and name.startswith("test_")):
        return None
    experiment = obj

    def in_lab(run: Runner, case: Mapping[str, Any]) -> None:
        result = run(experiment, **case).check()
        assert result.claims
        assert result.fidelity.verdict is not Verdict.DEGRADED, result.fidelity

    setattr(collector.obj, name, in_lab)  # what pytest looks up by the name has to be a function
    return list(collector._genfunctions(name, in_lab))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`CASES` of a file has parameters of its tests, those of experiments and those that take `case`:
    {"test_name": [{"delay": "0s"}, {"delay": "5us"}]}.
    """
    if "case" in metafunc.fixturenames:
        declared: Cases = getattr(metafunc.module, "CASES", {})
        cases = declared.get(metafunc.definition.name, [{}])
        ids = [",".join(f"{key}={value}" for key, value in case.items()) or "lab" for case in cases]
        metafunc.parametrize("case", cases, ids=ids)


def pytest_itemcollected(item: pytest.Item) -> None:
    """`MARKS` of a file has marks of its tests, "*" those of all: {"test_name": [("slow",)]}."""
    if isinstance(item, pytest.Function):
        declared: Marks = getattr(item.module, "MARKS", {})
        for name, *arguments in (*declared.get("*", ()), *declared.get(item.originalname, ())):
            item.add_marker(getattr(pytest.mark, name)(*arguments))


@pytest.fixture
def run(ready: PreparedEngine, tmp_path: Path, output: Output) -> Runner:
    """Run an experiment of the test's own file, or one of `jobs/`, as in run("behave:waits", how_long="1s")."""

    def one(
        job: str | Experiment,
        seed: int = 1,
        limits: Limits | None = None,
        on: PreparedEngine = ready,
        thresholds: Thresholds | None = None,
        **parameters: Any,
    ) -> lab.Result:
        experiment = job if isinstance(job, Experiment) else _job(job)
        if any(name.startswith("jobs/") for name in experiment.files):
            experiment = _beside_jobs(experiment, tmp_path / "code")
        return lab.run(
            experiment, parameters=parameters, seed=seed, limits=limits, on=on, out=tmp_path / "results",
            watcher=output, thresholds=thresholds,
        )  # fmt: skip

    return one


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a Python module; what still runs at the end is killed."""
    with ExitStack() as stack:
        counted = itertools.count()

        def one(module: str, *arguments: str | Path) -> Process:
            paths = str(ROOT) if module == "testbed" else ""  # Dask's processes have no Xoff
            process = Process(tmp_path / f"{module}-{next(counted)}.log", "-m", module, *arguments, paths=paths)
            stack.callback(process.end)
            return process

        yield one


def _beside_jobs(experiment: Experiment, folder: Path) -> Experiment:
    """Return an experiment whose file has `jobs` beside it, not above its room: a run takes what is below its file."""
    folder.mkdir(exist_ok=True)
    if not (folder / JOBS.name).exists():
        (folder / JOBS.name).symlink_to(JOBS)
    shutil.copy(experiment.source, folder)
    return replace(experiment, source=folder / experiment.source.name)


def _job(name: str) -> Experiment:
    file, _, function = name.partition(":")
    return definition.load_file(JOBS / f"{file}.py", function)


def kept(name: str, on: PreparedEngine, out: Path) -> lab.Result:
    """A shipped experiment's result: every claim holds, there is one at least, and the lab kept its promises.

    It has the digest of the repository, as `xoff verify` checks, if that is of the same image and kernel.
    """
    result = once.run(name, on=on, out=out).check()
    assert result.claims
    assert result.fidelity.verdict is Verdict.KEPT
    reference = references.read(ROOT).get(references.edition(result.provenance))
    if reference is not None and not reference.differences(result.provenance):
        found = references.compare(result, reference)
        assert found.outcome is Outcome.SAME, f"{found}; if it is meant to change: ./xoff verify --update"
    if on.engine.name == "um" and name in QUOTED:
        assert published_figures.quoted(result) == QUOTED[name], "the documentation quotes others; xoff verify --update"
    return result


def failed_claims(result: lab.Result) -> set[str]:
    """The names of the claims that do not hold, of a run that came to its end."""
    assert result.status is Status.OK, result.reason
    return {claim.name for claim in result.claims if not claim.passed}
