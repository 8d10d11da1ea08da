"""The machines of a partitioned network, to whoever follows the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.experiment.fidelity import Fidelity, Thresholds, Verdict
from testbed.experiment.output import Record, RecordKind
from testbed.lab.partition import memory
from testbed.lab.partition.gang import Gang, is_consequence
from testbed.lab.results.collect import Collector
from testbed.lab.results.result import Status


class Machine:
    """A machine that has written a stream, and may have ended."""

    def __init__(self, folder: Path, number: int) -> None:
        self.stream = folder / f"out-{number}"
        self.stream.write_bytes(b"")
        self.why: str | None = None
        self.is_closed = False
        self.is_stopped: str | None = None
        self.sent: list[Record] = []

    def write(self, kind: RecordKind, content: object) -> None:
        with self.stream.open("ab") as out:
            out.write(Record.of(kind, content).encode())

    def end(self, status: str = "ok", reason: str = "") -> None:
        self.write(RecordKind.END, {"virtual_ns": 10**9, "status": status, "reason": reason})

    def figure(self, value: int) -> None:
        record = Record.of(RecordKind.NOTE, {"note": "figure", "name": "frames", "value": value, "unit": ""})
        with self.stream.open("ab") as out:
            out.write(Record(RecordKind.NOTE, record.payload + b"\n").encode())

    def lost(self) -> str | None:
        return self.why

    def send(self, record: Record) -> None:
        self.sent.append(record)

    def used_cpu_s(self) -> float | None:
        return 2.5

    def cpu_s(self) -> float | None:
        return 1.0

    def spins(self) -> str | None:
        return None

    def stopped(self) -> str | None:
        return self.is_stopped

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def machines(tmp_path: Path) -> list[Machine]:
    return [Machine(tmp_path, number) for number in range(3)]


def first(folder: Path, machine: Machine) -> Collector:
    collector = Collector(folder, lambda data, is_error: None)
    collector.feed(machine.stream.read_bytes())
    return collector


def test_a_run_is_over_when_all_parts_have_ended(machines: list[Machine], tmp_path: Path) -> None:
    gang = Gang(machines, tmp_path)
    machines[1].end()
    assert gang.lost() is None
    assert not gang.have_ended()
    machines[2].end()
    gang.lost()
    assert gang.have_ended()
    assert gang.failure() is None
    gang.close()
    assert all(machine.is_closed for machine in machines)


@pytest.mark.parametrize(
    ("fails", "expected"),
    [
        (lambda machine: machine.end("error", "it broke"), (Status.ERROR, "part 2: it broke")),
        (lambda machine: setattr(machine, "why", "its kernel panicked"), (Status.LOST, "part 2: its kernel panicked")),
        (lambda machine: machine.stream.write_bytes(b"no record at all"), (Status.LOST, "part 2: ")),
    ],
)
def test_a_part_that_fails_is_named(
    machines: list[Machine], tmp_path: Path, fails: Callable[[Machine], None], expected: tuple[Status, str]
) -> None:
    gang = Gang(machines, tmp_path)
    fails(machines[2])
    gang.lost()
    found = gang.failure()
    assert found is not None
    assert (found[0], found[1][: len(expected[1])]) == expected


def test_the_part_that_another_failed_for_is_named(machines: list[Machine], tmp_path: Path) -> None:
    gang = Gang(machines, tmp_path)
    record = Record.of(
        RecordKind.NOTE, {"note": "failure", "type": "PartGoneError", "message": "another part has ended"}
    )
    with machines[1].stream.open("ab") as out:
        out.write(Record(RecordKind.NOTE, record.payload + b"\n").encode())
    machines[1].end("error", "the job ended with exit code 1")
    gang.lost()
    found = gang.failure()
    assert found == (Status.ERROR, "part 1: PartGoneError: another part has ended")
    assert is_consequence(found)
    machines[2].end("error", "the real one")
    gang.lost()
    assert gang.failure() == (Status.ERROR, "part 2: the real one")


def test_the_loss_of_the_first_part_names_it(machines: list[Machine], tmp_path: Path) -> None:
    gang = Gang(machines, tmp_path)
    machines[0].why = "killed"
    assert gang.lost() == "part 0: killed"


def test_a_part_that_is_stopped_ends_all_unless_all_are(
    machines: list[Machine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("testbed.lab.partition.gang.time.monotonic", lambda: now)
    gang = Gang(machines, tmp_path)

    def look(times: int) -> tuple[Status, str] | None:
        nonlocal now
        for _ in range(times):
            now += 0.15
            gang.lost()
        return gang.failure()

    for machine in machines:
        machine.is_stopped = "the lab's kernel (process 7) is stopped"
    assert look(10) is None
    machines[1].is_stopped = None
    machines[2].is_stopped = None
    assert look(2) is None
    machines[0].is_stopped = None
    assert look(1) is None
    machines[0].is_stopped = "the lab's kernel (process 7) is stopped"
    assert look(3) is None
    assert look(1) == (Status.LOST, "part 0: the lab's kernel (process 7) is stopped, and the others wait for it")


def test_parts_that_find_different_figures_are_told_apart(machines: list[Machine], tmp_path: Path) -> None:
    gang = Gang(machines, tmp_path)
    for machine, value in zip(machines, (5, 5, 6), strict=True):
        machine.figure(value)
    gang.lost()
    found = gang.difference(first(tmp_path / "first", machines[0]))
    assert found is not None
    assert found.startswith("the figure 'frames' is 5 in part 0 and 6 in part 2; every part must find the same")
    machines[2].stream.write_bytes(machines[1].stream.read_bytes())
    (tmp_path / "again").mkdir()
    again = Gang(machines, tmp_path / "again")
    again.lost()
    assert again.difference(first(tmp_path / "first", machines[0])) is None


def test_the_worst_fidelity_counts(machines: list[Machine], tmp_path: Path) -> None:
    kept = Fidelity(Verdict.KEPT, (), 10, 50.0, 0, 0, Thresholds())
    worst = Gang(machines, tmp_path).fidelity(kept, Thresholds())
    assert worst.verdict is Verdict.UNKNOWN
    assert all(reason.startswith("part 1: ") for reason in worst.reasons)


def test_the_memory_has_the_layout_of_the_kernel(tmp_path: Path) -> None:
    text = (Path(memory.__file__).parents[1] / "um/linux/xoff_cable.h").read_text()
    assert "#define XC_PARTS	16" in text
    assert "#define XC_RING		(1 << 20)" in text
    assert "#define XC_BOX		(1 << 18)" in text
    assert memory.size(2) == 4096 + 16 * 256 + 4 * (4096 + (1 << 20)) + 4 * (1 << 18)
