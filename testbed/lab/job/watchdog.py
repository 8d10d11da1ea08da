"""The watchdog, which lets the supervisor run although a process of the job never gives up the CPU.

A job may use SCHED_FIFO at any priority, as agents do; one that spins at 99 keeps the supervisor from the CPU. The
watchdog is a process in SCHED_DEADLINE, which Linux schedules before all of SCHED_FIFO. It sleeps until the job's time
limit or until a command has come, and then puts the supervisor into SCHED_DEADLINE too. So in a run that ends by itself
it takes no time.

Where the job has reserved so much for SCHED_DEADLINE itself that the kernel refuses, the limit of wall time remains.
"""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress

from testbed.linux.process import kernel
from testbed.linux.process.child import Child

_PERIOD_NS = 20_000_000
_OWN_NS, _SUPERVISOR_NS = 1_000_000, 16_000_000
"""The runtimes in each period. The kernel admits 95 % in all."""
_FOR_A_COMMAND_S = 0.1
_LONGEST_S = 3600.0  # epoll takes no more than some weeks


def start(commands: int, deadline_ns: int, priority: int) -> None:
    """Start the watchdog of this process, whose own priority is `priority`, as a child.

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
