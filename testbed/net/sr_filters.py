"""The filters that keep an SR domain to itself (RFC 8754, section 5.1), in the kernel of each router.

Where a port leads out of the domain, nothing comes in that is for the domain's SIDs or routers, or that says it is from
there: such a packet could stop queues, enter a VPN, or teach a router a tunnel. Inside, a router takes packets to its
own SIDs only from the domain's routers, in case that an edge has no filter. There is no HMAC, and none is needed:
whoever gets past an edge would have had to be inside.

The filters sit where packets come in, before all routing: behind it a packet that the router itself has put into a
tunnel looks as one from outside. A priority tag does not hide a packet from them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from ipaddress import IPv6Network
from typing import Any

from testbed.srv6.protocol.domain import SrDomain

_SOURCE_AT, _DESTINATION_AT = 8, 24
_PASS, _FIRST = 1, 2
REASONS = ("source_outside", "to_the_domain", "from_the_domain")
"""Why a packet is dropped; the place is the filter's preference."""


def outwards(interface: str, domain: SrDomain) -> list[str]:
    """For the router's shell: guard a port that leads out of the domain."""
    prefixes = (*domain.sids, *domain.routers)
    drops = [_drop(interface, "to_the_domain", prefix, _DESTINATION_AT) for prefix in prefixes]
    return [
        _begin(interface),
        *drops,
        *(_drop(interface, "from_the_domain", prefix, _SOURCE_AT) for prefix in prefixes),
    ]


def inwards(interface: str, domain: SrDomain, own: IPv6Network) -> list[str]:
    """Guard a port to another router of the domain; `own`: where this router's SIDs are."""
    passes = [_filter(interface, _PASS, prefix, _SOURCE_AT, "pass") for prefix in domain.routers]
    return [_begin(interface), *passes, _drop(interface, "source_outside", own, _DESTINATION_AT)]


def dropped(node: Any, interfaces: Iterable[str]) -> dict[str, int]:
    """What the filters of a router's ports have dropped, by reason."""
    found = Counter(dict.fromkeys(REASONS, 0))
    for interface in interfaces:
        said = node.cmd(f"tc -s -j filter show dev {interface} ingress 2>/dev/null").strip()
        for one in json.loads(said or "[]"):
            actions = one.get("options", {}).get("actions", [])
            if actions and one["pref"] >= _FIRST:
                found[REASONS[one["pref"] - _FIRST]] += sum(action["stats"]["packets"] for action in actions)
    return dict(found)


def _begin(interface: str) -> str:
    return f"tc qdisc add dev {interface} clsact"


def _drop(interface: str, reason: str, prefix: IPv6Network, at: int) -> str:
    return _filter(interface, _FIRST + REASONS.index(reason), prefix, at, "drop")


def _filter(interface: str, preference: int, prefix: IPv6Network, at: int, action: str) -> str:
    """All protocols, since a tag counts as one; what is no IPv6 packet is known by its first octet."""
    matches = ["match u8 0x60 0xf0 at 0"]
    for word in range(0, 16, 4):
        value, mask = (int.from_bytes(octets.packed[word : word + 4]) for octets in (prefix[0], prefix.netmask))
        if mask:
            matches.append(f"match u32 {value:#010x} {mask:#010x} at {at + word}")
    start = f"tc filter add dev {interface} ingress pref {preference} protocol all u32"
    return " ".join([start, *matches, "action", action])
