"""Works: what a user of a queue pair asks for."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from testbed.frames.roce import MAXIMUM_MESSAGE
from testbed.roce.memory import WORD_OCTETS, Region
from testbed.roce.settings import RoceError


class Operation(enum.StrEnum):
    WRITE = "write"
    READ = "read"
    SEND = "send"
    COMPARE_SWAP = "compare and swap"
    FETCH_ADD = "fetch and add"

    @property
    def is_atomic(self) -> bool:
        """True if it changes 64 bits of the far memory and brings back what was there."""
        return self in _ATOMICS

    @property
    def is_answered(self) -> bool:
        """True if responses of its own complete it, and no acknowledgement does."""
        return self in _ANSWERED


_ATOMICS = frozenset({Operation.COMPARE_SWAP, Operation.FETCH_ADD})
_ANSWERED = _ATOMICS | {Operation.READ}


@dataclass(frozen=True)
class AddressHandle:
    """The queue pair that a datagram goes to, and the Q_Key that it wants to see."""

    address: str
    """An address of the IP version of its queue pair."""
    queue_pair: int
    q_key: int


@dataclass(frozen=True)
class Work:
    """A user's request: `length` octets from `local` to the far memory, or the other way round for a read.

    A send names no far address. `immediate` goes with the last packet of a write or a send. An atomic operation brings
    `local` the 64 bits that were there, as little-endian memory has them.
    """

    operation: Operation
    local: Region
    length: int
    local_address: int = 0
    remote_address: int = 0
    r_key: int = 0
    immediate: int | None = None
    data: int = 0
    """What an atomic operation adds, or puts there if what is there is equal to `compare`."""
    compare: int = 0
    invalidate: int | None = None
    """A key of far memory that nobody may use after this send."""
    to: AddressHandle | None = None
    """The queue pair that a datagram (UD) goes to; None: the one that its queue pair is connected with."""

    def __post_init__(self) -> None:
        if not 0 <= self.length <= MAXIMUM_MESSAGE:
            raise RoceError(f"{self.operation} of {self.length} octets; a message has 0 to {MAXIMUM_MESSAGE}")
        if self.local_address < 0 or self.local_address + self.length > self.local.size:
            raise RoceError(
                f"{self.operation} of {self.length} octets at {self.local_address}; the local memory has "
                f"{self.local.size}"
            )
        if self.immediate is not None and self.operation.is_answered:
            raise RoceError(f"a {self.operation} has no immediate data")
        if self.operation.is_atomic and self.length != WORD_OCTETS:
            raise RoceError(f"{self.operation} of {self.length} octets; it has {WORD_OCTETS}")
        if self.invalidate is not None and (self.operation is not Operation.SEND or self.immediate is not None):
            raise RoceError("only a send without immediate data invalidates memory")
