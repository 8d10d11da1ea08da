"""The supervisor of one job, which reports what happens as records, in every engine.

The job runs in a sandbox. Beside it, two real-time processes: this one, which passes on the job's output,
enforces its time limit and hands out the files it leaves; and a sampler, which looks at the CPU every
100 ms, on the dot.
"""

from __future__ import annotations

import fcntl
import os
import platform
import pty
import random
import select
import selectors
import signal
import struct
import sys
import termios
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from testbed.errors import XoffError
from testbed.experiment import output as wire
from testbed.experiment.demand import Board
from testbed.experiment.fidelity import WINDOW_NS
from testbed.experiment.output import CAPTURE_PROCESS, PLACED_NS, Record, RecordKind, Sample
from testbed.lab.job import job_stack
from testbed.lab.job.job import PACKAGES, Job
from testbed.linux.process import kernel
from testbed.linux.process.child import Child
from testbed.linux.process.observing import observing
from testbed.linux.process.sandbox import ControlGroup, Sandbox

Send = Callable[..., None]
"""Sends records to the user's machine, all that it is given at once."""
Wait = Callable[[], bytes | None]


class Commands(Protocol):
    """A source of commands."""

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when commands may have come."""

    def read(self) -> bytes | None:
        """Return what has come, or None when no more will."""


_PIECE = 1 << 16
# Agents (`agent/pfc/loop.py`) go first: passing something on takes as long as a pause, and would make them late.
# Looking at the CPU takes most of a millisecond: then speakers (`agent/speaker/speaker.py`) go first too.
_SAMPLING, _PASSING_ON, _LOOKING = 40, 35, 20
_TICK_NS = 10_000_000
"""The interval at which a kernel without finer figures checks if the CPU is idle."""
_CHUNK = wire.LARGEST >> 1
_LONGEST_WAIT_S = 3600.0  # epoll takes no more than some weeks
_CAPTURES_END_S = 2.0
_SHOWING_NS = 500_000_000
_PROMPT_SETTLES_S = 0.001
"""The quiet time in s at a prompt after which the lab's time stops."""


class Supervisor:
    """The supervisor of one job, from its first instruction to its last file."""

    def __init__(self, job: Job, code: Path, work: Path, start_ns: int, send: Send, *, board: Board) -> None:
        """`board` is for the job's demands. The kernel draws a random number for its memory: it is made before the
        seed.
        """
        self._job = job
        self._code = code
        self._out = work / "out"
        self._out.mkdir(parents=True)
        self._start_ns = start_ns
        self._deadline_ns = start_ns + int(job.limits.virtual_s * 1e9)
        self._send = send
        self._passed_on = 0
        """The octets that the job has printed and reported."""
        self._aborted: str | None = None
        self._shows_where = False
        self._aborts = 0
        self._stacks: bytearray | None = None
        """The job's standard error since it was told to write its stacks; None before."""
        self._terminal: int | None = None
        self._live: Child | None = None
        """The observer that passes on what the job's networks report while they run."""
        self._continued = False
        self._decoder = wire.Decoder()
        self._board = board
        # Our own name for the group, so that two labs on one host do not share it.
        name = f"xoff-{os.getpid()}"
        self._group = ControlGroup(name, job.limits.processes, job.limits.memory_mb)
        self._sandbox = Sandbox(self._group)
        self._selector = selectors.DefaultSelector()

    def _command(self, data: bytes) -> None:
        """Carry out commands of the user's machine: input, a new terminal size, or the command to end."""
        for record in self._decoder.feed(data):
            if record.kind is RecordKind.ABORT:
                self._aborted, self._shows_where = record.content()
                self._aborts += 1
            elif record.kind is RecordKind.INPUT and self._terminal is not None:
                os.write(self._terminal, record.payload)
            elif record.kind is RecordKind.CONTINUE:
                self._continued = True
            elif record.kind is RecordKind.RESIZE and self._terminal is not None:
                _set_size(self._terminal, *record.content())

    def run(self, commands: Commands, wait: Wait | None = None) -> None:
        """Do the job.

        `wait` reads commands as `commands.read` does, and the lab's time stands still until something has come; None
        where time cannot be stopped.
        """
        python = platform.python_version()
        self._send(Record.of(RecordKind.START, {"kernel": platform.release(), "python": python}))
        samples = self._start_sampler()
        outputs = self._start_job()
        start_watchdog(commands.fileno(), self._deadline_ns, _PASSING_ON)
        kernel.real_time(_PASSING_ON)
        for descriptor, kind in outputs.items():
            self._selector.register(descriptor, selectors.EVENT_READ, kind)
        self._selector.register(samples, selectors.EVENT_READ, RecordKind.SAMPLE)
        self._selector.register(commands, selectors.EVENT_READ, commands)
        self._selector.register(os.pidfd_open(self._sandbox.pid), selectors.EVENT_READ, "ended")
        status = self._watch(wait if self._terminal is not None else None)
        # The job is gone, so what the pipes still hold is all there will ever be.
        for descriptor, kind in outputs.items():
            os.set_blocking(descriptor, False)
            while self._forward(descriptor, kind):
                pass
        end = {"virtual_ns": time.monotonic_ns() - self._start_ns, **status}
        if self._live is not None:
            self._live.wait()
        if self._stacks:
            end["where"] = job_stack.place(self._stacks.decode(errors="replace"), self._code, self._job.source)
        self._send_files()
        self._send(Record.of(RecordKind.END, end))

    def close(self) -> None:
        """Leave nothing behind, however far the job has come."""
        if self._sandbox.pid:
            self._sandbox.kill()
            with suppress(ChildProcessError):
                self._sandbox.wait()
        self._group.remove()

    def _watch(self, wait: Wait | None) -> dict[str, Any]:
        """Pass everything on until the job ends or must end, and return how it ended.

        With `wait`, time stands still at the prompt of a shell, and after each sample until the user's machine
        sends CONTINUE.
        """
        status: dict[str, Any] = {}
        ended = False
        while not ended:
            left = (self._deadline_ns - time.monotonic_ns()) / 1e9
            stop = wait if self._at_prompt() else None
            longest_s = _PROMPT_SETTLES_S if stop else _LONGEST_WAIT_S
            happened = self._selector.select(min(max(0.0, left), longest_s))
            if stop and not happened:
                self._command(stop() or b"")
            for key, _ in happened:
                if key.data == "ended":
                    ended = True
                elif isinstance(key.data, RecordKind):
                    if not self._forward(key.fd, key.data):
                        self._selector.unregister(key.fd)
                    elif key.data is RecordKind.SAMPLE and wait is not None:
                        self._hold(wait)
                elif (data := key.data.read()) is None:
                    self._selector.unregister(key.fd)
                else:
                    self._command(data)
            if not ended and (due := self._due()) and (status or not self._let_it_show(status := due)):
                break
        if status:
            self._sandbox.kill()
        code = self._sandbox.wait()
        return status or self._judge(code)

    def _due(self) -> dict[str, Any]:
        """Return the status and reason with which the job must end now; empty if it may go on."""
        if self._aborts:
            self._aborts = 0
            return {"status": "aborted", "reason": self._aborted}
        if time.monotonic_ns() >= self._deadline_ns:
            seconds = self._job.limits.virtual_s
            return {"status": "timeout", "reason": f"the job did not end within {seconds:g} s of virtual time"}
        if self._passed_on > (limit := self._job.limits.output_mb) << 20:
            return {"status": "error", "reason": f"the job printed and reported more than its {limit} MB"}
        return {}

    def _let_it_show(self, status: dict[str, Any]) -> bool:
        """Have the job write its stacks and end, in the time that it gets for it; return False if it need not.

        In an endless loop on `um` no time passes; so another command to end the job ends that moment too.
        """
        if self._job.capture_octets:
            self._sandbox.end_first(CAPTURE_PROCESS, _CAPTURES_END_S)
        shows = self._terminal is None and (self._shows_where or status["status"] == "timeout")
        if not shows or not self._sandbox.interrupt(job_stack.SIGNAL):
            return False
        self._stacks = bytearray()
        self._deadline_ns = time.monotonic_ns() + _SHOWING_NS
        return True

    def _at_prompt(self) -> bool:
        """Return True if a program in the terminal reads and shows single keys itself, as readline does at its prompt.

        Mininet has its terminal give it single keys while a command runs, too, but leaves the echo on.
        """
        return self._terminal is not None and not termios.tcgetattr(self._terminal)[3] & (termios.ICANON | termios.ECHO)

    def _hold(self, wait: Wait) -> None:
        """Stop the lab's time until CONTINUE comes from the user's machine."""
        self._continued = False
        while not self._continued and self._aborted is None:
            if (data := wait()) is None:
                return
            self._command(data)

    def _judge(self, code: int) -> dict[str, Any]:
        limits = self._job.limits
        if self._group.count("memory.events", "oom_kill"):
            return {"status": "memory", "reason": f"the job used more than its {limits.memory_mb} MB of memory"}
        refused = self._group.count("pids.events", "max")
        if code == 0:
            return {"status": "ok", "reason": ""}
        if refused:
            return {
                "status": "processes",
                "reason": f"the job needed more than its {limits.processes} processes ({refused} refused)",
            }
        if 128 < code <= 128 + signal.SIGRTMAX:
            return {"status": "error", "reason": f"the job was ended by {_signal_name(code - 128)}"}
        return {"status": "error", "reason": f"the job ended with exit code {code}"}

    def _forward(self, descriptor: int, kind: RecordKind) -> bool:
        """Pass on one piece of a stream; return False at its end."""
        try:
            data = os.read(descriptor, Sample.size() if kind is RecordKind.SAMPLE else _PIECE)
        except (BlockingIOError, OSError):  # EIO: the last user of a pseudo terminal is gone
            return False
        if data:
            if kind is not RecordKind.SAMPLE:
                self._passed_on += len(data)
            told = self._board.news()
            self._send(*([] if told is None else [Record(RecordKind.DEMAND, told)]), Record(kind, data))
            if kind is RecordKind.ERR and self._stacks is not None and len(self._stacks) < job_stack.LARGEST:
                self._stacks += data
        return bool(data)

    def _start_sampler(self) -> int:
        reader, writer = os.pipe()

        def sample() -> None:
            kernel.real_time(_SAMPLING)
            _sample_forever(self._start_ns, writer)

        Child(sample)
        os.close(writer)
        return reader

    def _start_job(self) -> dict[int, RecordKind]:
        """Start the job in its sandbox, and return the descriptors to read from."""
        notes, notes_in = os.pipe()
        # The job has it in any case: its descriptors, and how long it takes to close the others, are always the same.
        live, live_in = os.pipe()
        if self._job.terminal is not None:
            self._terminal, slave = pty.openpty()
            _set_size(slave, self._job.terminal.rows, self._job.terminal.columns)
            self._sandbox.start(
                lambda: self._perform(slave, slave, slave, notes_in, live_in), {slave, notes_in, live_in}
            )
            os.close(slave)
            outputs = {self._terminal: RecordKind.OUT}
        else:
            out, out_in = os.pipe()
            err, err_in = os.pipe()
            nothing = os.open(os.devnull, os.O_RDONLY)
            inherited = {nothing, out_in, err_in, notes_in, live_in}
            self._sandbox.start(lambda: self._perform(nothing, out_in, err_in, notes_in, live_in), inherited)
            for descriptor in (nothing, out_in, err_in):
                os.close(descriptor)
            outputs = {out: RecordKind.OUT, err: RecordKind.ERR}
        os.close(live_in)
        os.close(notes_in)
        with observing() as is_free:
            if self._job.follow and is_free:
                self._live = Child(lambda: self._pass_on_live(live))
            elif self._job.follow:
                outputs[live] = RecordKind.LIVE
            if self._live is not None or not self._job.follow:
                os.close(live)
        return outputs | {notes: RecordKind.NOTE}

    def _pass_on_live(self, live: int) -> None:
        while data := os.read(live, _PIECE):
            self._send(Record(RecordKind.LIVE, data))

    def _perform(self, stdin: int, stdout: int, stderr: int, notes: int, live: int) -> int:
        """Become the job, in the sandbox, and do it."""
        os.setsid()
        signal.set_wakeup_fd(-1)  # the descriptor is closed here
        if self._job.terminal is not None:
            fcntl.ioctl(stdin, termios.TIOCSCTTY, 0)
            os.environ["TERM"] = self._job.terminal.term
        for target, descriptor in enumerate((stdin, stdout, stderr)):
            os.dup2(descriptor, target)
        kernel.close_descriptors({0, 1, 2, notes, live})
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        os.chdir(self._out)
        os.environ["PYTHONHASHSEED"] = str(self._job.seed % 2**32)
        places = [str(self._code)]
        if (further := self._code / PACKAGES).is_dir():
            places.append(str(further))
            sys.path.append(str(further))
        os.environ["PYTHONPATH"] = os.pathsep.join(places)
        random.seed(self._job.seed)
        from testbed.experiment.run import Run
        from testbed.lab.job.run_job import run_job

        recorded = {
            "capture_octets": self._job.capture_octets,
            "series_ns": self._job.series_ns,
            "follower": live if self._job.follow else -1,
        }
        run = Run(self._job.seed, self._start_ns, self._out, os.fdopen(notes, "w"), board=self._board, **recorded)
        try:
            run_job(self._job, run, self._code)
            code = 0
        except SystemExit as end:
            code = end.code & 0xFF if isinstance(end.code, int) else int(end.code is not None)  # as the kernel has it
        except BaseException as error:
            run.failed(error)  # it is the result's reason, which the command prints
            if not isinstance(error, XoffError):
                print(_way_to(error, self._code), end="", file=sys.stderr)
            elif self._job.terminal is not None:  # a shell ends without a result that anybody sees
                print(f"{self._job.name}: {error}", file=sys.stderr)
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        return code

    def _send_files(self) -> None:
        """Send the files that the job left."""
        room = self._job.limits.files_mb << 20
        for path in sorted(self._out.rglob("*")):
            if not path.is_file() or path.is_symlink() or path.stat().st_mtime_ns == PLACED_NS:
                continue
            name = str(path.relative_to(self._out))
            room -= path.stat().st_size
            if room < 0:
                limit = self._job.limits.files_mb
                text = f"xoff: {name} and what follows is left out: over {limit} MB of files\n"
                self._send(Record(RecordKind.ERR, text.encode(errors="replace")))
                break
            for record in wire.file_records(name, _pieces(path)):
                self._send(record)


def _way_to(error: BaseException, code: Path) -> str:
    """Return the traceback of an error from the user's first line on, without the line of the error itself."""
    first = error.__traceback__
    while first is not None and Path(first.tb_frame.f_code.co_filename).is_relative_to(code / "testbed"):
        first = first.tb_next
    lines = traceback.format_exception(type(error), error, first or error.__traceback__)
    return "".join(lines[: -len(traceback.format_exception_only(error))])


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as handle:
        while piece := handle.read(_CHUNK):
            yield piece


def _sample_forever(start_ns: int, writer: int) -> None:
    """Write a `Sample` at every multiple of the window."""
    due = start_ns
    while True:
        if (early := due - time.monotonic_ns()) > 0:
            time.sleep(early / 1e9)
        now = time.monotonic_ns()
        kernel.real_time(_LOOKING)
        idle, tick = (
            idle_ns()
        )  # none is added while a more urgent process runs, so it does not matter how long this takes
        kernel.real_time(_SAMPLING)
        os.write(writer, Sample(now - start_ns, now - due, idle, tick).encode())
        due += WINDOW_NS * (1 + (now - due) // WINDOW_NS)


def idle_ns() -> tuple[int, int]:
    """Return the idle time of the CPUs since boot, on average over them, and `Sample.tick_ns` of it."""
    # /proc/timer_list is the only place where Linux shows it finer than in ticks of 10 ms, for root only. With 10 000
    # timers it takes a second to read, and where CPU work takes no time there is nothing to measure so finely.
    if not kernel.cpu_work_takes_no_time():
        try:
            lines = Path("/proc/timer_list").read_text().splitlines()
            values = [int(line.split()[2]) for line in lines if ".idle_sleeptime" in line]
            return sum(values) // len(values), 0
        except (OSError, ZeroDivisionError):
            pass
    idle = Path("/proc/uptime").read_text().split()[1]
    return int(float(idle) * 1e9) // (os.cpu_count() or 1), _TICK_NS


def _set_size(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


_PERIOD_NS = 20_000_000
_OWN_NS, _SUPERVISOR_NS = 1_000_000, 16_000_000
"""The runtimes in each period. The kernel admits 95 % in all."""
_FOR_A_COMMAND_S = 0.1
_LONGEST_S = 3600.0  # epoll takes no more than some weeks


def start_watchdog(commands: int, deadline_ns: int, priority: int) -> None:
    """Start the watchdog, which lets this process run, at its priority, although one of the job keeps the CPU.

    A job may use SCHED_FIFO at any priority, as agents do; one that spins at 99 keeps the supervisor from the CPU. The
    watchdog is a process in SCHED_DEADLINE, which Linux schedules before all of SCHED_FIFO. It sleeps until the job's
    time limit or until a command has come, and then puts the supervisor into SCHED_DEADLINE too. So in a run that ends
    by itself it takes no time. Where the job has reserved so much for SCHED_DEADLINE itself that the kernel refuses,
    the limit of wall time remains.

    `commands` is a descriptor that becomes readable when a command has come; `deadline_ns` is on the monotonic clock.
    """
    supervisor = os.getpid()

    def watch() -> None:
        kernel.close_descriptors({commands})
        with suppress(OSError):  # where SCHED_DEADLINE is not permitted, as in most containers
            kernel.reserve_cpu(_OWN_NS, _PERIOD_NS)
            _watch(supervisor, commands, deadline_ns, priority)

    Child(watch)


def _watch(supervisor: int, commands: int, deadline_ns: int, priority: int) -> None:
    with select.epoll() as arrivals:
        # Edge-triggered: the supervisor reads the commands, sooner or later.
        arrivals.register(commands, select.EPOLLIN | select.EPOLLET)
        while (left_ns := deadline_ns - time.monotonic_ns()) > 0:
            if arrivals.poll(min(left_ns / 1e9, _LONGEST_S)):
                kernel.reserve_cpu(_SUPERVISOR_NS, _PERIOD_NS, supervisor)
                time.sleep(_FOR_A_COMMAND_S)
                kernel.real_time(priority, pid=supervisor)
    kernel.reserve_cpu(_SUPERVISOR_NS, _PERIOD_NS, supervisor)
