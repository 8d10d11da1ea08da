"""Captures of a network over several kernels: each kernel has those of its own nodes, and the folder has all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed import lab
from testbed.experiment import definition
from testbed.frames import capture_file
from testbed.lab.engines.engine import PreparedEngine

from ..conftest import JOBS, Output


@pytest.mark.engines("um")
def test_captures_have_each_frame_that_crosses_the_cut(ready: PreparedEngine, tmp_path: Path, output: Output) -> None:
    job = definition.load_file(JOBS / "partition.py", "roce")
    result = lab.run(job, on=ready, out=tmp_path, capture_octets=128, watcher=output).check()
    assert result.folder is not None
    files = sorted(path.name for path in (result.folder / "captures" / "1").iterdir())
    cables = [(f"h{rack}{host}-eth0", f"s{rack}-eth{port}") for rack in (1, 2) for host, port in (("a", 1), ("b", 2))]
    ways = [way for cable in [*cables, ("s1-eth3", "s2-eth3")] for way in (cable, cable[::-1])]
    assert files == sorted(f"{source}-to-{target}.pcapng" for source, target in ways)
    assert {f"captures/1/{name}" for name in files} <= result.files.keys()
    crossed = json.loads((result.folder / "partition.jsonl").read_text())["cables"][0]["from"]
    for source, target in (("s1", "s2"), ("s2", "s1")):
        with (result.folder / "captures" / "1" / f"{source}-eth3-to-{target}-eth3.pcapng").open("rb") as file:
            captured = sum(1 for _ in capture_file.frames(file))
        assert captured == crossed[source]["sent"] > 0
    assert output.reports == []
