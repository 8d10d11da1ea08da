"""Packet trimming on the switch, for the cases of SONiC's trimming plan.

Not an experiment. Queues are blocked at the switch, where the plan gives them a scheduler with a PIR of 1 byte/s; then
frames fill them until one has no room, and what follows is trimmed or dropped. Frames are made octet by octet, as PTF
makes them, and looked at where they arrive.
"""

import json
import os
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Any

from experiments.conformance._case import Bench, CaseError
from testbed.subjects.sonic.lab.commands import show
from testbed.subjects.sonic.lab.trimming_views import configure
from testbed.subjects.sonic.tables import FROM_TC, DiscardAction, MapKind, Tables, TrimmingRow
from testbed.switch.trimming.cut import checksum_sum
from xoff import Network, RawPort, SonicTopo, Tap

SIZE, DSCP, CLASS = 256, 48, 5
FRAME, SHORT, JUMBO = 1500, 100, 5000
PROFILE = "q_lossy_trim_profile"
HOST_DSCP, SPINE_DSCP = 10, 20
FRAMES = 100
"""The frames that each step of the plan sends to a full queue."""
UDP, TCP = 17, 6
KINDS = {"IPv4 UDP": (4, UDP), "IPv4 TCP": (4, TCP), "IPv6 UDP": (6, UDP), "IPv6 TCP": (6, TCP)}
TTL = 61
_MTU = 9000


def trims(tables: Tables) -> Tables:
    """Return the tables with symmetric trimming: lossy queues have a profile with the action `trim`."""
    queues = dict(tables.queue_profiles)
    profiles = dict(tables.profiles)
    for (port, queue), name in tables.queue_profiles.items():
        profile = tables.profiles.get(name)
        if profile is not None and queue not in tables.pfc_of(port):
            trimmed = f"{PROFILE}_{name}"
            profiles[trimmed] = replace(profile, packet_discard_action=DiscardAction.TRIM)
            queues[port, queue] = trimmed
    return replace(
        tables, profiles=profiles, queue_profiles=queues, watchdogs={}, trimming=TrimmingRow(SIZE, DSCP, None, 6)
    )


def without_trimming(tables: Tables) -> Tables:
    """Return the tables with the action `drop` in all profiles."""
    return replace(tables, profiles=with_action(tables, DiscardAction.DROP))


def with_action(tables: Tables, action: DiscardAction) -> dict[str, Any]:
    return {
        name: replace(row, packet_discard_action=action) if name.startswith(PROFILE) else row
        for name, row in tables.profiles.items()
    }


def asymmetric(tables: Tables, ports: list[str]) -> Tables:
    """Return the tables with a DSCP for each of two ports, by their TC_TO_DSCP_MAP."""
    maps, qos = dict(tables.maps), dict(tables.qos)
    for port, name, dscp in zip(ports, ("host_trim_map", "spine_trim_map"), (HOST_DSCP, SPINE_DSCP), strict=True):
        maps[MapKind.TC_TO_DSCP, name] = {CLASS: dscp}
        qos[port] = replace(qos[port], maps={**qos[port].maps, MapKind.TC_TO_DSCP: name})
    row = tables.trimming or TrimmingRow()
    return replace(tables, maps=maps, qos=qos, trimming=replace(row, dscp_value=FROM_TC, tc_value=CLASS))


@dataclass(frozen=True)
class Arrived:
    """A frame that arrived: what the plan looks at."""

    octets: int
    dscp: int
    ttl: int
    version: int

    @classmethod
    def of(cls, frame: bytes) -> "Arrived":
        if frame[14] >> 4 == 4:
            return cls(len(frame), frame[15] >> 2, frame[22], 4)
        return cls(len(frame), (frame[14] & 15) << 2 | frame[15] >> 6, frame[21], 6)


class Trimmed:
    """A running switch whose queues can be blocked and filled: `with trimmed(bench) as on:`."""

    def __init__(self, bench: Bench, net: Network, stack: ExitStack) -> None:
        self.bench, self.net, self.fabric = bench, net, net.fabric
        self.hosts = [host.name for host in net.hosts]
        self._stack = stack
        self._raw = stack.enter_context(RawPort(net["h1"], "h1-eth0", past_queues=True))
        self._taps = {name: stack.enter_context(Tap(net[name], f"{name}-eth0")) for name in self.hosts[1:]}
        self.lossy = [queue for queue in bench.lossy if queue not in (CLASS, 6)][:3]
        """Lossy classes whose queue is not that of rests."""
        if not self.lossy:
            raise CaseError(f"{bench.switch.name} has no lossy class beside the one of rests")

    def port(self, host: str) -> str:
        return self.bench.port(self.net, host)

    def block(self, host: str, queue: int, stop: bool = True) -> None:
        """Block the switch's queue to a host, or let it go on."""
        block(self.net, self.port(host), queue, stop)

    def frame(self, host: str, priority: int, length: int = FRAME, kind: str = "IPv4 UDP", source: str = "") -> bytes:
        """Return a frame for a host, of a priority of the switch, ECN-capable as the plan has it."""
        version, protocol = KINDS[kind]
        tos = self.bench.given.dscp(priority) << 2 | 2
        head = 14 + (20 if version == 4 else 40)
        upper = transport(protocol, length - head)
        return ethernet(self.net, host, version, ip(version, protocol, tos, upper, source))

    def fill(self, host: str, priority: int) -> int:
        """Send until a frame has no room; return how many had."""
        before, sent = self._refused(), 0
        most = self.fabric.buffers[self.fabric.port(self.port(host)).node.name].total
        while self._refused() == before:
            if sent > most:
                raise CaseError(f"the switch took {sent} frames for a blocked queue, and refused none")
            self.send(self.frame(host, priority), 20)
            sent += 20
        return sent

    def _refused(self) -> int:
        return int(self.fabric.dropped()) + int(self.fabric.trimmed().frames)

    def send(self, frame: bytes, count: int = FRAMES) -> None:
        """Send a frame so many times, a little slower than the line, and wait for what arrives."""
        each_s = self.bench.lab_ns(self.bench.frame_time(f"{len(frame)}B")) * 1.2 / 1e9
        for _ in range(count):
            self._raw.send(frame)
            time.sleep(each_s)
        time.sleep(40 * each_s + self.bench.lab_ns(self.bench.round_trip(self.net)) / 1e9)

    def arrived(self, host: str) -> list[Arrived]:
        """Return the test frames that have arrived at a host since the last call."""
        return [Arrived.of(frame) for frame in self.octets(host)]

    def octets(self, host: str) -> list[bytes]:
        own = bytes.fromhex(self.net["h1"].MAC().replace(":", ""))
        return [frame for frame in self._taps[host].frames() if frame[6:12] == own]

    def forget(self) -> None:
        for tap in self._taps.values():
            list(tap.frames())

    def congest(self, host: str, priority: int) -> None:
        """Block the queue of a priority to a host, fill it, and forget what came until then."""
        self.block(host, self.queue(priority))
        self.fill(host, priority)
        self.forget()

    def relieve(self, host: str, priority: int) -> None:
        """Let a queue go on, and wait until it is empty."""
        self.block(host, self.queue(priority), False)
        name = self.port(host)
        while self.fabric.sent(name).queued_bytes[self.queue(priority)]:
            self.net.sleep(self.bench.paced("20us"))
        self.forget()

    def queue(self, priority: int) -> int:
        queues = self.bench.given.ports[self.bench.ports[0]].settings.priorities.dot1p_to_local
        return int(queues[priority])

    def works(self, host: str, priority: int, dscp: int = DSCP, size: int = SIZE, count: int = 10) -> bool:
        """Congest a queue and send to it: do all frames arrive trimmed?"""
        self.congest(host, priority)
        self.send(self.frame(host, priority), count)
        came = self.arrived(host)
        self.relieve(host, priority)
        return [(one.octets, one.dscp) for one in came] == [(size, dscp)] * count

    # Commands

    @staticmethod
    def configure(words: str) -> str:
        """Do a command of config; return the text of its error, if it has one."""
        try:
            configure(words.split())
        except Exception as error:
            return str(error)
        return ""

    def patch(self, *operations: dict[str, Any]) -> str:
        """Do config apply-patch."""
        file = self.bench.run.directory / "patch.json"
        file.write_text(json.dumps(list(operations)))
        return self.configure(f"apply-patch {file}")

    def reload(self, text: str) -> str:
        """Do config reload."""
        file = self.bench.run.directory / "config_db.json"
        file.write_text(text)
        return self.configure(f"reload {file}")

    def shown(self) -> dict[str, str]:
        """Return show switch-trimming global --json."""
        text = show(["switch-trimming", "global", "--json"])
        found: dict[str, str] = json.loads(text) if text.startswith("{") else {}
        return found

    def queue_counters(self, host: str, priority: int) -> dict[str, str]:
        """Return a row of show queue counters --all --json."""
        found = json.loads(show(["queue", "counters", self.bench.port_of(host), "--all", "--json"]))
        row: dict[str, str] = found[self.bench.port_of(host)][f"UC{self.queue(priority)}"]
        return row

    def port_counters(self, host: str) -> list[int]:
        """Return trimmed, sent and dropped of show interfaces counters trim."""
        found = json.loads(show(["interfaces", "counters", "trim", self.bench.port_of(host), "--json"]))
        row = found[self.bench.port_of(host)]
        return [int(row[name]) for name in ("TRIM_PKTS", "TRIM_TX_PKTS", "TRIM_DRP_PKTS")]

    @staticmethod
    def switch_counters() -> list[int]:
        """Return sent and dropped of show switch counters."""
        found = json.loads(show(["switch", "counters", "all", "--json"]))
        return [int(found[name].replace(",", "")) for name in ("trim_sent", "trim_drop")]


@contextmanager
def trimmed(bench: Bench, tables: Tables | None = None, hosts: int = 3) -> Iterator[Trimmed]:
    """Start the switch, or one of other tables, with a sender and receivers whose ports have queues to be blocked."""
    topo = SonicTopo(bench.switch if tables is None else bench.switch_of(tables), hosts=hosts, mtu=_MTU)
    with bench.network(topo=topo, autoStaticArp=True) as net, ExitStack() as stack, bench.run.measuring():
        yield Trimmed(bench, net, stack)


def block(net: Network, port: str, queue: int, stop: bool = True) -> None:
    """Block a queue of a switch's or router's port, or let it go on."""
    state = net.fabric.port(port)
    assert state.queues is not None
    requests = net.fabric.core.sockets.another(state.node)
    os.write(requests.fileno(), state.queues.pausing(queue, stop))
    requests.close()


def ethernet(net: Network, host: str, version: int, packet: bytes) -> bytes:
    ends = bytes.fromhex((net[host].MAC() + net["h1"].MAC()).replace(":", ""))
    return ends + (b"\x08\x00" if version == 4 else b"\x86\xdd") + packet


def ip(version: int, protocol: int, tos: int, upper: bytes, source: str = "", *, target: str = "") -> bytes:
    """Return an IP packet with a right header checksum."""
    if version == 6:
        ends = ip_address(source or "8000::9").packed + ip_address(target or "8000::1").packed
        return struct.pack("!IHBB", 6 << 28 | tos << 20, len(upper), protocol, TTL) + ends + upper
    ends = ip_address(source or "1.1.1.9").packed + ip_address(target or "2.2.2.2").packed
    head = struct.pack("!BBHHHBBH", 0x45, tos, 20 + len(upper), 0, 0, TTL, protocol, 0) + ends
    return head[:10] + (0xFFFF - checksum_sum(head)).to_bytes(2) + head[12:] + upper


def transport(protocol: int, length: int) -> bytes:
    """Return a UDP or TCP header and a payload, of this length in all."""
    head = struct.pack("!4H", 4321, 1234, length, 0)
    if protocol == TCP:
        head = struct.pack("!HHIIBBHHH", 4321, 1234, 1, 1, 0x50, 0x10, 8192, 0x1234, 0)
    return head + bytes(length - len(head))
