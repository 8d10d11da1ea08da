"""Counters of IP from /proc."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from testbed.linux import ip_counters

NETSTAT = """TcpExt: SyncookiesSent InNoRoutes
TcpExt: 5 77
IpExt: InNoRoutes InTruncatedPkts
IpExt: 3 9
"""


def test_a_counter_is_that_of_its_protocol(tmp_path: Path) -> None:
    (tmp_path / "netstat").write_text(NETSTAT)
    (tmp_path / "snmp6").write_text("Ip6InReceives  12\nIp6InNoRoutes  4\n")
    assert ip_counters.counted(tmp_path / "netstat", "IpExt", "InNoRoutes") == 3
    assert ip_counters.counted_of_ipv6(tmp_path, "Ip6InNoRoutes") == 4


def test_this_kernels_files_are_read() -> None:
    assert ip_counters.without_route(os.getpid()) >= 0


def test_a_datagram_for_a_port_without_a_socket_is_counted() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
            closed.bind(("127.0.0.1", 0))
            address = closed.getsockname()
        before = ip_counters.without_listener(os.getpid())
        sender.sendto(b"late", address)
        assert ip_counters.without_listener(os.getpid()) > before
