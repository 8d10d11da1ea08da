"""The cables between switches that were read from config_db.json files, and the hosts at their other ports.

Hosts are put so that a run tests the ports most at risk: the one with the least headroom to spare, and one of each
class of ports. Everything here can be used outside of the lab.
"""

from __future__ import annotations

from collections.abc import Sequence

from testbed.errors import listed, nearest
from testbed.subjects.sonic.headroom import tightest
from testbed.subjects.sonic.lab.settings import Switch, SwitchError, SwitchPort
from testbed.subjects.sonic.ports_to_test import PortsError, in_order, require_port

Place = tuple[str, str]
"""A hostname, and a port."""
_End = tuple[Switch, SwitchPort]


def by_name(switches: Sequence[Switch]) -> dict[str, Switch]:
    """Return switches by their hostnames. SwitchError if two have the same."""
    switches_by_name: dict[str, Switch] = {}
    for switch in switches:
        if switch.name in switches_by_name:
            raise SwitchError(
                f"two files have the hostname {switch.name}; DEVICE_METADATA|localhost has to tell them apart"
            )
        switches_by_name[switch.name] = switch
    return switches_by_name


def cables_between(switches: Sequence[Switch]) -> list[tuple[_End, _End]]:
    """Return the cables between switches, by their DEVICE_NEIGHBOR tables, each cable once."""
    known = by_name(switches)
    found: list[tuple[_End, _End]] = []
    cabled: set[Place] = set()
    for switch in switches:
        for port in switch.ports.values():
            if port.neighbour is None or (switch.name, port.name) in cabled or not port.up:
                continue
            other = known.get(port.neighbour[0])
            if other is None:
                continue
            far = other.ports.get(port.neighbour[1])
            if far is None or other is switch:
                raise SwitchError(
                    f"{switch.name}: DEVICE_NEIGHBOR of {port.name} is {' '.join(port.neighbour)}, and there is no "
                    "such port of another switch"
                )
            if (other.name, far.name) in cabled or not far.up:
                continue
            cabled |= {(switch.name, port.name), (other.name, far.name)}
            found.append(((switch, port), (other, far)))
    return found


def free_places(switches: Sequence[Switch]) -> list[Place]:
    """Return the ports that are up and have no cable to another of these switches, in the order of the files."""
    cabled = {(switch.name, port.name) for ends in cables_between(switches) for switch, port in ends}
    return [
        (switch.name, port.name)
        for switch in switches
        for port in switch.ports.values()
        if port.up and (switch.name, port.name) not in cabled
    ]


def hosts_at(
    switches: Sequence[Switch], wanted: int, named: Sequence[str] = (), *, last_receives: bool = False
) -> list[Place]:
    """Return the ports for the hosts h1, h2, ..., as many as `wanted`.

    Named ports are first, as "Ethernet4" or "leaf1:Ethernet4". The others are spread over the switches: of each the
    port with the least slack, one of each other class, and the others in the order of the file. `last_receives` puts
    the host of the port with the most slack to the end: if all send to it, its headroom is not used.
    """
    free, chosen = free_places(switches), [_place(switches, text) for text in named]
    for name, port in chosen:
        if (name, port) not in free:
            raise PortsError(f"{port} of {name} has a cable to another of these switches, so no host can be at it")
    if len(chosen) > wanted:
        raise PortsError(f"--ports names {len(chosen)} ports, and the workload has {wanted} hosts")
    if len(free) < wanted:
        raise SwitchError(f"{wanted} hosts are wanted, and the switches have {len(free)} free ports that are up")
    given = len(chosen)
    orders = {
        switch.name: in_order(switch.tables, switch.buffer.cell, (port for name, port in free if name == switch.name))
        for switch in switches
    }
    while len(chosen) < wanted:  # one more of the switch that has the fewest
        counts = {name: sum(place[0] == name for place in chosen) for name in orders}
        left = {name: [port for port in order if (name, port) not in chosen] for name, order in orders.items()}
        name = min((name for name in orders if left[name]), key=counts.__getitem__)
        chosen.append((name, left[name][0]))
    names = list(orders)
    others = sorted(chosen[given:], key=lambda place: names.index(place[0]))
    if last_receives and others:
        receiver = max(reversed(others), key=lambda place: _slack(switches, place))
        others.remove(receiver)
        others.append(receiver)
    return chosen[:given] + others


def _place(switches: Sequence[Switch], text: str) -> Place:
    """Return the place of a port that the user names."""
    hostname, colon, port = text.rpartition(":")
    if colon:
        if hostname not in by_name(switches):
            raise PortsError(f"there is no switch {hostname[:40]!r}; {nearest(hostname[:40], by_name(switches))}")
        places = [by_name(switches)[hostname]]
    else:
        places = [switch for switch in switches if port in switch.ports] or list(switches[:1])
    if len(places) > 1:
        raise PortsError(f"{port} is a port of {listed(one.name for one in places)}; write {places[0].name}:{port}")
    require_port(places[0].tables, port)
    return places[0].name, port


def _slack(switches: Sequence[Switch], place: Place) -> float:
    """Return the slack of a port's headroom in bytes; infinity without PFC, as such a port has nothing to lose."""
    switch = by_name(switches)[place[0]]
    group = tightest(switch.tables, place[1], switch.buffer.cell)
    return float("inf") if group is None else group.slack
