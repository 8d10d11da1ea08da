"""The filters that keep an SR domain to itself (RFC 8754, section 5.1), in the kernel of each router.

A port that leads out of the domain drops packets with a destination or a source in the domain: such a packet could
stop queues, enter a VPN, or make a router learn a tunnel. Inside, a router accepts packets to its own SIDs only from
addresses of the domain's routers, in case that an edge has no filter. No HMAC is used: it would protect only against
senders inside the domain.

The filters are at ingress, before routing: after it, a packet that the router itself has encapsulated looks like one
from outside. They match priority-tagged packets too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from ipaddress import IPv6Network
from typing import Any

from testbed.errors import XoffError
from testbed.subjects.srv6.protocol.domain import SrDomain

_SOURCE_AT, _DESTINATION_AT = 8, 24
_PASS, _FIRST = 1, 2
REASONS = ("source_outside", "to_the_domain", "from_the_domain")
"""The reasons why a packet is dropped. The index of a reason gives the filter's preference."""


def outwards(interface: str, domain: SrDomain) -> list[str]:
    """Return the commands that filter a port which leads out of the domain."""
    prefixes = (*domain.sids, *domain.routers)
    drops = [_drop(interface, "to_the_domain", prefix, _DESTINATION_AT) for prefix in prefixes]
    return [
        _begin(interface),
        *drops,
        *(_drop(interface, "from_the_domain", prefix, _SOURCE_AT) for prefix in prefixes),
    ]


def inwards(interface: str, domain: SrDomain, own: IPv6Network) -> list[str]:
    """Return the commands that filter a port to another router of the domain; `own` is this router's locator."""
    passes = [_filter(interface, _PASS, prefix, _SOURCE_AT, "pass") for prefix in domain.routers]
    return [_begin(interface), *passes, _drop(interface, "source_outside", own, _DESTINATION_AT)]


def dropped(node: Any, interfaces: Iterable[str]) -> dict[str, int]:
    """Return the packets dropped by the filters of a router's ports, by reason. XoffError if they cannot be read."""
    found = Counter(dict.fromkeys(REASONS, 0))
    for interface in interfaces:
        shown, refused, code = node.pexec("tc", "-s", "-j", "filter", "show", "dev", interface, "ingress")
        if code:
            raise XoffError(f"the filters of {interface} cannot be read: {refused.strip() or f'tc ended with {code}'}")
        for one in json.loads(shown.strip() or "[]"):
            actions = one.get("options", {}).get("actions", [])
            if actions and one["pref"] >= _FIRST:
                found[REASONS[one["pref"] - _FIRST]] += sum(action["stats"]["packets"] for action in actions)
    return dict(found)


def _begin(interface: str) -> str:
    return f"tc qdisc add dev {interface} clsact"


def _drop(interface: str, reason: str, prefix: IPv6Network, at: int) -> str:
    return _filter(interface, _FIRST + REASONS.index(reason), prefix, at, "drop")


def _filter(interface: str, preference: int, prefix: IPv6Network, at: int, action: str) -> str:
    """Return a filter for all protocols, since a tag counts as one. The first match is the IP version."""
    matches = ["match u8 0x60 0xf0 at 0"]
    for word in range(0, 16, 4):
        value, mask = (int.from_bytes(octets.packed[word : word + 4]) for octets in (prefix[0], prefix.netmask))
        if mask:
            matches.append(f"match u32 {value:#010x} {mask:#010x} at {at + word}")
    start = f"tc filter add dev {interface} ingress pref {preference} protocol all u32"
    return " ".join([start, *matches, "action", action])
