"""The filters of the SR domain: their commands, carried out on packets as the kernel would."""

from __future__ import annotations

import json
from ipaddress import IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import XoffError
from testbed.frames.ipv6 import Packet
from testbed.subjects.srv6.lab import routers as sr_filters
from testbed.subjects.srv6.lab import routers as srv6
from testbed.subjects.srv6.protocol.domain import SrDomain
from testbed.units import Duration

DOMAIN = SrDomain(["fd00:5::/32"], ["fd00:6::/32", "fd00:c:0:40::/58"])
OWN = IPv6Network("fd00:5:3::/48")
NEAR = [
    "fd00:5:3:10::",
    "fd00:5:3::",
    "fd00:5:4::",
    "fd00:5::1",
    "fd00:6::1",
    "fd00:c:0:40::9",
    "fd00:c:0:80::9",
    "::1",
]
addresses = st.one_of(st.sampled_from(NEAR), st.integers(0, 2**128 - 1)).map(IPv6Address)


def verdict(commands: list[str], packet: bytes) -> str:
    """Return the verdict of the `tc` commands on a packet: "pass", or the reason of its drop."""
    rules = []
    for command in commands:
        words = command.split()
        if words[1] == "qdisc":
            assert words == ["tc", "qdisc", "add", "dev", "r3-eth0", "clsact"]
            continue
        assert words[:6] == ["tc", "filter", "add", "dev", "r3-eth0", "ingress"]
        assert words[6] == "pref" and words[8:11] == ["protocol", "all", "u32"]
        matches, action = words[11:-2], words[-1]
        rules.append((int(words[7]), [matches[at : at + 6] for at in range(0, len(matches), 6)], action))
    for preference, quads, action in sorted(rules, key=lambda rule: rule[0]):
        if all(_fits(packet, *match) for match in quads):
            return "pass" if action == "pass" else sr_filters.REASONS[preference - 2]
    return "pass"


def _fits(packet: bytes, *words: str) -> bool:
    match, width, value, mask, at, place = words
    assert (match, at) == ("match", "at")
    size = {"u8": 1, "u32": 4}[width]
    found = int.from_bytes(packet[int(place) : int(place) + size])
    return found & int(mask, 0) == int(value, 0)


@given(addresses, addresses)
def test_nothing_crosses_the_edge_to_the_domain_or_in_its_name(source: IPv6Address, destination: IPv6Address) -> None:
    inside = [DOMAIN.is_sid(one) or DOMAIN.is_router(one) for one in (source, destination)]
    expected = "to_the_domain" if inside[1] else "from_the_domain" if inside[0] else "pass"
    packet = Packet(source, destination, 59, b"").encode()
    assert verdict(sr_filters.outwards("r3-eth0", DOMAIN), packet) == expected


@given(addresses, addresses)
def test_inside_only_routers_reach_a_routers_own_sids(source: IPv6Address, destination: IPv6Address) -> None:
    dropped = destination in OWN and not DOMAIN.is_router(source)
    packet = Packet(source, destination, 59, b"").encode()
    assert verdict(sr_filters.inwards("r3-eth0", DOMAIN, OWN), packet) == ("source_outside" if dropped else "pass")


@given(st.binary(min_size=20, max_size=80))
def test_what_is_not_ipv6_passes(data: bytes) -> None:
    packet = bytes([0x45]) + data[1:]
    for commands in (sr_filters.outwards("r3-eth0", DOMAIN), sr_filters.inwards("r3-eth0", DOMAIN, OWN)):
        assert verdict(commands, packet) == "pass"


def test_every_port_of_a_router_has_its_filters() -> None:
    graph = srv6.WanGraph([("r1", "r2", Duration("1ms"))], {"r1": 2})
    begun = [word for word in graph.setup("r1", []) if str(word).startswith("tc qdisc")]
    assert begun == [f"tc qdisc add dev r1-eth{port} clsact" for port in (0, 1, 2)]
    outwards = [str(command) for command in graph.setup("r1", []) if "pref 3" in str(command)]
    assert {command.split()[4] for command in outwards} == {"r1-eth0", "r1-eth1"}


def test_counters_are_added_up_by_reason() -> None:
    def rule(preference: int, packets: int) -> dict[str, object]:
        return {"pref": preference, "options": {"actions": [{"stats": {"packets": packets}}]}}

    class Node:
        def pexec(self, *command: str) -> tuple[str, str, int]:
            if "r1-eth2" in command:
                return "\n", "", 0
            return json.dumps([{"pref": 3}, rule(1, 99), rule(3, 2), rule(3, 4), rule(4, 1)]), "", 0

    found = sr_filters.dropped(Node(), ["r1-eth0", "r1-eth1", "r1-eth2"])
    assert found == {"source_outside": 0, "to_the_domain": 12, "from_the_domain": 2}


def test_filters_that_cannot_be_read_are_an_error_and_not_zero() -> None:
    class Node:
        def pexec(self, *command: str) -> tuple[str, str, int]:
            return "", 'Cannot find device "r1-eth9"\n', 1

    with pytest.raises(XoffError, match=r'^the filters of r1-eth9 cannot be read: Cannot find device "r1-eth9"$'):
        sr_filters.dropped(Node(), ["r1-eth9"])
