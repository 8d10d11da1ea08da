"""Counters of IP from /proc."""

from __future__ import annotations

import os

from testbed.linux import ip_counters

NETSTAT = """TcpExt: SyncookiesSent InNoRoutes
TcpExt: 5 77
IpExt: InNoRoutes InTruncatedPkts
IpExt: 3 9
"""


def test_packets_without_a_route_are_those_of_both_families() -> None:
    assert ip_counters.no_routes(NETSTAT, "Ip6InReceives  12\nIp6InNoRoutes  4\n") == 7


def test_this_kernels_files_are_read() -> None:
    assert ip_counters.without_route(os.getpid()) >= 0
