"""Experiments as JSON, of which the same experiments are made without their files being read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.experiment import definition
from testbed.experiment.definition import Origin
from testbed.experiment.described import described, experiment_of
from testbed.experiment.module_level import VARIABLE
from testbed.experiment.parameters import ExperimentError

ALL = definition.shipped()


def without_code(one: definition.Experiment) -> definition.Experiment:
    return replace(
        one, body=print, parameters=tuple(replace(parameter, limits=None) for parameter in one.parameters), origin=None
    )


@pytest.mark.parametrize("one", ALL, ids=lambda one: str(one.name))
def test_an_experiment_made_of_its_description_is_the_one_described(one: definition.Experiment) -> None:
    made = experiment_of(json.loads(json.dumps(described(one))), one.source, f"{one.source}:{one.name}")
    assert without_code(made) == without_code(one)
    assert made.summary == one.summary
    assert made.origin == Origin(("run", f"{one.source}:{one.name}"), (str(one.source),))
    with pytest.raises(ExperimentError, match="runs in the lab alone"):
        made.body()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../x"}, {"name": 1}, {"timeout": "soon"}, {"timeout": 3}, {"partitions": True}, {"partitions": 0},
        {"files": "a"}, {"files": [1]}, {"parameters": [{}]}, {"free_cpu": 1},
        {"parameters": [{"name": "n", "kind": "Path", "default": "1", "is_required": False, "is_several": False}]},
        {"parameters": [{"name": "n", "kind": "int", "default": "x", "is_required": False, "is_several": False}]},
    ],
    ids=str,
)  # fmt: skip
def test_what_describes_no_experiment_is_refused_in_one_line(change: dict[str, Any]) -> None:
    with pytest.raises((ExperimentError, UsageError)) as caught:
        experiment_of({**described(ALL[0]), **change}, Path("theirs.py"), "theirs.py")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [None, [], "x", 1, {}])
def test_what_is_no_description_is_refused(content: Any) -> None:
    with pytest.raises(ExperimentError, match="the lab has read something else than an experiment"):
        experiment_of(content, Path("theirs.py"), "theirs.py")


def test_a_file_that_is_for_the_lab_alone_is_not_executed_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "theirs.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nfrom xoff import experiment\n@experiment\ndef x(run): 1\n")
    monkeypatch.setenv(VARIABLE, "1")
    with pytest.raises(UsageError, match="is for the lab alone, as XOFF_READ_IN_LAB is set"):
        definition.find(str(file))
    assert [*tmp_path.iterdir()] == [file]
    assert definition.find("hello").name == "hello"  # Xoff's own are read
