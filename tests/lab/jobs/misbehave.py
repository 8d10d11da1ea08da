"""Jobs that go wrong, each in its own way, after having said something worth keeping."""

import mmap
import os
import signal
import sys
import threading
import time
from pathlib import Path

from testbed.errors import XoffError
from testbed.lab import Run, experiment


def _begin(run: Run) -> None:
    run.figure("begun", 1)
    run.event("begun")
    Path("kept.txt").write_text("kept")
    print("begun", flush=True)


@experiment()
def raises(run: Run) -> None:
    """Ends with an exception."""
    _begin(run)
    raise ValueError("something is odd")


@experiment()
def refuses(run: Run) -> None:
    """Ends with an error that is meant for the user."""
    _begin(run)
    raise XoffError("the cable is not plugged in; plug it in")


@experiment()
def exits(run: Run) -> None:
    """Ends the process behind Python's back."""
    _begin(run)
    os._exit(7)


@experiment()
def crashes(run: Run) -> None:
    """Ends by a signal."""
    _begin(run)
    os.abort()


@experiment(timeout="2s")
def sleeps(run: Run) -> None:
    """Waits for ever, idle."""
    _begin(run)
    time.sleep(10_000)


@experiment(timeout="100000s")
def spins(run: Run) -> None:
    """Never ends, busy."""
    _begin(run)
    while True:
        pass


@experiment(timeout="100000s")
def spins_deaf(run: Run) -> None:
    """The same, with all signals blocked that can be."""
    _begin(run)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        pass


@experiment(timeout="100000s")
def spins_in_a_child(run: Run) -> None:
    """Never ends, with a child that is busy at the highest priority and a thread that waits."""
    _begin(run)
    threading.Thread(target=time.sleep, args=(10_000,), daemon=True).start()
    time.sleep(0.5)
    if os.fork() == 0:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))
        while True:
            pass
    _waits()


def _waits() -> None:
    os.wait()


@experiment(timeout="3s")
def forks(run: Run, politely: bool = False) -> None:
    """Forks until it is refused, and then for ever."""
    _begin(run)
    while True:
        try:
            if os.fork() == 0:
                time.sleep(10_000)
        except OSError:
            if politely:
                raise


@experiment()
def eats(run: Run) -> None:
    """Takes all memory there is."""
    _begin(run)
    taken = []
    while True:
        taken.append(mmap.mmap(-1, 1 << 20))
        taken[-1].write(b"x" * (1 << 20))


@experiment()
def panics(run: Run) -> None:
    """Takes the lab's kernel down."""
    _begin(run)
    time.sleep(0.1)
    Path("/proc/sysrq-trigger").write_text("c")


@experiment()
def panics_out_of_memory(run: Run) -> None:
    """Takes the lab's kernel down where there is no magic SysRq key."""
    Path("/proc/sys/vm/panic_on_oom").write_text("2")
    eats.perform(run, {})


@experiment()
def survives_its_children(run: Run) -> None:
    """Leaves a daemon behind that holds its output open."""
    _begin(run)
    if os.fork() == 0:
        os.setsid()
        time.sleep(10_000)
    sys.stdout.flush()


@experiment(timeout="60s")
def floods(run: Run, path: str = "/proc/self/fd/1", megabytes: int = 100) -> None:
    """Writes much more than anybody reads."""
    _begin(run)
    with Path(path).open("wb", buffering=0) as out:
        for _ in range(megabytes << 4):
            out.write(b"%65535s\n" % b"much")
