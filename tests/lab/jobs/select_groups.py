"""Equal ways of leaves under a controller, by select groups, compared with Open vSwitch's hash in Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address
from typing import Any
from zlib import crc32

from testbed.net.traffic import Flows, ping
from xoff import Cable, Flow, LeafSpine, Run, network

_WORD = 0xFFFF_FFFF
SPINES = 3
FAULT_S = 0.05
UPLINKS = [f"leaf1-eth{port}" for port in (3, 4, 5)]
TO_HOSTS = [f"leaf{leaf}-eth{port}" for leaf in (1, 2) for port in (1, 2)]


def uplink(flow: tuple[str, str, int, int], seed: int, ports: Sequence[int]) -> int:
    """Return the port that Open vSwitch 3.1 chooses for a UDP flow (addresses and ports) by the method `hash`.

    The hash of the seed and the fields is the seed of one hash for each port; the highest of their lower halves wins.
    """
    source, target, source_port, target_port = flow
    fields = (IPv4Address(source).packed, IPv4Address(target).packed, b"\x11", source_port.to_bytes(2))
    hashed = _finished(_added(_added(0, seed & _WORD), seed >> 32), 8)
    for octets in (*fields, target_port.to_bytes(2)):
        hashed = _finished(_added(hashed, int.from_bytes(octets, "little")), len(octets))
    scores = {port: _finished(_added(_added(port, 0), hashed), 8) & 0xFFFF for port in ports}
    return max(ports, key=lambda port: (scores[port], port))


def _added(hashed: int, word: int) -> int:
    """Return MurmurHash3's hash with one word more."""
    mixed = _turned(word * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    return _turned(hashed ^ mixed, 13) * 5 + 0xE6546B64 & _WORD


def _finished(hashed: int, octets: int) -> int:
    hashed ^= octets
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _WORD
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _WORD
    return hashed ^ hashed >> 16


def _turned(word: int, places: int) -> int:
    return (word << places | word >> 32 - places) & _WORD


def equal_ways(run: Run, controller: Any) -> None:
    """Send flows over three spines, and again after one uplink has failed, and then a cable at another leaf."""
    cable = Cable("10Gb/s", "5m")
    with network(LeafSpine(2, SPINES, 2, controller=controller, cable=cable)) as net:
        controller.wait(lambda: len(_leaves(controller)) == 2 + SPINES, "all switches are here")
        for source, target in (("h1", "h3"), ("h2", "h4")):
            ping(net[source], net[target])
        before = _frames(net, TO_HOSTS)
        net["h1"].cmd("ping -b -c 1 -W 0.1 10.255.255.255")
        run.claim("a broadcast of h1: copies to h1, h2, h3, h4", _since(net, before), equals=[0, 1, 1, 1])

        seed = crc32(f"{run.seed} {net.fabric.core.numbers['leaf1'] + 1}".encode())
        ports = [3, 4, 5]
        _compare(run, net, "three uplinks", seed, ports)
        wanted = _wanted(net, seed, ports)
        worst = max(ports, key=lambda port: wanted[ports.index(port)])
        sent, lost = _frames(net, UPLINKS), _lost(net, lambda: net.fabric.cabling.pull(f"leaf1-eth{worst}"))
        run.claim("one fails: lost, of the frames that went by it", lost, at_most=wanted[ports.index(worst)])
        run.figure("one fails: frames of each uplink", _since(net, sent))
        left = [port for port in ports if port != worst]
        _compare(run, net, "two uplinks", seed, left)
        far = f"leaf2-eth{left[0]}"
        net.fabric.cabling.pull(far)
        controller.wait(lambda: far in _down(controller), "the controller knows that the other leaf has lost a spine")
        _compare(run, net, "one uplink", seed, left[1:])
        net.fabric.cabling.plug(far)
        net.fabric.cabling.plug(f"leaf1-eth{worst}")
        controller.wait(lambda: _links(controller) == 4 * SPINES, "all links are back")
        _compare(run, net, "all are back", seed, ports)


def _flows(net: Any) -> list[tuple[Flow, tuple[str, str, int, int]]]:
    """Return flows of different lengths with the fields that are hashed."""
    ends = [("h1", "h3"), ("h2", "h4")] * 6
    return [
        (
            Flow(source, target, count=10 + place, source_port=40_000 + place, rate="1Mb/s"),
            (net[source].IP(), net[target].IP(), 40_000 + place, 20_000 + place),
        )
        for place, (source, target) in enumerate(ends)
    ]


def _wanted(net: Any, seed: int, ports: Sequence[int]) -> list[int]:
    """Return the frames that the reference gives each uplink."""
    found = dict.fromkeys((3, 4, 5), 0)
    for flow, fields in _flows(net):
        found[uplink(fields, seed, ports)] += flow.count or 0
    return list(found.values())


def _frames(net: Any, ports: Sequence[str]) -> dict[str, int]:
    return {port: sum(net.fabric.sent(port).sent_frames) for port in ports}


def _since(net: Any, before: dict[str, int]) -> list[int]:
    return [now - before[port] for port, now in _frames(net, list(before)).items()]


def _lost(net: Any, fault: Callable[[], None] | None = None) -> int:
    """Run the flows to their ends, with a fault in their midst, and return how many frames are lost."""
    with Flows([flow for flow, _ in _flows(net)]) as flows:
        if fault:
            time.sleep(FAULT_S)
            fault()
        flows.wait()
    return sum(report.lost for report in flows.reports)


def _compare(run: Run, net: Any, name: str, seed: int, ports: Sequence[int]) -> None:
    """Run the flows, and compare the frames of each uplink with the reference."""
    before, lost = _frames(net, UPLINKS), _lost(net)
    run.claim(f"{name}: frames of each uplink", _since(net, before), equals=_wanted(net, seed, ports))
    run.claim(f"{name}: lost", lost, equals=0)


def _leaves(controller: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = controller.ask("GET", "/topology")["leaves"]
    return found


def _links(controller: Any) -> int:
    return sum(len(leaf["links"]) for leaf in _leaves(controller))


def _down(controller: Any) -> set[str]:
    return {port["name"] for leaf in _leaves(controller) for port in leaf["ports"] if not port["up"]}
