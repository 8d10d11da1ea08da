"""Jobs: a lab gets all that it needs, as the same bytes for the same inputs."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testbed
from testbed.errors import UsageError
from testbed.experiment import definition
from testbed.experiment.definition import Experiment
from testbed.experiment.parameters import ExperimentError
from testbed.experiment.run import Run
from testbed.lab.host import sources
from testbed.lab.job import job
from testbed.lab.job.job import Job, Limits, RunOptions, Terminal, digest_of_code, job_for, pack
from testbed.lab.job.run_job import run_job
from testbed.lab.vm import qemu

Write = Callable[..., Path]
ROOT = Path(testbed.__path__[0]).parent
LIMITS = Limits(virtual_s=3)
finite = st.floats(allow_nan=False, allow_infinity=False)
above_zero = st.floats(0, exclude_min=True, allow_infinity=False)
jobs = st.builds(
    Job,
    source=st.text(),
    name=st.text(),
    parameters=st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | finite | st.text()),
    seed=st.integers(0),
    limits=st.builds(Limits, above_zero, above_zero, st.integers(1), st.integers(1), st.integers(1)),
    reproducible=st.booleans(),
    terminal=st.none() | st.builds(Terminal, st.integers(), st.integers(), st.text()),
)
USERS_OWN = """
@experiment(files=("table.txt", "deep/er.txt"))
def reads(run: Run, rate: Rate = Rate("25Gb/s"), times: int = 1) -> None:
    folder = Path(__file__).parent
    words = [(folder / name).read_text() for name in ("table.txt", "deep/er.txt")]
    run.figure("words", words * times, str(rate))
"""


@pytest.fixture
def users_own(experiment_file: Write) -> Experiment:
    """An experiment of a user's, with two files."""
    path = experiment_file(f"from testbed.units import Rate\nfrom pathlib import Path\n{USERS_OWN}")
    (path.parent / "table.txt").write_text("one")
    (path.parent / "deep").mkdir()
    (path.parent / "deep" / "er.txt").write_text("two")
    (path.parent / "unasked.txt").write_text("three")
    return definition.load_file(path)


def prepared(experiment: Experiment, **given: Any) -> Job:
    return job_for(experiment, given, RunOptions(7, LIMITS))


def members(content: bytes) -> dict[str, bytes]:
    """The files of a tar, in its order."""
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


def complaint(experiment: Experiment) -> str:
    with pytest.raises(UsageError) as caught:
        pack(prepared(experiment), experiment)
    return str(caught.value)


# What is asked


@given(jobs)
def test_a_job_travels_as_text_and_comes_back_equal_but_for_the_wall_time(asked: Job) -> None:
    usual = replace(asked, limits=replace(asked.limits, wall_s=Limits().wall_s))
    assert Job.decode(asked.encode()) == usual


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"virtual_s": 0}, "limits: virtual_s is 0; it is a number of seconds of virtual time, above 0"),
        ({"wall_s": float("nan")}, "limits: wall_s is nan; it is a number of seconds of wall time, above 0"),
        ({"memory_mb": -5}, "limits: memory_mb is -5; it is a whole number from 1 up"),
        ({"processes": 0}, "limits: processes is 0; it is a whole number from 1 up"),
    ],
)
def test_a_limit_that_nothing_can_keep_is_refused(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Limits(**limits)
    assert str(caught.value) == message


def test_the_limit_of_wall_time_changes_nothing_in_the_lab(users_own: Experiment) -> None:
    """What a lab reads takes virtual time, and so it would change the digest."""
    asked = prepared(users_own)
    longer = replace(asked, limits=replace(asked.limits, wall_s=12345.678))
    assert pack(longer, users_own) == pack(asked, users_own)


def test_equal_jobs_are_equal_text() -> None:
    one, other = Job("x.py", "x", {"a": 1, "b": 2}), Job("x.py", "x", {"b": 2, "a": 1})
    assert one.encode() == other.encode()


def test_a_job_has_every_parameter_as_people_write_it(users_own: Experiment) -> None:
    assert prepared(users_own, times="3") == Job(
        "user/mine.py", "reads", {"rate": "25Gb/s", "times": 3}, 7, LIMITS, reproducible=True, terminal=None
    )


def test_a_wrong_parameter_is_refused_before_anything_starts(users_own: Experiment) -> None:
    with pytest.raises(ExperimentError, match=r"^times=x: a whole number is expected$"):
        prepared(users_own, times="x")


def test_a_shipped_experiment_is_where_it_is_in_xoff() -> None:
    assert prepared(definition.find("hello")).source == "experiments/hello.py"


# What is packed


def test_the_same_inputs_are_the_same_bytes(users_own: Experiment) -> None:
    asked = prepared(users_own)
    first = pack(asked, users_own)
    for path in users_own.source.parent.rglob("*.txt"):
        os.utime(path, (1, 1))
        path.chmod(0o600)
    assert pack(asked, users_own) == first


def test_members_are_sorted_and_say_nothing_of_this_machine(users_own: Experiment) -> None:
    with tarfile.open(fileobj=io.BytesIO(pack(prepared(users_own), users_own)), mode="r:") as archive:
        found = archive.getmembers()
    assert [member.name for member in found] == sorted({member.name for member in found})
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode, m.type) for m in found} == {
        (0, 0, 0, "", "", 0o644, tarfile.REGTYPE)
    }


@pytest.mark.parametrize(
    "change",
    [
        lambda found: (found.source.parent / "table.txt").write_text("other"),
        lambda found: found.source.write_text(found.source.read_text() + "# a comment"),
    ],
    ids=["a file", "the source"],
)
def test_another_input_is_other_bytes(change: Callable[[Experiment], object], users_own: Experiment) -> None:
    asked = prepared(users_own)
    first = pack(asked, users_own)
    change(users_own)
    assert pack(asked, users_own) != first


def test_the_digest_of_code_is_of_files_alone(users_own: Experiment) -> None:
    first = digest_of_code(prepared(users_own), users_own)
    others = (prepared(users_own, times=2), replace(prepared(users_own), seed=2, limits=Limits(virtual_s=9)))
    assert {digest_of_code(other, users_own) for other in others} == {first}
    (users_own.source.parent / "table.txt").write_text("another")
    assert digest_of_code(prepared(users_own), users_own) != first


def test_the_digest_of_our_code_is_read_again_and_is_that_of_all_that_a_lab_holds(
    xoff_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources.Stamp, "is_settled", True)
    whole = hashlib.sha256(job.held(job.OURS)).hexdigest()
    shipped = job_for(definition.find("hello"), {})
    assert job.code_digest() == job.digest_of_held() == digest_of_code(shipped) == whole
    (kept,) = xoff_cache.glob("code-digest-*/digest")
    kept.write_text("a" * 64)
    assert job.code_digest() == digest_of_code(shipped) == "a" * 64
    kept.write_text("damaged")
    assert job.code_digest() == whole and kept.read_text() == whole


def test_without_a_cache_the_digest_of_our_code_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XOFF_CACHE", str(tmp_path / "file" / "cache"))
    assert job.code_digest() == hashlib.sha256(job.held(job.OURS)).hexdigest()


def test_a_job_has_all_of_xoffs_code_and_no_compiled_files() -> None:
    asked = prepared(definition.find("hello"))
    found = members(pack(asked, definition.find("hello")))
    assert Job.decode(found.pop("job.json").decode()) == asked
    for name in (
        "testbed/lab/job/supervisor.py",
        "testbed/lab/packages.toml",
        "topologies/star.py",
        "experiments/hello.py",
    ):
        assert found[f"code/{name}"] == (ROOT / name).read_bytes()
    packages = {"testbed", "snappi_xoff", "topologies", "controllers", "experiments", "xoff.py"}
    assert {tuple(name.split("/")[:2]) for name in found} == {("code", package) for package in packages}
    assert [name for name in found if name.endswith(".pyc") or "__pycache__" in name] == []


@pytest.mark.parametrize("name", [job.DIGESTS, job.FIGURES, job.COSTS])
def test_no_job_depends_on_the_results_of_earlier_runs(name: str) -> None:
    assert (Path(testbed.__file__).parents[1] / name).exists()
    assert name not in job.code()


def test_a_users_job_has_its_file_and_those_it_names_and_no_others(users_own: Experiment) -> None:
    found = members(pack(prepared(users_own), users_own))
    assert {name: text for name, text in found.items() if name.startswith("code/user/")} == {
        "code/user/mine.py": users_own.source.read_bytes(),
        "code/user/table.txt": b"one",
        "code/user/deep/er.txt": b"two",
    }


def test_a_job_without_an_experiment_is_the_code_alone() -> None:
    shell = Job("", "star,4", {}, terminal=Terminal(50, 132, "xterm-256color"))
    found = members(pack(shell))
    assert Job.decode(found.pop("job.json").decode()) == shell
    assert found == {f"code/{name}": content for name, content in job.code().items()}


def test_what_a_lab_holds_and_what_it_is_brought_are_all_code_and_nothing_twice(users_own: Experiment) -> None:
    held, brought = members(job.held(job.HELD)), members(pack(prepared(users_own), users_own, held=job.HELD))
    assert not held.keys() & brought.keys()
    assert held | brought == members(pack(prepared(users_own), users_own))
    assert {"code/testbed/lab/guest_main.py", "code/topologies/star.py"} <= held.keys()
    assert {"job.json", "code/user/mine.py", "code/experiments/hello.py"} <= brought.keys()


def test_a_lab_that_holds_all_of_ours_is_brought_the_users_files_alone(users_own: Experiment) -> None:
    brought = members(pack(prepared(users_own), users_own, held=job.OURS))
    assert brought.keys() == {"job.json", "code/user/mine.py", "code/user/table.txt", "code/user/deep/er.txt"}
    assert members(job.held(job.OURS)).keys() == {f"code/{name}" for name in job.code()}


def test_what_a_lab_holds_is_the_same_bytes_until_xoff_changes() -> None:
    assert job.held(job.HELD) == job.held(job.HELD)


def test_what_is_packed_can_be_done_where_it_is_unpacked(users_own: Experiment, tmp_path: Path) -> None:
    lab, left = tmp_path / "lab", tmp_path / "left"
    left.mkdir()
    with tarfile.open(fileobj=io.BytesIO(pack(prepared(users_own, times=2), users_own))) as archive:
        archive.extractall(lab)
    notes = io.StringIO()
    asked = Job.decode((lab / "job.json").read_text())
    run_job(asked, Run(asked.seed, 0, left, notes), lab / "code")
    assert notes.getvalue() == (
        '{"note": "figure", "name": "words", "value": ["one", "two", "one", "two"], "unit": "25Gb/s"}\n'
    )


# What cannot be packed


def with_files(experiment_file: Write, *names: str) -> Experiment:
    return definition.load_file(experiment_file(f"@experiment(files={names})\ndef lacks(run: Run) -> None: ..."))


def test_a_file_that_cannot_be_read_is_named(experiment_file: Write) -> None:
    lacking = with_files(experiment_file, "gone.txt")
    path = lacking.source.parent / "gone.txt"
    assert complaint(lacking) == (
        f"lacks needs {path}, which cannot be read: [Errno 2] No such file or directory: '{path}'"
    )


def test_a_directory_is_no_file(experiment_file: Write) -> None:
    (experiment_file("").parent / "folder").mkdir()
    assert complaint(with_files(experiment_file, "folder")).startswith("lacks needs ")


@pytest.mark.parametrize("name", ["{}/outside.txt", "../outside.txt", "deep/../../outside.txt"])
def test_a_file_elsewhere_cannot_be_beside_the_experiment(name: str, tmp_path: Path, experiment_file: Write) -> None:
    (tmp_path / "outside.txt").write_text("not yours")
    (tmp_path / "user" / "deep").mkdir(parents=True)
    assert complaint(with_files(experiment_file, name.format(tmp_path))).startswith("lacks needs ")


def test_a_file_whose_name_is_long_is_packed_or_refused_in_words(experiment_file: Write) -> None:
    name = "x" * 120
    (experiment_file("").parent / name).write_text("content")
    lacking = with_files(experiment_file, name)
    try:
        content = pack(prepared(lacking), lacking)
    except UsageError as error:
        assert name in str(error)
    else:
        assert members(content)[f"code/user/{name}"] == b"content"


def test_a_job_that_the_lab_has_no_room_for_is_refused(experiment_file: Write) -> None:
    with (experiment_file("").parent / "big.bin").open("wb") as big:
        big.truncate(33 << 20)
    packed = (len(job.held(job.OURS)) + (33 << 20)) >> 20
    assert complaint(with_files(experiment_file, "big.bin")) == (
        f"the job and its files have {packed} MB; the lab takes 31 MB"
    )


def test_the_largest_job_and_its_length_fill_the_labs_room() -> None:
    assert job.LARGEST + 8 == qemu.JOB_SPACE_MB << 20


def test_a_users_program_is_one_in_the_lab_too_and_its_code_another(users_own: Experiment) -> None:
    def modes() -> dict[str, int]:
        with tarfile.open(fileobj=io.BytesIO(pack(job_for(users_own, {}), users_own, held=job.OURS))) as archive:
            return {member.name: member.mode for member in archive}

    program = users_own.source.parent / "table.txt"
    before, code = modes(), digest_of_code(job_for(users_own, {}), users_own)
    program.chmod(0o750)
    changed = {name: mode for name, mode in modes().items() if before[name] != mode}
    assert changed == {"code/user/table.txt": 0o755}
    assert digest_of_code(job_for(users_own, {}), users_own) != code
