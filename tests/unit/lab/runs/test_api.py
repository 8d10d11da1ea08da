"""Runs in a lab that does not do its part."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from testbed import lab
from testbed.lab import Run, Status, experiment
from testbed.lab.engines.vm import PreparedMachine, Vm
from testbed.lab.runs import api
from testbed.lab.vm import qemu
from testbed.lab.vm.qemu import ICOUNT
from testbed.lab.vm.snapshot import Snapshot


@experiment()
def nothing(run: Run) -> None:
    """Do nothing; the lab never begins with it."""


class Mute:
    """A virtual machine that runs and does nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = self
        self.pid = os.getpid()
        (folder / "out").touch()

    def __enter__(self) -> Mute:
        return self

    def __exit__(self, *_: object) -> None: ...

    def poll(self) -> None: ...


@dataclass
class Spoilt:
    """A snapshot of such a machine."""

    accelerator = ICOUNT
    discarded = 0

    @property
    def image(self) -> Any:
        return self

    digest = "digest"

    def start(self, _: bytes, folder: Path, __: object) -> Mute:
        return Mute(folder)

    def discard(self) -> None:
        self.discarded += 1


def test_a_lab_that_does_not_start_the_job_ends_with_a_diagnosis_and_its_snapshot_is_taken_again(
    xoff_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_STARTS_WITHIN_S", 0.2)
    monkeypatch.setattr(qemu, "version", lambda: "7.2.0")
    spoilt = Spoilt()
    result = lab.run(
        nothing, on=PreparedMachine(engine=Vm(), snapshot=cast(Snapshot, spoilt)), out=tmp_path / "results"
    )
    assert (result.status, result.reason) == (
        Status.LOST,
        "the lab did not start the job within 0.2 s of wall time; its snapshot may be damaged and was removed, "
        "so run it again",
    )
    assert spoilt.discarded == 1
    assert result.folder is not None
    assert json.loads((result.folder / "result.json").read_text())["status"] == "lost"
