"""Files of the user's as parameters: they are checked before anything starts, and their content is in the job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.experiment import definition
from testbed.experiment.fidelity import Thresholds
from testbed.experiment.parameters import LARGEST_FILE, ExperimentError
from testbed.lab import File
from testbed.lab.job.job import Job, digest_of_code, in_lab, job_for, pack
from testbed.lab.runs.again import again
from testbed.lab.studies.sweep import points
from tests.unit.serve.scripted_lab import ScriptedEngine

READS = """
from testbed.lab import File, Run, experiment

@experiment
def reads(run: Run, config: File, more: tuple[File, ...] = (), extra: File | None = None, times: int = 1) -> None:
    texts = [one.read_text() for one in (config, *more, *([extra] if extra else []))]
    run.figure("read", texts * times)
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's, in which the command is given."""
    for name, content in (("leaf.json", "leaf"), ("a/switch.json", "a"), ("b/switch.json", "b")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def reads(files: Path) -> definition.Experiment:
    (files / "mine.py").write_text(READS)
    return definition.load_file(Path("mine.py"))


def prepared(experiment: definition.Experiment, **given: str) -> Job:
    return job_for(experiment, given)


def unpacked(job: Job, experiment: definition.Experiment, folder: Path) -> Path:
    """The folder of the code as the lab has it."""
    import io
    import tarfile

    with tarfile.open(fileobj=io.BytesIO(pack(job, experiment))) as archive:
        archive.extractall(folder, filter="data")
    return folder / "code"


def test_an_experiment_gets_copies_with_the_same_names_and_contents(
    reads: definition.Experiment, tmp_path: Path
) -> None:
    made = prepared(reads, config="leaf.json", more="a/switch.json,b/switch.json", extra="leaf.json")
    assert made.parameters == {
        "config": "leaf.json", "more": "switch.json,switch.json", "extra": "leaf.json", "times": 1,
    }  # fmt: skip
    code = unpacked(made, reads, tmp_path / "lab")
    found: list[object] = []

    class Noting:
        def figure(self, name: str, value: object) -> None:
            found.append(value)

    values = reads.read_parameters(in_lab(reads.parameters, Job.decode(made.encode()).parameters, code))
    assert values["config"].name == "leaf.json" and values["config"].read_bytes() == b"leaf"
    reads.body(Noting(), **values)
    assert found == [["leaf", "a", "b", "leaf"]]


def test_a_file_that_is_not_given_is_none_and_no_part_of_the_result(reads: definition.Experiment) -> None:
    assert prepared(reads, config="leaf.json").parameters == {"config": "leaf.json", "more": "", "times": 1}
    assert reads.read_parameters({"config": "leaf.json"})["extra"] is None


def test_another_content_is_another_job(reads: definition.Experiment, files: Path) -> None:
    def digest() -> str:
        return digest_of_code(prepared(reads, config="leaf.json"), reads)

    before = digest()
    assert before == digest()
    (files / "leaf.json").write_text("other")
    assert digest() != before


def test_the_command_that_makes_it_again_names_the_files_as_they_were_given(reads: definition.Experiment) -> None:
    made = prepared(reads, config="leaf.json", more="a/switch.json,b/switch.json")
    found = again(reads, made, ScriptedEngine(), Thresholds())
    assert found.command[:8] == (
        "run", "mine.py", "--set", "config=leaf.json", "--set", "more=a/switch.json,b/switch.json", "--set", "times=1",
    )  # fmt: skip
    assert list(found.files) == ["mine.py", "leaf.json", "a/switch.json", "b/switch.json"]


def test_a_grid_may_have_files(reads: definition.Experiment) -> None:
    grid = {"config": ["a/switch.json", "b/switch.json"]}
    assert points(reads, grid) == [{"config": "a/switch.json"}, {"config": "b/switch.json"}]


def test_a_list_shows_where_a_file_is_expected(reads: definition.Experiment) -> None:
    assert " ".join(map(str, reads.parameters)) == "config=FILE more=FILE,... extra=FILE times=1"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "reads needs config, a file of yours: --set config=PATH"),
        ({"config": "no.json"}, "config: the file 'no.json' cannot be read: No such file or directory"),
        ({"config": "a"}, "config: 'a' is no file"),
        ({"config": "large"}, f"config: 'large' has {LARGEST_FILE + 1} octets; a job takes files of up to 8 MiB along"),
        ({"config": "x\0y"}, "config: the file 'x\\x00y' cannot be read: embedded null byte"),
        ({"config": "leaf.json", "more": "leaf.json,"}, "more: '' is no file"),
    ],
)
def test_a_file_that_cannot_be_taken_along_is_one_message(
    reads: definition.Experiment, files: Path, given: dict[str, str], message: str
) -> None:
    with (files / "large").open("wb") as large:
        large.truncate(LARGEST_FILE + 1)
    with pytest.raises(ExperimentError) as caught:
        prepared(reads, **given)
    assert str(caught.value) == message


def test_only_a_file_may_lack_a_default(experiment_file: Callable[..., Path]) -> None:
    path = experiment_file("@experiment\ndef e(run, n: int): ...\n")
    with pytest.raises(ExperimentError, match="the parameter n needs a default value"):
        definition.load_file(path)


def test_a_file_is_a_path_for_functions_that_take_one(files: Path) -> None:
    with open(File(Path("leaf.json"))) as file:
        assert file.read() == "leaf"
