"""Netlink messages for SRv6, octet by octet, as Scapy and the kernel of this machine read them."""

from __future__ import annotations

import errno
import shutil
import struct
import subprocess
from collections.abc import Iterator
from ipaddress import IPv6Address, ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet6 import IPv6ExtHdrSegmentRouting

from testbed.linux.netlink import seg6
from testbed.linux.netlink.messages import Message, NetlinkError, Socket
from testbed.linux.process import kernel
from tests.unit.subjects.srv6.srv6_kernel import Bound, Encap, Local, attributes, link, number, route

_addresses = st.integers(0, 2**128 - 1).map(IPv6Address)
_prefixes = st.one_of(
    st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 32)),
    st.tuples(st.integers(2**32, 2**128 - 1), st.integers(0, 128)),
).map(lambda one: ip_network(one, strict=False))


_B6 = "End.B6.Encaps"
SIDS = [IPv6Address(f"fd00:5:{n}:1::") for n in (1, 2, 3)]


@given(_prefixes, st.integers(1000, 65535), st.lists(_addresses, min_size=1, max_size=127), st.integers(1, 65535))
def test_a_route_into_segments_has_them_reversed_and_starts_with_the_first(
    prefix: seg6.Prefix, table: int, segments: list[IPv6Address], out: int
) -> None:
    message = seg6.encapsulates(prefix, table, segments, out)
    found = route(message)
    assert (found.prefix, found.table, found.metric) == (prefix, table, 1024)
    assert found.what == Encap(tuple(segments), out)
    way = attributes(attributes(message.body[12:])[22])[1]
    header = IPv6ExtHdrSegmentRouting(way[4:])
    assert [IPv6Address(address) for address in header.addresses] == segments[::-1]
    assert (header.type, header.segleft, header.lastentry) == (4, len(segments) - 1, len(segments) - 1)
    assert header.len * 8 + 8 == len(way) - 4


def test_a_route_into_segments_has_these_octets() -> None:
    message = seg6.encapsulates(ip_network("10.3.0.0/16"), 1000, SIDS[:2], 5)
    assert message.body == bytes.fromhex(
        "02 10 00 00 00 04 fd 01 00000000"  # IPv4, /16, static, scope link, unicast
        "0800 0100 0a030000"  # RTA_DST
        "0800 0f00 e8030000"  # RTA_TABLE
        "0800 0600 00040000"  # RTA_PRIORITY
        "0800 0400 05000000"  # RTA_OIF
        "0600 1500 0500 0000"  # RTA_ENCAP_TYPE: LWTUNNEL_ENCAP_SEG6
        "3400 1680"  # RTA_ENCAP, nested
        "3000 0100 01000000"  # SEG6_IPTUNNEL_SRH: SEG6_IPTUN_MODE_ENCAP
        "00 04 04 01 01 00 0000"
        "fd000005000200010000000000000000 fd000005000100010000000000000000"
    )
    assert message.encode(7)[:16] == struct.pack("=IHHII", 16 + len(message.body), 24, 0x505, 7, 0)


@given(_addresses, st.sampled_from(["End.DT4", "End.DT6", "End.DT46"]), st.integers(1000, 65535))
def test_a_behaviour_is_a_route_of_the_main_table_to_one_address(sid: IPv6Address, name: str, table: int) -> None:
    found = route(seg6.local(sid, name, seg6.vrf_index(table), table=table))
    assert (found.prefix, found.table) == (ip_network(sid), 254)
    assert found.what == Local(name, table, 10_000 + table)


@given(_addresses, st.lists(_addresses, min_size=1, max_size=127), st.integers(1, 65535), st.integers(1, 2**32 - 1))
def test_a_binding_sid_is_a_route_of_the_main_table_with_the_list_reversed(
    sid: IPv6Address, segments: list[IPv6Address], out: int, metric: int
) -> None:
    message = seg6.local(sid, _B6, out, metric, segments=segments)
    found = route(message)
    assert (found.prefix, found.table, found.metric) == (ip_network(sid), 254, metric)
    assert found.what == Bound(tuple(segments), out)
    header = IPv6ExtHdrSegmentRouting(attributes(attributes(message.body[12:])[22])[2])
    assert [IPv6Address(address) for address in header.addresses] == segments[::-1]
    assert (header.type, header.segleft, header.lastentry) == (4, len(segments) - 1, len(segments) - 1)


def test_sids_that_the_router_itself_answers_at_are_local_in_a_table_for_marked_packets() -> None:
    removed, rule, *routes = seg6.own_protocols(SIDS)
    assert (removed.kind, removed.may_be_gone, rule.kind, removed.body) == (33, True, 32, rule.body)
    assert rule.body[:12] == bytes.fromhex("0a 00 00 00 00 00 00 01 00000000")  # IPv6, to a table
    mark, table = (number(attributes(rule.body[12:])[kind]) for kind in (10, 15))
    assert mark == seg6.OWN_MARK and mark >> 28 not in (0xA, 0xB), "those are the port program's"
    for sid, message in zip(SIDS, routes, strict=True):
        assert message.body[:2] == bytes([10, 128]) and message.body[7] == 2  # RTN_LOCAL
        found = attributes(message.body[12:])
        assert (found[1], number(found[15]), number(found[4])) == (sid.packed, table, 1)
    assert seg6.own_protocols([]) == []


@given(_prefixes, st.integers(1, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_an_unreachable_route_and_its_end_name_the_same(prefix: seg6.Prefix, table: int, metric: int) -> None:
    added, removed = seg6.unreachable(prefix, table, metric), seg6.remove_route(prefix, table, metric)
    assert route(added) == route(removed)
    assert route(added).what is None
    assert (route(added).prefix, route(added).table, route(added).metric) == (prefix, table, metric)
    assert (added.kind, removed.kind, removed.may_be_gone) == (24, 25, True)


def test_a_vrf_has_its_table_and_is_up_and_its_table_ends_with_nowhere_in_both_families() -> None:
    message = seg6.vrf("red", 1000)
    index, parts = link(message)
    info = attributes(parts[18])
    assert (index, parts[3], info[1], number(attributes(info[2])[1])) == (11_000, b"red\0", b"vrf\0", 1000)
    assert (message.create, message.replace) == (True, False)
    last = [route(one) for one in seg6.last_resort(1000)]
    assert [(str(one.prefix), one.metric, one.what) for one in last] == [
        ("0.0.0.0/0", 4278198272, None),
        ("::/0", 4278198272, None),
    ]
    assert [route(one) for one in seg6.remove_last_resort(1000)] == last


def test_an_interface_joins_a_vrf_or_leaves_whichever_it_is_in() -> None:
    for master in (11_000, 0):
        message = seg6.join(12, master)
        index, parts = link(message)
        assert (index, number(parts[10]), message.may_be_gone) == (12, master, not master)


# By the kernel


@pytest.fixture
def netlink(namespace: int) -> Iterator[tuple[Socket, int]]:
    """A socket in a namespace of its own, whose loopback is up, and the namespace."""
    with kernel.in_network(namespace):
        kernel.set_up("lo")
        made = Socket()
    yield made, namespace
    made.close()


def _shown(namespace: int, *question: str) -> list[str]:
    """Return the kernel's routes as iproute2 prints them."""
    program = shutil.which("ip") or ("/sbin/ip" if Path("/sbin/ip").exists() else None)
    if program is None:
        pytest.skip("this machine has no iproute2")
    with kernel.in_network(namespace):
        said = subprocess.run([program, *question], capture_output=True, text=True, check=False)
    return [" ".join(line.split()) for line in said.stdout.splitlines()]


def _routes(namespace: int) -> list[str]:
    return [line for family in ("-4", "-6") for line in _shown(namespace, family, "route", "show", "table", "1000")]


def test_the_kernel_has_the_routes_and_replaces_and_removes_them(netlink: tuple[Socket, int]) -> None:
    sockets, namespace = netlink
    prefixes = [ip_network("10.3.0.0/16"), ip_network("fd00:33::/32")]
    try:
        sockets.send([seg6.encapsulates(prefix, 1000, SIDS, 1) for prefix in prefixes])
    except NetlinkError as error:
        if error.code == errno.EOPNOTSUPP:
            pytest.skip("this kernel has no SRv6")
        raise
    sockets.send(seg6.last_resort(1000))
    way = "encap seg6 mode encap segs 3 [ fd00:5:1:1:: fd00:5:2:1:: fd00:5:3:1:: ] dev lo"
    shown = _routes(namespace)
    assert [line for line in shown if "seg6" in line] == [
        f"10.3.0.0/16 {way} proto static scope link metric 1024",
        f"fd00:33::/32 {way} proto static metric 1024 pref medium",
    ]
    assert len([line for line in shown if line.startswith("unreachable default") and "4278198272" in line]) == 2

    sockets.send([seg6.encapsulates(prefixes[0], 1000, SIDS[2:], 1), seg6.unreachable(prefixes[1], 1000)])
    shown = _routes(namespace)
    assert (
        "10.3.0.0/16 encap seg6 mode encap segs 1 [ fd00:5:3:1:: ] dev lo proto static scope link metric 1024" in shown
    )
    assert [line for line in shown if "fd00:33::/32" in line] == [
        "unreachable fd00:33::/32 dev lo proto static metric 1024 pref medium"
    ]
    assert len(shown) == 4

    removals = [seg6.remove_route(prefix, 1000) for prefix in prefixes] + seg6.remove_last_resort(1000)
    sockets.send(removals)
    assert _routes(namespace) == []
    sockets.send(removals)  # what is gone already is no error
    with pytest.raises(NetlinkError, match="No such process"):
        sockets.send([Message(one.kind, one.body, one.what) for one in removals])


def test_the_kernel_has_a_binding_sid_by_each_interface_and_replaces_and_removes_it(
    netlink: tuple[Socket, int],
) -> None:
    sockets, namespace = netlink
    sid, question = IPv6Address("fd00:5:1:b::"), ("-6", "route", "show", "fd00:5:1:b::")
    try:
        sockets.send([seg6.local(sid, _B6, 1, metric, segments=SIDS) for metric in (1024, 1025)])
    except NetlinkError as error:
        if error.code == errno.EOPNOTSUPP:
            pytest.skip("this kernel has no SRv6")
        raise
    way = "encap seg6local action End.B6.Encaps segs 3 [ fd00:5:1:1:: fd00:5:2:1:: fd00:5:3:1:: ]"
    assert _shown(namespace, *question) == [
        f"fd00:5:1:b:: {way} dev lo proto static metric {metric} pref medium" for metric in (1024, 1025)
    ]
    sockets.send([seg6.local(sid, _B6, 1, segments=SIDS[:1])])
    assert "segs 1 [ fd00:5:1:1:: ]" in _shown(namespace, *question)[0]
    sockets.send([seg6.unreachable(ip_network(sid), metric=metric) for metric in (1024, 1025)])
    assert _shown(namespace, *question) == [
        f"unreachable fd00:5:1:b:: dev lo proto static metric {metric} pref medium" for metric in (1024, 1025)
    ]
    sockets.send([seg6.local(sid, _B6, 1, segments=SIDS)])
    assert "segs 3" in _shown(namespace, *question)[0]
    sockets.send([seg6.remove_route(ip_network(sid), metric=metric) for metric in (1024, 1025)])
    assert _shown(namespace, *question) == []


def test_a_default_route_of_a_vpn_goes_without_the_last_resort(netlink: tuple[Socket, int]) -> None:
    sockets, namespace = netlink
    everything = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    sockets.send([*seg6.last_resort(1000), *(seg6.unreachable(prefix, 1000) for prefix in everything)])
    assert len(_routes(namespace)) == 4
    sockets.send([seg6.remove_route(prefix, 1000) for prefix in everything])
    shown = _routes(namespace)
    assert len(shown) == 2 and all("4278198272" in line for line in shown)


def test_the_kernel_has_each_action_that_a_behaviour_names(netlink: tuple[Socket, int]) -> None:
    sockets, namespace = netlink
    actions: list[tuple[str, IPv6Address | None, int | None]] = [
        ("End", None, None), ("End.X", SIDS[1], None), ("End.DT6", None, 254)
    ]  # fmt: skip
    for place, (action, next_hop, table) in enumerate(actions, 1):
        sid = IPv6Address(f"fd00:5:9:{place}::")
        try:
            sockets.send([seg6.local(sid, action, 1, next_hop=next_hop, table=table)])
        except NetlinkError as error:
            if error.code == errno.EOPNOTSUPP:
                pytest.skip("this kernel has no SRv6")
            if table is not None:
                continue  # a VRF of that table is missing here
            raise
        (shown,) = _shown(namespace, "-6", "route", "show", str(sid))
        assert f"encap seg6local action {action} " in shown
        assert next_hop is None or f"nh6 {next_hop}" in shown
