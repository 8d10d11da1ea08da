"""Counters of a network namespace's IP, from /proc."""

from __future__ import annotations

from pathlib import Path


def without_route(process: int) -> int:
    """Return how many packets that came into the namespace of a process had no route, of IPv4 and IPv6."""
    folder = Path(f"/proc/{process}/net")
    return no_routes((folder / "netstat").read_text(), (folder / "snmp6").read_text())


def no_routes(netstat: str, snmp6: str) -> int:
    """Return the sum of IpExt's InNoRoutes, of two lines of names and values, and Ip6InNoRoutes, of one line."""
    names, values = (line.split() for line in netstat.splitlines() if line.startswith("IpExt:"))
    of_ipv6 = dict(line.split() for line in snmp6.splitlines() if line)
    return int(dict(zip(names, values, strict=True))["InNoRoutes"]) + int(of_ipv6["Ip6InNoRoutes"])
