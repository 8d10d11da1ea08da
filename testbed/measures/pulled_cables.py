"""Cables that are pulled while flows run: what `--pull PORT@TIME` and `PORT@TIME+TIME` ask for, and doing it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from testbed.errors import UsageError, nearest
from testbed.net.build.network import Network
from testbed.units import Duration


@dataclass(frozen=True)
class Pull:
    """A cable that is pulled out at a port, counted from the begin of the flows."""

    port: str
    at: Duration
    lasts: Duration | None
    """The time until it is plugged in again; None: never."""

    @classmethod
    def parse(cls, text: str) -> Pull:
        """Return the pull that a word such as leaf1-eth2@100us or leaf1-eth2@100us+50us stands for."""
        port, at, times = text.rpartition("@")
        begin, plus, lasts = times.partition("+")
        try:
            found = cls(port, Duration(begin), Duration(lasts) if plus else None)
        except UsageError:
            at = ""
        if not at or not port:
            raise UsageError(f"--pull {text[:60]}: PORT@TIME is expected, or PORT@TIME+TIME to have it back, as in "
                             "leaf1-eth2@100us+50us")  # fmt: skip
        return found


def read_pulls(text: str, ports: Iterable[str]) -> tuple[Pull, ...]:
    """Return the pulls in a list with commas; UsageError for a port that the topology has not."""
    known = list(ports)
    found = tuple(Pull.parse(word) for word in text.split(",") if word)
    for one in found:
        if one.port not in known:
            raise UsageError(f"--pull: there is no port {one.port[:40]}; {nearest(one.port, known)}")
    return found


def pull_cables(net: Network, pulls: Sequence[Pull], begin_lab_ns: int) -> None:
    """Pull cables, and plug them in again, each at its moment after the begin of the flows."""
    moments = [(one.at.ps, net.fabric.cabling.pull, one.port) for one in pulls]
    moments += [(one.at.ps + one.lasts.ps, net.fabric.cabling.plug, one.port) for one in pulls if one.lasts is not None]
    for ps, act, port in sorted(moments, key=lambda moment: moment[0]):
        wait_ns = begin_lab_ns + net.lab_ns(Duration.from_ps(ps)) - time.monotonic_ns()
        time.sleep(max(0, wait_ns) / 1e9)
        act(port)
