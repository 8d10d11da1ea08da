"""Time series: the rows of samples, and the reader of the files."""

from __future__ import annotations

import importlib
import threading
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from testbed.errors import UsageError
from testbed.experiment.run import Run
from testbed.lab.results import series as reading
from testbed.linux.netlink.link_state import Sent
from testbed.linux.port_program import GroupCounters
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.fabric import Fabric
from testbed.net.watch import series
from testbed.net.watch.samplers import GroupSampler, LoadSampler, QueueSampler, ticks
from testbed.units import Scale

IDLE = GroupCounters((0, 0, 0), (0, 0, 0), 0, False, 0, 0, 0, 0, 0, 0, (0,) * 4, (0,) * 4, 0)


def core_with(program: Any) -> Any:
    core: Any = FabricCore()
    core.program = program
    return core


class OneSecondAgo:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lab_ns = 10**9
        self.series_ns = 0


def test_samples_of_flows_are_rows_with_times_of_the_run(tmp_path: Path) -> None:
    began = time.monotonic_ns() - 10**9
    one = SimpleNamespace(scale=Scale(1000), samples=({"lab_ns": began + 5, "rate_bps": 1e7, "alpha": 1.0},))
    other = SimpleNamespace(scale=Scale(1), samples=({"lab_ns": began + 5, "rate_bps": 2e7},))
    series.flows(cast(Run, OneSecondAgo(tmp_path)), [one, other], ["h1"])
    header, *rows = (tmp_path / "series-flows.csv").read_text().splitlines()
    assert header == "t_ns,lab_ns,flow,alpha,rate_bps"
    assert [row.split(",")[2:] for row in rows] == [["h1", "1.0", "10000000.0"], ["1", "", "20000000.0"]]
    times = [tuple(map(float, row.split(",")[:2])) for row in rows]
    assert [round(lab / hardware) for hardware, lab in times] == [1000, 1]


@pytest.mark.parametrize("reader", ["pandas", "polars"])
def test_a_series_is_read_with_what_is_installed(tmp_path: Path, monkeypatch: Any, reader: str) -> None:
    (tmp_path / "series-buffer.csv").write_text("t_ns,port\n1,s1-eth1\n")

    def pretended(name: str) -> Any:
        if name != reader:
            raise ModuleNotFoundError(name=name)
        return SimpleNamespace(read_csv=lambda file: (reader, file.read().decode()))

    monkeypatch.setattr(importlib, "import_module", pretended)
    assert reading.read(tmp_path, "buffer") == (reader, "t_ns,port\n1,s1-eth1\n")


def test_a_series_that_is_not_there_and_a_missing_reader_are_named(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "series-buffer.csv").write_text("t_ns\n")
    with pytest.raises(UsageError, match=r"has no series 'flows'; it has buffer"):
        reading.read(tmp_path, "flows")

    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UsageError, match="neither pandas nor polars is installed"):
        reading.read(tmp_path, "buffer")


class Program:
    """A port program with one port, and its buffers, whose groups and queues a test sets."""

    def __init__(self) -> None:
        self.buffers = self
        self.memory, self.groups = b"idle", dict.fromkeys(range(8), IDLE)
        self.waiting = (0,) * 8

    def groups_of(self, slot: int) -> bytes:
        return self.memory

    def group(self, slot: int, priority: int) -> GroupCounters:
        return self.groups[priority]

    def queued(self, slot: int) -> tuple[int, ...]:
        return self.waiting


def test_a_sample_of_groups_has_those_that_changed_alone() -> None:
    program = Program()
    sampler = GroupSampler(core_with(program))
    assert sampler.changes(0) == []
    program.groups[3] = replace(IDLE, used=(1, 2, 3), xoff=True)
    assert sampler.changes(0) == [], "the memory is the same"
    program.memory = b"holding"
    assert sampler.changes(0) == [(3, 1, 2, 3, 1)]
    program.memory, program.groups[3] = b"counted", IDLE
    assert sampler.changes(0) == [(3, 0, 0, 0, 0)]


def test_a_sample_of_queues_has_those_that_changed_alone() -> None:
    program = Program()
    sampler = QueueSampler(core_with(program))
    assert sampler.changes(0) == []
    program.waiting = (0, 0, 0, 1514, 0, 0, 64, 0)
    assert sampler.changes(0) == [(3, 1514), (6, 64)]
    assert sampler.changes(0) == []
    program.waiting = (0,) * 8
    assert sampler.changes(0) == [(3, 0), (6, 0)]


def test_a_load_is_what_was_sent_since_the_sample_before_with_preamble_and_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    core = core_with(Program())
    core.ports.by_slot[0] = SimpleNamespace(
        interface=7, name="s1-eth1", node=SimpleNamespace(name="s1"), units=Scale(1000)
    )
    counted = {7: Sent(10, 1000)}
    monkeypatch.setattr("testbed.linux.netlink.link_state.sent", lambda socket: counted)
    sampler = LoadSampler(Fabric(core), {"s1": None})  # type: ignore[dict-item]
    assert [*sampler.changes(1000)] == []
    counted[7] = Sent(11, 1226)
    assert [*sampler.changes(1000)] == [("s1-eth1", (226 + 24) * 8 * 10**6 * 1000)]
    assert [*sampler.changes(1000)] == [("s1-eth1", 0)]
    assert [*sampler.changes(1000)] == []


def test_ticks_come_until_the_end_is_set() -> None:
    ended = threading.Event()
    due = []
    for due_ns in ticks(1000, ended):
        due.append(due_ns)
        if len(due) == 3:
            ended.set()
    assert [after - before for before, after in pairwise(due)] == [1000, 1000]


def test_a_series_is_parquet_too_where_pyarrow_is_installed(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "series-queue.csv").write_text("t_ns,port,priority,queued_bytes\n1000000,s1-eth1,3,1514\n")
    assert reading.write_parquet(tmp_path) == [tmp_path / "series-queue.parquet"]
    assert parquet.read_table(tmp_path / "series-queue.parquet").to_pylist() == [
        {"t_ns": 1_000_000, "port": "s1-eth1", "priority": 3, "queued_bytes": 1514}
    ]
    (tmp_path / "series-torn.csv").write_text("t_ns,port\n1\n")
    with pytest.raises(UsageError, match="is not a table, so there is no Parquet of it"):
        reading.write_parquet(tmp_path)


def test_a_series_comes_back_in_a_real_frame(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    (tmp_path / "series-queue.csv").write_text("t_ns,lab_ns,port,priority,queued_bytes\n10,1000,s1-eth1,3,1514\n")
    frame = reading.read(tmp_path, "queue")
    assert list(frame.columns) == list(series.COLUMNS["queue"])
    assert frame.queued_bytes.sum() == 1514
