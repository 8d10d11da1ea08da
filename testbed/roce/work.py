"""Works: what a user of a queue pair asks for."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from testbed.frames.roce import MAXIMUM_MESSAGE
from testbed.roce.memory import Region
from testbed.roce.settings import RoceError


class Operation(enum.StrEnum):
    WRITE = "write"
    READ = "read"
    SEND = "send"


@dataclass(frozen=True)
class Work:
    """A user's request: `length` octets from `local` to the far memory, or the other way round for a read.

    A send names no far address. `immediate` goes with the last packet of a write or a send.
    """

    operation: Operation
    local: Region
    length: int
    local_address: int = 0
    remote_address: int = 0
    r_key: int = 0
    immediate: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.length <= MAXIMUM_MESSAGE:
            raise RoceError(f"{self.operation} of {self.length} octets; a message has 0 to {MAXIMUM_MESSAGE}")
        if self.local_address < 0 or self.local_address + self.length > self.local.size:
            raise RoceError(
                f"{self.operation} of {self.length} octets at {self.local_address}; the local memory has "
                f"{self.local.size}"
            )
        if self.immediate is not None and self.operation is Operation.READ:
            raise RoceError("a read has no immediate data")
