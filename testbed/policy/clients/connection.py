"""The settings that a connection gets from a path record, and the query for it.

`Ask` is a function that puts a request to the SA, over REST or in the same process, and returns a path or the reason
why there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from testbed.errors import XoffError
from testbed.policy.records import Found, NotFound, PathRecords, Request


class NotConnected(XoffError):
    """The error of a client that gets no path, with the SA's reason."""


@dataclass(frozen=True)
class AddressVector:
    """The settings of a queue pair, or of a socket in place of one."""

    sl: int
    mtu: int  # bytes
    rate: int  # bit/s
    tclass: int
    pkey: int
    dlid: int = 0

    @classmethod
    def of(cls, found: Found) -> AddressVector:
        return cls(found.sl, found.mtu, found.rate, found.tclass, found.pkey, found.dlid)


Ask = Callable[[Request], AddressVector | NotFound]


def asking(records: PathRecords) -> Ask:
    """Return a function that asks path records of the same process."""

    def ask(request: Request) -> AddressVector | NotFound:
        answer = records.query(request)
        return AddressVector.of(answer) if isinstance(answer, Found) else answer

    return ask


def connected(client: str, ask: Ask, request: Request) -> AddressVector:
    """Return the path of a request; NotConnected if there is none."""
    answer = ask(request)
    if isinstance(answer, NotFound):
        raise NotConnected(f"{client} gets no path ({answer.reason}): {answer.message}")
    return answer
