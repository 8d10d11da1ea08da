"""QEMU: one that is new enough or one clear error, and the same machine every time."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from testbed.lab.engines.vm import MachineSession
from testbed.lab.image.image import Image
from testbed.lab.vm import qemu, snapshot
from testbed.lab.vm.qemu import ICOUNT, KVM, TCG, Accelerator, Machine, QemuError
from testbed.lab.vm.snapshot import Snapshot

Install = Callable[..., Path]
WAIT_S = 20
IMAGE = Image(Path("/cache/image-1"), "1", "d" * 64, "6.12", {}, {}, {})


DENIED = ("obsolete", "elevateprivileges", "spawn", "resourcecontrol")


def forget() -> None:
    for thing in vars(qemu).values():
        if hasattr(thing, "cache_clear"):
            thing.cache_clear()


@pytest.fixture
def installed(install: Install) -> Iterator[Callable[[str], Path]]:
    """Return a function that installs a QEMU with a version, as the only one."""
    forget()
    yield lambda text: install(qemu.PROGRAM, f"echo '{text}'")
    forget()


def complaint(call: Callable[[], object]) -> str:
    with pytest.raises(QemuError) as caught:
        call()
    assert caught.value.exit_code == 3
    return str(caught.value)


# The version


def test_a_missing_qemu_is_one_error_that_names_what_to_install(installed: Callable[[str], Path]) -> None:
    assert complaint(qemu.program) == (
        "qemu-system-x86_64 is missing (it runs the lab); install the package qemu-system-x86, version 7.2 or newer"
    )
    assert qemu.version() == ""


@pytest.mark.parametrize("version", ["7.1.0", "6.2.0", "7", "2.11.1", "0.15"])
def test_a_qemu_that_is_too_old_is_one_error_with_both_versions(version: str, installed: Callable[[str], Path]) -> None:
    path = installed(f"QEMU emulator version {version} (Debian 1:{version}+dfsg-1)")
    assert complaint(qemu.program) == (
        f"{path} is version {version}, and the lab needs 7.2 or newer; install a newer QEMU"
    )


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ("QEMU emulator version 7.2.0", "7.2.0"),
        ("QEMU emulator version 7.2.11 (Debian 1:7.2+dfsg-7+deb12u7)", "7.2.11"),
        ("QEMU emulator version 7.10.1", "7.10.1"),
        ("QEMU emulator version 8.0.0-rc1", "8.0.0-rc1"),
        ("QEMU emulator version 10.0.2", "10.0.2"),
    ],
)
def test_a_qemu_that_is_new_enough_will_do(told: str, version: str, installed: Callable[[str], Path]) -> None:
    path = installed(f"{told}\nCopyright (c) 2003-2022 Fabrice Bellard and the QEMU Project developers")
    assert qemu.program() == str(path)
    assert qemu.version() == version


def test_a_qemu_that_does_not_tell_its_version_is_shown_with_what_it_said(install: Install) -> None:
    forget()
    path = install(qemu.PROGRAM, "echo error while loading shared libraries: libaio.so.1 >&2; exit 127")
    assert complaint(qemu.program) == (
        f"{path} does not print its version: error while loading shared libraries: libaio.so.1"
    )


def test_a_qemu_that_cannot_be_executed_is_an_error_too(install: Install) -> None:
    forget()
    path = install(qemu.PROGRAM, interpreter="\x7fELF of another machine")
    assert str(path) in complaint(qemu.program)


def test_a_qemu_that_is_installed_later_is_found(installed: Callable[[str], Path]) -> None:
    """A command looks, installs what is missing, and goes on."""
    assert qemu.version() == ""
    installed("QEMU emulator version 7.2.11")
    assert qemu.version() == "7.2.11"


# The command line


@pytest.fixture
def present(installed: Callable[[str], Path]) -> str:
    return str(installed("QEMU emulator version 7.2.11"))


def value_of(argv: list[str], option: str) -> list[str]:
    return [argv[n + 1] for n, word in enumerate(argv) if word == option]


def properties(argv: list[str], name: str) -> dict[str, str]:
    """The properties of the device or object with that id or type, commas undone."""
    for text in value_of(argv, "-object") + value_of(argv, "-device"):
        kind, *pairs = text.replace(",,", "\0").split(",")
        found = {key: value.replace("\0", ",") for key, _, value in (pair.partition("=") for pair in pairs)}
        if name in (kind, found.get("id")):
            return found
    raise AssertionError(f"no {name} in {argv}")


@pytest.mark.parametrize("accelerator", [ICOUNT, TCG, KVM], ids=lambda a: a.name)
def test_a_machine_that_wakes_is_the_one_that_was_booted(accelerator: Accelerator, present: str) -> None:
    boot = qemu.arguments(IMAGE, accelerator, Path("/memory"), fresh=True)
    wake = qemu.arguments(IMAGE, accelerator, Path("/memory"), fresh=False)
    differing = [(a, b) for a, b in zip(boot, wake, strict=True) if a != b]
    *shared, panic = differing
    assert [a.replace("share=on", "share=off") for a, _ in shared] == [b for _, b in shared]
    assert [a.split(",")[1] for a, _ in shared] == ["id=ram", "id=job"]
    assert panic == ("panic=pause", "panic=exit-failure")


@pytest.mark.parametrize("fresh", [True, False])
def test_only_the_machine_that_is_booted_writes_the_memory_file(fresh: bool, present: str) -> None:
    memory = properties(qemu.arguments(IMAGE, ICOUNT, Path("/snap/memory"), fresh), "ram")
    assert memory["mem-path"] == "/snap/memory"
    assert memory["size"] == f"{qemu.MEMORY_MB}M"
    assert memory["share"] == ("on" if fresh else "off")


def test_the_machine_is_this_qemu_with_this_image_and_nothing_from_outside(present: str) -> None:
    argv = qemu.arguments(IMAGE, ICOUNT, Path("/memory"), fresh=True)
    assert argv[0] == present
    assert value_of(argv, "-kernel") == ["/cache/image-1/vmlinuz"]
    assert value_of(argv, "-initrd") == ["/cache/image-1/root.cpio.zst"]
    assert value_of(argv, "-nic") == ["none"]
    assert {"-nodefaults", "-no-user-config", "-no-reboot", "-S"} <= set(argv)


def test_a_qemu_that_was_built_with_its_sandbox_runs_in_it(present: str) -> None:
    (told,) = value_of(qemu.arguments(IMAGE, ICOUNT, Path("/memory"), fresh=True), "-sandbox")
    assert told.split(",") == ["on", *(f"{what}=deny" for what in DENIED)]


def test_a_qemu_that_was_built_without_its_sandbox_runs_without(install: Install) -> None:
    forget()
    install(qemu.PROGRAM, 'test "$1" != -sandbox && echo "QEMU emulator version 7.2.11"')
    try:
        assert "-sandbox" not in qemu.arguments(IMAGE, ICOUNT, Path("/memory"), fresh=True)
    finally:
        forget()


def test_only_the_instruction_clock_repeats_and_it_hides_what_differs_between_hosts(present: str) -> None:
    assert [a.deterministic for a in (ICOUNT, TCG, KVM)] == [True, False, False]
    argv = qemu.arguments(IMAGE, ICOUNT, Path("/memory"), fresh=False)
    assert {"shift=0", "sleep=off"} <= set(value_of(argv, "-icount")[0].split(","))
    assert value_of(argv, "-seed") == ["1"]
    assert value_of(argv, "-cpu") == ["Nehalem"]  # it has no random numbers of its own
    assert value_of(argv, "-rtc") == ["base=2025-01-01T00:00:00,clock=vm"]
    for word in ("nokaslr", "norandmaps", "random.trust_cpu=off", "PYTHONHASHSEED=0"):
        assert word in value_of(argv, "-append")[0].split()


def test_a_cache_with_a_comma_in_its_name_is_no_option(present: str) -> None:
    """QEMU's own rule: in the value of an option a comma is doubled."""
    argv = qemu.arguments(IMAGE, ICOUNT, Path("/my,share=off,cache/memory"), fresh=True)
    memory = properties(argv, "ram")
    assert (memory["mem-path"], memory["share"]) == ("/my,share=off,cache/memory", "on")


class Sleeper:
    """A stand-in for a machine, which keeps the state that it is to wake with."""

    woken_with: ClassVar[list[bytes]] = []

    def __init__(self, *_: Any, batch: bool) -> None:
        assert batch  # a deterministic one is woken
        self.woken_with.clear()

    def load(self, state: Path, _: str) -> None:
        self.woken_with.append(state.read_bytes())

    def command(self, name: str) -> None:
        assert name == "cont"

    def close(self) -> None: ...


@pytest.fixture
def sleeping(tmp_path: Path, present: str, monkeypatch: pytest.MonkeyPatch) -> Snapshot:
    """A snapshot in a directory whose name a shell would split."""
    monkeypatch.setattr(snapshot, "Machine", Sleeper)
    place = tmp_path / "it's my cache" / "snapshot-1"
    place.mkdir(parents=True)
    (place / "state").write_bytes(b"state of the machine")
    return Snapshot(place, IMAGE, ICOUNT)


def test_a_machine_wakes_with_its_state_wherever_the_cache_is(sleeping: Snapshot, tmp_path: Path) -> None:
    sleeping.start(b"job", tmp_path, None)
    assert Sleeper.woken_with == [b"state of the machine"]
    assert sleeping.state.read_bytes() == b"state of the machine"


def test_a_job_is_laid_down_with_its_length_in_all_of_its_room(sleeping: Snapshot, tmp_path: Path) -> None:
    sleeping.start(b"what to do", tmp_path, None)
    content = (tmp_path / "job").read_bytes()
    assert content.rstrip(b"\0") == b"\x0a\0\0\0\0\0\0\0what to do"
    assert len(content) == qemu.JOB_SPACE_MB << 20


# The process and its monitor, with a stand-in that prints what it is given

STAND_IN = """
import json, socket, sys
print("starting", flush=True)
server = socket.socket(socket.AF_UNIX)
server.bind("monitor")
server.listen()
connection, _ = server.accept()
connection.sendall(b"QEMU 7.2.22 monitor - type 'help' for more information\\r\\n(qemu) ")
requests = connection.makefile("r")
for answer in json.loads(sys.argv[1]):
    request = requests.readline().strip()
    print("asked to", request, flush=True)
    for octet in request:  # as QEMU echoes what is typed
        connection.sendall(octet.encode() + b"\\x1b[K")
    connection.sendall(b"\\r\\n" + answer.replace("\\n", "\\r\\n").encode() + b"(qemu) ")
if sys.argv[2] == "stay":
    requests.readline()
sys.exit(7)
"""
STOPPED = "VM status: paused (guest-panicked)\n"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    """Start a machine whose monitor gives these answers."""
    machines: list[Machine] = []

    def begin(*answers: str, then: str = "stay") -> Machine:
        argv = [sys.executable, "-I", "-S", "-c", STAND_IN, json.dumps(answers), then]
        machines.append(Machine(argv, tmp_path, None))
        return machines[-1]

    yield begin
    for machine in machines:
        machine.close()


def test_no_other_user_can_reach_the_monitor_whatever_our_umask(start: Callable[..., Machine]) -> None:
    before = os.umask(0)
    try:
        with start() as machine:
            assert (machine.folder / "monitor").stat().st_mode & 0o077 == 0
    finally:
        os.umask(before)


def test_a_monitor_that_does_not_answer_is_an_error(
    start: Callable[..., Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qemu, "_ANSWERS_WITHIN_S", 0.5)
    with start() as machine:
        assert complaint(machine._until_prompt).startswith("QEMU did not answer within 0.5 s; its last output:")
        assert machine.process.wait(WAIT_S) == -9


def test_a_command_is_answered(start: Callable[..., Machine]) -> None:
    with start("", "one\ntwo\n", "VM status: running\n") as machine:
        assert machine.command("cont") == ""
        assert machine.command("info it") == "one\ntwo"
        assert machine.status() == "running"
    assert machine.process.poll() is not None


def test_what_qemu_reports_of_a_snapshot_is_an_error(start: Callable[..., Machine], tmp_path: Path) -> None:
    with start("", "", "Error: no room\n") as machine:
        told = complaint(lambda: machine.load(tmp_path / "state", "booted"))
    assert told.startswith("QEMU could not loadvm the lab's state: Error: no room; its last output:\n  starting")
    assert "file.filename=state\n  asked to loadvm booted" in told


def test_a_state_is_saved_in_the_file_that_was_loaded(start: Callable[..., Machine], tmp_path: Path) -> None:
    with start(*[""] * 4) as machine:
        machine.load(tmp_path / "state", "booted")
        machine.save(tmp_path / "state", "ready")
        said = (machine.folder / "qemu.log").read_text().splitlines()
    asked = [line.removeprefix("asked to ") for line in said[1:]]
    assert [line.split()[0] for line in asked[:2]] == ["migrate_set_capability", "drive_add"]
    assert asked[2:] == ["loadvm booted", "savevm ready"]


PCI = """  Bus  0, device   2, function 0:
    Class 0780: PCI device 1af4:1003
      BAR0: I/O at 0xc040 [0xc07f].
  Bus  0, device   3, function 0:
    RAM controller: PCI device 1af4:1110
      PCI subsystem 1af4:1100
      BAR0: 32 bit memory at 0xfebf1000 [0xfebf10ff].
      BAR2: 64 bit prefetchable memory at 0x1fd000000 [0x1fdffffff].
"""


def test_the_jobs_memory_is_put_where_it_was(start: Callable[..., Machine]) -> None:
    with start(PCI, *[""] * 6) as machine:
        assert machine.job_memory() == (3, 0x1_FD00_0000)
        machine.place_job_memory(3, 0x1_FD00_0000)
        said = (machine.folder / "qemu.log").read_text().splitlines()
    assert [line.removeprefix("asked to ") for line in said[2:]] == [
        "o/w 0xcf8 0x80001818", "o/w 0xcfc 0xfd000000",
        "o/w 0xcf8 0x8000181c", "o/w 0xcfc 0x1",
        "o/w 0xcf8 0x80001804", "o/w 0xcfc 0x2",
    ]  # fmt: skip


def test_a_machine_without_the_jobs_memory_is_an_error(start: Callable[..., Machine]) -> None:
    with start(PCI.replace("1110", "1111")) as machine:
        assert complaint(machine.job_memory).startswith("QEMU does not show where the job's memory is: Bus  0, device")


def test_the_guests_stop_is_waited_for(start: Callable[..., Machine]) -> None:
    with start("VM status: running\n", "VM status: running\n", STOPPED) as machine:
        machine.wait_for_stop(WAIT_S)
        assert (tmp := (machine.folder / "qemu.log").read_text()).count("asked to info status") == 3, tmp


@pytest.mark.parametrize(
    ("answers", "seconds", "error"),
    [
        (["VM status: paused (internal-error)\n"], WAIT_S, "QEMU could not run the guest; its last output:"),
        (["VM status: running\n"], 0, "the lab's machine did not get ready within 0 s; its last output:"),
    ],
)
def test_a_guest_that_does_not_stop_itself_is_an_error(
    answers: list[str], seconds: float, error: str, start: Callable[..., Machine]
) -> None:
    with start(*answers) as machine:
        assert complaint(lambda: machine.wait_for_stop(seconds)).startswith(error)


def test_a_qemu_that_ends_is_an_error_with_its_last_words(start: Callable[..., Machine]) -> None:
    machine = start("", then="end")
    machine.command("cont")
    assert (
        complaint(lambda: machine.command("stop")) == "QEMU ended with 7; its last output:\n  starting\n  asked to cont"
    )


def test_waiting_for_the_guests_stop_ends_with_the_machine(start: Callable[..., Machine]) -> None:
    machine = start("", then="end")
    machine.command("cont")
    assert complaint(lambda: machine.wait_for_stop(WAIT_S)).startswith("QEMU ended with 7; its last output:")


@pytest.mark.parametrize("batch", [False, True])
def test_a_machine_of_two_threads_that_wait_for_each_other_sets_its_scheduling(batch: bool, tmp_path: Path) -> None:
    argv = [sys.executable, "-I", "-S", "-c", STAND_IN, "[]", "stay"]
    with Machine(argv, tmp_path, None, batch=batch) as machine:
        assert os.sched_getscheduler(machine.process.pid) == (os.SCHED_BATCH if batch else os.sched_getscheduler(0))


def test_a_qemu_that_does_not_start_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    argv = ["sh", "-c", "echo 'qemu: no such machine' >&2; exit 1"]
    assert complaint(lambda: Machine(argv, tmp_path, None)) == (
        "QEMU ended with 1; its last output:\n  qemu: no such machine"
    )


def test_a_qemu_that_ends_before_its_greeting_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    """A QEMU that finds no KVM ends so: its monitor was there for a moment."""
    text = STAND_IN.replace("connection.sendall", "print('no KVM', flush=True); sys.exit(1); connection.sendall", 1)
    argv = [sys.executable, "-I", "-S", "-c", text, "[]", "stay"]
    assert (
        complaint(lambda: Machine(argv, tmp_path, None)) == "QEMU ended with 1; its last output:\n  starting\n  no KVM"
    )


def test_leaving_the_block_ends_the_process_whatever_happened(start: Callable[..., Machine]) -> None:
    with pytest.raises(RuntimeError), start() as machine:
        assert machine.process.poll() is None
        raise RuntimeError
    assert machine.process.poll() == -9


def test_qemu_does_not_outlive_us(tmp_path: Path) -> None:
    """Its parent is killed without a chance to clean up, as by the out-of-memory killer."""
    text = (
        "import os, sys; from pathlib import Path; from testbed.lab.vm.qemu import Machine\n"
        f"machine = Machine([sys.executable, '-I', '-S', '-c', {STAND_IN!r}, '[]', 'stay'],"
        f" Path({str(tmp_path)!r}), None)\n"
        "print(machine.process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=Path(__file__).parents[4], capture_output=True, text=True, check=False
    )
    assert done.returncode == -9
    try:
        process = os.pidfd_open(int(done.stdout))
    except ProcessLookupError:
        return
    ended, _, _ = select.select([process], [], [], WAIT_S)
    os.close(process)
    assert ended


# What a lab writes


@pytest.mark.parametrize(
    ("name", "octets", "reason"),
    [
        ("console", 64 << 20, "the lab wrote more than 64 MB to its console, and was ended"),
        ("out", 74 << 20, "the lab wrote more than its job may print and leave, and was ended"),
    ],
)
def test_a_machine_that_writes_more_than_it_may_is_ended(tmp_path: Path, name: str, octets: int, reason: str) -> None:
    class Endless:
        folder = tmp_path

        def __init__(self) -> None:
            self.process = subprocess.Popen(["sleep", "60"])

        def close(self) -> None:
            self.process.kill()
            self.process.wait()

        def last_words(self) -> str:
            return ""

    machine: Any = Endless()
    try:
        session = MachineSession(machine, written_mb=8)
        assert session.lost() is None
        for size, said in ((octets, None), (octets + 1, reason), (octets + 1, reason)):
            with (tmp_path / name).open("ab") as file:
                file.truncate(size)
            assert session.lost() == said
        assert machine.process.poll() is not None
    finally:
        machine.close()
