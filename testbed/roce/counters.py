"""The counters of one end of a connection, which have these names all the way from the packet to the report of a flow.

`tools/roce_counters.py` makes `struct xr_counters` of them, which the kernel's queue pairs have.

Runs in C: `testbed/lab/um/linux/xoff_roce_counters.h`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """The counters of one queue pair. Packets are those of data: requests and read responses; octets are payload."""

    sent_packets: int = 0
    sent_octets: int = 0
    fresh: int = 0
    """Packets that were sent, each counted once however often it was sent; a read is asked for by one packet for all
    of its responses, and counts as so many."""
    retransmitted: int = 0
    """Packets that were sent again."""
    went_back: int = 0
    """The times that the requester went back to an earlier packet."""
    timeouts: int = 0
    sequence_naks: int = 0
    """NAKs that came from a far end which misses a packet."""
    rnr_naks: int = 0
    """The times that the requester had to wait, because the far end had no receive posted."""
    completed: int = 0
    """Works that have come to their end."""
    received_packets: int = 0
    received_octets: int = 0
    marked: int = 0
    """Packets that came with CE."""
    trimmed: int = 0
    """Packets of which the rests came, because a switch had no room for more (`testbed.switch.trimming`)."""
    cnps_sent: int = 0
    cnps_received: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    """Packets that came, each time, while one before them was missing."""
    kept: int = 0
    """Packets that were kept because one before them was missing."""
    reordered: int = 0
    """Packets that came after one with a higher number (`testbed.roce.order`)."""
    extent: int = 0
    """The largest extent of those."""
    messages: int = 0
    """Messages of the far end that have come to their last octet."""
    received: int = 0
    """Those of them that took a receive: sends, and writes with immediate data."""
    incomplete: int = 0
    """Messages of an unreliable connection of which a packet was missing when a later one came, each gap counted once
    however many messages are in it."""
    dropped: int = 0
    """Packets that came and were dropped, because one before them of their message was missing."""
    no_receive: int = 0
    """Messages of an unreliable service that were dropped because no receive was posted."""
    too_long: int = 0
    """Messages of an unreliable service that were dropped because they are longer than their receive, than they say, or
    than a datagram may be."""
    no_access: int = 0
    """Writes of an unreliable connection to memory that there is not."""
    other_keys: int = 0
    """Datagrams with another Q_Key than that of the queue pair."""
    limit_events: int = 0
    """The times that a shared receive queue had fewer receives than its limit, and told of it."""
