"""The counters of a port with Link Layer Retry, with SONiC's names, in the order in which the kernel gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LLR_COUNTERS = (
    "LLR_TX_INIT_CTL_OS",
    "LLR_TX_INIT_ECHO_CTL_OS",
    "LLR_TX_ACK_CTL_OS",
    "LLR_TX_NACK_CTL_OS",
    "LLR_TX_DISCARD",
    "LLR_TX_OK",
    "LLR_TX_POISONED",
    "LLR_TX_REPLAY",
    "LLR_RX_INIT_CTL_OS",
    "LLR_RX_INIT_ECHO_CTL_OS",
    "LLR_RX_ACK_CTL_OS",
    "LLR_RX_NACK_CTL_OS",
    "LLR_RX_ACK_NACK_SEQ_ERROR",
    "LLR_RX_OK",
    "LLR_RX_POISONED",
    "LLR_RX_BAD",
    "LLR_RX_EXPECTED_SEQ_GOOD",
    "LLR_RX_EXPECTED_SEQ_POISONED",
    "LLR_RX_EXPECTED_SEQ_BAD",
    "LLR_RX_MISSING_SEQ",
    "LLR_RX_DUPLICATE_SEQ",
    "LLR_RX_REPLAY",
)
"""TX_OK counts each time a frame is sent, replays too, and RX_OK each good frame, duplicates too. MISSING_SEQ counts
frames that came before one that is missing; EXPECTED_SEQ_GOOD those that were passed on."""

STATES = ("OFF", "INIT", "ADVANCE", "REPLAY", "FLUSH")
RECEIVER_STATES = ("OFF", "SEND_ACKS", "NACK_SENT")


@dataclass(frozen=True)
class LlrReport:
    """What a port with LLR, or with errors on its cable, has counted: `report["TX_REPLAY"]`."""

    counters: Mapping[str, int]
    """By SONiC's names."""
    state: str
    """That of the sender, as in SAI's TX_STATUS."""
    receiver: str
    flushes: int
    """How often the sender has given up what it kept."""
    lost: int
    """The frames that it has sent and the cable has lost, of all kinds, replays too."""
    damaged: int
    replayed: int
    """The frames that it has sent again."""
    replayed_octets: int
    """Their octets, with FCS."""
    kept: int
    """The frames that are not acknowledged now."""
    held: int
    """Those that have left the port's queues and wait for the line."""
    next_sequence: int
    """The sequence number of the frame that is sent next."""
    expected: int
    """That of the frame that the receiver takes next."""

    @classmethod
    def of(cls, found: Any) -> LlrReport:
        """Return what the kernel has counted at an end (`struct xl_report`)."""
        return cls(
            dict(zip(LLR_COUNTERS, found.counters, strict=True)), STATES[found.state], RECEIVER_STATES[found.receiver],
            found.flushes, found.lost, found.damaged, found.replayed, found.replayed_octets, found.kept, found.held,
            found.next_sequence, found.expected,
        )  # fmt: skip

    def __getitem__(self, name: str) -> int:
        return self.counters[f"LLR_{name.removeprefix('LLR_')}"]
