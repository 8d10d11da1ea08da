"""Counters of a network namespace's IP, from /proc."""

from __future__ import annotations

from pathlib import Path


def without_route(process: int) -> int:
    """Return how many packets that came into the namespace of a process had no route, of IPv4 and IPv6."""
    folder = Path(f"/proc/{process}/net")
    return counted(folder / "netstat", "IpExt", "InNoRoutes") + counted_of_ipv6(folder, "Ip6InNoRoutes")


def without_listener(process: int) -> int:
    """Return how many UDP packets that came into the namespace of a process found no socket, of IPv4 and IPv6."""
    folder = Path(f"/proc/{process}/net")
    return counted(folder / "snmp", "Udp", "NoPorts") + counted_of_ipv6(folder, "Udp6NoPorts")


def counted(file: Path, protocol: str, name: str) -> int:
    """Return a counter of a file that has a line of names and a line of values for each protocol."""
    lines = file.read_text().splitlines()
    names, values = (line.split() for line in lines if line.startswith(f"{protocol}:"))
    return int(dict(zip(names, values, strict=True))[name])


def counted_of_ipv6(folder: Path, name: str) -> int:
    """Return a counter of IPv6; its file in a folder of /proc has a line for each."""
    return int(dict(line.split() for line in (folder / "snmp6").read_text().splitlines() if line)[name])
