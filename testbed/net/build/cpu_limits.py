"""Mininet's CPULimitedHost as an ordinary host. It needs Mininet.

It needs control groups of version 1, which the lab has not, and its limits would mean nothing where the work of the CPU
takes no time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mininet.log import warn
from mininet.net import Mininet
from mininet.node import CPULimitedHost, Host

from testbed.errors import UsageError
from testbed.experiment.replaced import replaced


@contextmanager
def left_out() -> Iterator[None]:
    """Make hosts without limits while the block lasts; a warning names the first that was given one."""
    warned: list[str] = []

    def made(host: Any, name: str, sched: str = "cfs", **options: Any) -> None:
        Host.__init__(host, name, **options)
        host.sched, host.period_us = sched, options.get("period_us", 100_000)

    def not_limited(host: Any, limit: Any, *_: Any, **__: Any) -> None:
        if limit and limit != -1 and not warned:
            warned.append(host.name)
            warn(f"*** {host.name}: the lab limits no CPU; the limits of this and all other hosts have no effect\n")

    def not_tested(*_: Any, **__: Any) -> None:
        raise UsageError("runCpuLimitTest: the lab limits no CPU, so there is nothing to test")

    with (
        replaced(
            CPULimitedHost, __init__=made, setCPUFrac=not_limited, setCPUs=not_limited,
            popen=Host.popen, cleanup=Host.cleanup,
        ),
        replaced(Mininet, runCpuLimitTest=not_tested),
    ):  # fmt: skip
        yield
