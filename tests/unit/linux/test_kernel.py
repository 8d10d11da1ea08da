"""The system calls that Python's library does not offer, each in a child process."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
from collections.abc import Callable

import pytest

from testbed.linux.process import kernel

SCHED_DEADLINE = 6


def in_child(check: Callable[[], bool]) -> bool:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if check() else 1
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize("keep", [(0, 1, 2), (1,), (0, 2, 7), ()])
def test_all_descriptors_but_those_kept_are_closed(keep: tuple[int, ...]) -> None:
    with open(os.devnull, "rb") as own:

        def check() -> bool:
            for number in (0, 1, 2, 7, 100):
                os.dup2(own.fileno(), number)
            kernel.close_descriptors(keep)
            still_open = []
            for number in range(200):
                try:
                    os.fstat(number)
                except OSError:
                    continue
                still_open.append(number)
            return still_open == sorted(keep)

        assert in_child(check)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities")
def test_dropped_capabilities_do_not_come_back_with_another_program() -> None:
    def capabilities(command: str) -> int:
        with os.popen(command) as pipe:
            return int(pipe.read().split()[1], 16)

    def check() -> bool:
        before = capabilities("grep CapEff /proc/self/status")
        kernel.drop_capabilities(kernel.CAP_MKNOD, kernel.CAP_SYS_PTRACE)
        after = capabilities("grep CapEff /proc/self/status")
        return after == before & ~(1 << kernel.CAP_MKNOD | 1 << kernel.CAP_SYS_PTRACE)

    assert in_child(check)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="SCHED_DEADLINE is for root")
def test_reserved_cpu_is_deadline_scheduling() -> None:
    def check() -> bool:
        try:
            kernel.reserve_cpu(1_000_000, 100_000_000)
        except PermissionError:
            return True  # a container without SCHED_DEADLINE
        return os.sched_getscheduler(0) & 0xFF == SCHED_DEADLINE

    assert in_child(check)


def test_a_descriptor_above_those_of_select_is_waited_for() -> None:
    """A network of 200 nodes has thousands of files open; those of agents and captures have the highest numbers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    try:
        ours, theirs = socket.socketpair()
        with ours, theirs, socket.socket(fileno=fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, 2000)) as high:
            assert high.fileno() >= 2000
            assert kernel.wait_readable([high], 0) == []
            assert kernel.wait_readable([], 0, writable=[high]) == [high.fileno()]
            ours.send(b"x")
            assert kernel.wait_readable([high.fileno()]) == [high.fileno()]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
