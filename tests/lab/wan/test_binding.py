"""Binding SIDs in the kernels of real routers."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import threading
import time
from contextlib import suppress
from ipaddress import IPv6Address
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from jobs.looking import agent_pid, frames_in, wait_for

from testbed.frames import ipv6
from testbed.frames.ipv6 import Packet
from testbed.frames.srh import Srh
from testbed.lab import Run, experiment
from testbed.linux.process import kernel
from testbed.subjects.srv6.controller.manager import Manager
from testbed.subjects.srv6.controller.southbound import Southbound
from testbed.subjects.srv6.lab import routers as srv6
from testbed.subjects.srv6.lab.controller import ControllerAccess
from testbed.subjects.srv6.session.intents import Key, PolicyIntent, VpnIntent
from testbed.subjects.srv6.session.messages import NONCE_OCTETS, PolicyItem
from testbed.typed_json.codec import CODEC
from xoff import wan_state

if TYPE_CHECKING:
    pass


BINDING = {"r1": IPv6Address("fd00:5:1:b::"), "r5": IPv6Address("fd00:5:5:b::")}
KEY = b"a key for this job, and nothing else"
CUT = "r2-eth1"
"""The port of r2 to r5. The way round is by r3 and r4."""
SHORT, ROUND = ["r1", "r2", "r5"], ["r1", "r2", "r3", "r4", "r5"]
_PORT, _EACH = 5555, 5
_IPV4_IN, _ETHERNET, _IPV6_HEADER = 4, 14, 40


class Sender:
    """A router of the domain that sends IPv4 datagrams through another one's binding SID into a VPN."""

    def __init__(self, node: Any) -> None:
        self._source = srv6.source_address(srv6.router_number(node.name))
        with kernel.in_network_of(node.pid):
            self._raw = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
            self._errors = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        self._errors.setblocking(False)

    def send(self, segments: tuple[IPv6Address, ...], target: str, text: str) -> None:
        header = Srh.along(segments, _IPV4_IN).encode()
        for _ in range(_EACH):
            packet = Packet(self._source, segments[0], ipv6.ROUTING, header + _datagram(target, text.encode()))
            self._raw.sendto(packet.encode(), (str(segments[0]), 0))
            time.sleep(0.005)

    def unreachables(self) -> int:
        """Return the number of ICMPv6 errors of type 1 since the last call."""
        found = 0
        while True:
            try:
                found += self._errors.recv(2048)[0] == 1
            except BlockingIOError:
                return found


def _datagram(target: str, payload: bytes) -> bytes:
    udp = struct.pack("!HHHH", _PORT, _PORT, 8 + len(payload), 0) + payload
    source, destination = socket.inet_aton("10.99.0.1"), socket.inet_aton(target)
    fields = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, source, destination)
    total = sum(struct.unpack("!10H", fields))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~(total + (total >> 16)) & 0xFFFF
    return fields[:10] + struct.pack("!H", checksum) + fields[12:] + udp


class Receiver:
    """A host, and the packets that it received."""

    def __init__(self, node: Any) -> None:
        with kernel.in_network_of(node.pid):
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("0.0.0.0", _PORT))
        self._socket.setblocking(False)
        self.address: str = node.IP()
        self._texts: list[str] = []

    def count(self, text: str) -> int:
        while True:
            try:
                self._texts.append(self._socket.recv(2048).decode())
            except BlockingIOError:
                return self._texts.count(text)


def _outer_and_inner(octets: bytes) -> tuple[Srh, Srh]:
    """Return the headers of a captured frame, and those of the packet in it."""
    outer = Srh.parse(octets, _ETHERNET + _IPV6_HEADER)
    inside = _ETHERNET + _IPV6_HEADER + 8 + 16 * len(outer.segments)
    return outer, Srh.parse(octets, inside + _IPV6_HEADER)


@experiment(_in_lab_time=True, timeout="240s", files=("jobs/looking.py",))
def test_packets_by_a_binding_sid_go_the_policys_way_both_ways_round_and_whatever_dies(
    run: Run, library: str = "os-ken"
) -> None:
    """r2 sends to b1 by r1's binding SID, and r4 to a1 by that of r5, while the policies change, a cable is pulled, the
    policy has no path, the agent and the controller die, and the policy is removed.
    """
    from testbed.net.build.network import network
    from testbed.net.shell.wire import capture
    from testbed.net.traffic import ping
    from testbed.subjects.srv6.lab.controller import SrController
    from topologies.srv6_wan import Srv6Wan

    with SrController(library) as controller:
        topo = Srv6Wan(n=1, figure=2, wan="1km", controller=controller)
        with network(topo, run) as net:
            fabric = net.fabric
            vpns, policies = topo.intents()
            vpns[0]["behaviour"] = "End.DT46"
            for policy in policies:
                policy["binding_sid"] = str(BINDING[policy["headend"]])
            controller.request(vpns, policies)
            controller.wait(controller.settled, "every policy and tunnel is installed")
            services = {site["router"]: IPv6Address(site["sid"]) for site in _ask(controller, "/vpns/red")["sites"]}
            for source, target in (("a1", "b1"), ("b1", "a1")):
                ping(net[source], net[target])
            senders = {name: Sender(net[name]) for name in ("r2", "r4")}
            hosts = {name: Receiver(net[name]) for name in ("a1", "b1")}
            expected: dict[str, tuple[str, list[str]]] = {}

            def forth(text: str, port: str) -> None:
                """Send by r1's binding SID to b1. The packet has to come to r5 by this port, with the policy's list."""
                active = _ask(controller, "/policies/r1:100:r5")["active"]
                expected[text] = port, active["segments"]
                senders["r2"].send((BINDING["r1"], services["r5"]), hosts["b1"].address, f"forth, {text}")
                wait_for(lambda: hosts["b1"].count(f"forth, {text}") >= _EACH, 1)
                run.claim(f"{text}: arrived at b1", hosts["b1"].count(f"forth, {text}"), equals=_EACH)

            def back(text: str) -> None:
                """Send by r5's binding SID to a1."""
                senders["r4"].send((BINDING["r5"], services["r1"]), hosts["a1"].address, f"back, {text}")
                wait_for(lambda: hosts["a1"].count(f"back, {text}") >= _EACH, 1)
                run.claim(f"back, {text}: arrived at a1", hosts["a1"].count(f"back, {text}"), equals=_EACH)

            def intent(**more: Any) -> None:
                controller.ask("PUT", "/policies/r1:100:r5", policies[0] | more)

            def follow(path: list[str]) -> None:
                controller.wait(lambda: _path(controller) == path, f"the path is {path}")
                controller.wait(controller.settled, "it is installed")

            with (
                capture(net["r5"], "r5-eth1", Path("short.pcap"), "ip6"),
                capture(net["r5"], "r5-eth2", Path("round.pcap"), "ip6"),
            ):
                run.claim("routers that say where their binding SID leads", _bound(fabric), equals=_listed(controller))
                forth("the short way", "short.pcap")
                back("the short way")

                by_hand = [
                    srv6.end_x_pfc_sid("r1", *topo.graph.leg("r1", "r2")),
                    srv6.end_sid("r3"),
                    srv6.end_sid("r4"),
                ]
                explicit = {"type": "explicit", "name": "round", "preference": 200}
                explicit["segments"] = [str(sid.address) for sid in by_hand]
                intent(candidates=[{"type": "dynamic", "pfc_ends": True}, explicit])
                follow(ROUND)
                forth("another candidate", "round.pcap")
                intent()
                follow(SHORT)

                fabric.cabling.pull(CUT)
                follow(ROUND)
                forth("a cable is pulled", "round.pcap")
                back("a cable is pulled")
                run.claim("a ping over the way round", ping(net["b1"], net["a1"]) is not None, equals=True)
                intent(
                    candidates=[explicit | {"segments": [str(sid.address) for sid in (*by_hand, srv6.end_sid("r5"))]}]
                )
                follow(ROUND)
                forth("the End of r5 when its first cable is out", "round.pcap")
                intent()
                follow(ROUND)
                fabric.cabling.plug(CUT)
                follow(SHORT)
                forth("it is back", "short.pcap")
                back("it is back")

                changes = _changes(fabric)
                killed = agent_pid(fabric, "r1", True)
                os.kill(killed, signal.SIGKILL)
                run.claim(
                    "a successor", wait_for(lambda: agent_pid(fabric, "r1", True) not in (0, killed)), equals=True
                )
                controller.kill()
                senders["r2"].send((BINDING["r1"], services["r5"]), hosts["b1"].address, "no receiver")
                wait_for(lambda: hosts["b1"].count("no receiver") >= _EACH, 1)
                run.claim("with neither: arrived at b1", hosts["b1"].count("no receiver"), equals=_EACH)
                controller.start()
                controller.wait(lambda: _ask(controller, "/topology")["settled"], "it has learned all anew")
                controller.wait(controller.settled, "it has learned every policy and tunnel")
                run.claim("what routers had to change for the next two", _changes(fabric) - changes, equals=0)
                run.claim("what their binding SIDs are to them", _bound(fabric), equals=_listed(controller))
                forth("their successors", "short.pcap")

                senders["r2"].unreachables()
                intent(candidates=[{"type": "dynamic", "max_delay_ns": 0}])
                controller.wait(lambda: _status(controller) == "no path", "there is no path")
                wait_for(lambda: wan_state(fabric, "r1")["controller"]["binding_sids"] == {str(BINDING["r1"]): []})
                senders["r2"].send((BINDING["r1"], services["r5"]), hosts["b1"].address, "no path")
                time.sleep(0.5)
                run.claim("no path: arrived at b1", hosts["b1"].count("no path"), equals=0)
                run.claim("no path: ICMP errors to the sender", senders["r2"].unreachables(), at_least=1)
                run.claim("no path: the SID is advertised", str(BINDING["r1"]) in _sids(controller), equals=True)
                intent()
                follow(SHORT)
                forth("a path again", "short.pcap")

                controller.ask("DELETE", "/policies/r1:100:r5")
                run.claim("removed", wait_for(lambda: list(_bound(fabric)) == ["r5"]), equals=True)
                senders["r2"].send((BINDING["r1"], services["r5"]), hosts["b1"].address, "removed")
                time.sleep(0.5)
                run.claim("removed: arrived at b1", hosts["b1"].count("removed"), equals=0)
                run.claim("removed: the SID is advertised", str(BINDING["r1"]) in _sids(controller), equals=False)
            within = [str(BINDING["r1"]), str(services["r5"])]
            for text, (file, segments) in expected.items():
                seen = {
                    name: [
                        one.octets for one in frames_in(Path(name)) if one.octets.endswith(f"forth, {text}".encode())
                    ]
                    for name in ("short.pcap", "round.pcap")
                }
                came_by = {name: len(found) for name, found in seen.items() if found}
                run.claim(f"{text}: came by", came_by, equals={file: _EACH})
                lists = [[list(map(str, header.path)) for header in _outer_and_inner(octets)] for octets in seen[file]]
                run.claim(f"{text}: the lists outside and inside", lists, equals=[[segments, within]] * _EACH)


def _ask(controller: Any, path: str) -> Any:
    said = controller.ask("GET", path)
    return said["intent"] if path.startswith("/vpns/") else said


def _path(controller: Any) -> list[str]:
    active = _ask(controller, "/policies/r1:100:r5")["active"]
    return list(active["routers"]) if active else []


def _status(controller: Any) -> str:
    return str(_ask(controller, "/policies/r1:100:r5")["status"])


def _sids(controller: Any) -> dict[str, str]:
    """Return all advertised SIDs with their behaviours."""
    return {sid["nlri"]["sid"]: sid["endpoint_behavior"]["name"] for sid in _ask(controller, "/sids")["sids"]}


def _bound(fabric: Any) -> dict[str, list[str]]:
    """Return, by headend, the list behind its binding SID."""
    found = {name: wan_state(fabric, name)["controller"]["binding_sids"] for name in BINDING}
    return {name: own[str(BINDING[name])] for name, own in found.items() if own}


def _listed(controller: Any) -> dict[str, list[str]]:
    """Return the same lists as the controller has them."""
    policies = _ask(controller, "/policies")["policies"]
    return {policy["intent"]["headend"]: policy["active"]["segments"] for policy in policies}


def _changes(fabric: Any) -> int:
    return sum(event.kind in ("sr_installed", "sr_removed") for event in fabric.events())


class Controller:
    """A controller with a loop of its own and without REST: 500 intents by REST take minutes."""

    def __init__(self, session: ControllerAccess) -> None:
        self.manager, self._lock, self._ends = Manager(), threading.Lock(), threading.Event()
        self._south = Southbound(self.manager, "controller", lambda name: KEY, lambda: os.urandom(NONCE_OCTETS))
        self._lines: dict[int, socket.socket] = {}
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(session.path)
        self._door.listen()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Controller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        for line in (self._door, *self._lines.values()):
            line.close()

    def request(self, *intents: VpnIntent | PolicyIntent) -> None:
        """Request policies, as many at once as no session ends over."""
        for start in range(0, len(intents), 50):
            with self._lock:
                for intent in intents[start : start + 50]:
                    put: Any = (
                        self.manager.intents.put_vpn
                        if isinstance(intent, VpnIntent)
                        else self.manager.intents.put_policy
                    )
                    put(intent, time.monotonic_ns())
            time.sleep(0.05)

    def policies(self, router: str) -> int:
        """Return the number of policies that the router has reported."""
        with self._lock:
            items = list(self.manager.deployment.all_installed())
        return sum(isinstance(item, PolicyItem) and item.node == router for item in items)

    def _run(self) -> None:
        while not self._ends.is_set():
            ready = select.select([self._door, *self._lines.values()], [], [], 0.01)[0]
            with self._lock:
                self._serve(ready, time.monotonic_ns())

    def _serve(self, ready: list[socket.socket], now_ns: int) -> None:
        if self._door in ready:
            number = self._south.connect(now_ns)
            assert number is not None
            self._lines[number] = self._door.accept()[0]
        for number, line in list(self._lines.items()):
            if line not in ready:
                continue
            try:
                data = line.recv(1 << 18)
            except ConnectionError:
                data = b""
            if data:
                self._south.receive(number, data, now_ns)
                while self._south.has_more(number):
                    self._south.receive(number, b"", now_ns)
            else:
                self._lines.pop(number).close()
                self._south.disconnected(number, now_ns)
        self._south.advance(now_ns)
        for number, data, is_over in self._south.output():
            if number in self._lines:
                with suppress(ConnectionError):  # it is read as an end
                    self._lines[number].sendall(data)
                if is_over:
                    self._lines.pop(number).close()


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_500_policies_on_one_router_outlive_its_speaker(run: Run, count: int = 500) -> None:
    """r1 has 500 policies, each with a binding SID; its speaker is killed, and the successor has them all."""
    from testbed.net.build.network import network
    from testbed.net.traffic import ping
    from topologies.srv6_wan import Srv6Wan

    session = ControllerAccess(str(Path("agents").absolute()), lambda router, locators: KEY, openflow="")
    beside: Any = SimpleNamespace(session=session)
    topo = Srv6Wan(n=1, wan="1km", controller=beside, leaves="own")
    with Controller(session) as controller, network(topo, run) as net:
        fabric, manager = net.fabric, controller.manager
        wait_for(lambda: manager.is_settled)
        vpns, policies = topo.intents()
        controller.request(CODEC.decode(VpnIntent, vpns[0] | {"behaviour": "End.DT46"}))
        controller.request(*(CODEC.decode(PolicyIntent, policy) for policy in policies))
        wait_for(lambda: controller.policies("r1") and controller.policies("r3"))
        site = manager.vpns["red"].site("r3")
        assert site is not None and site.sid is not None
        site_sid = site.sid
        speaker, begun_ns = agent_pid(fabric, "r1", True), run.lab_ns
        bindings = [IPv6Address(f"fd00:5:1:{0x1000 + number:x}::") for number in range(count)]
        controller.request(
            *(
                PolicyIntent(Key("r1", 1000 + number, "r3"), service=site.sid, binding_sid=binding)
                for number, binding in enumerate(bindings)
            )
        )
        # An agent that is asked all the time does nothing else.
        run.claim("all are installed", wait_for(lambda: controller.policies("r1") == count + 1, 30), equals=True)
        run.claim("by the agent as well", len(wan_state(fabric, "r1")["controller"]["binding_sids"]), equals=count)
        run.figure("ns until all were there", run.lab_ns - begun_ns)
        advertised = wait_for(lambda: len(manager.reports["r1"].sids) > count)
        run.claim("they are advertised", advertised, equals=True)
        run.claim("sessions", wan_state(fabric, "r1")["controller"]["sessions"], equals=1)
        run.claim("the speaker is the same", agent_pid(fabric, "r1", True) == speaker, equals=True)
        ping(net["a1"], net["b1"])
        sender, host = Sender(net["r2"]), Receiver(net["b1"])

        def send(text: str) -> None:
            for number in (0, count // 2, count - 1):
                sender.send((bindings[number], site_sid), host.address, f"{text} {number}")
                wait_for(lambda: host.count(f"{text} {number}") >= _EACH, 1)  # noqa: B023
                run.claim(f"{text}: arrived by number {number}", host.count(f"{text} {number}"), equals=_EACH)

        send("before")
        changes = _changes(fabric)
        os.kill(speaker, signal.SIGKILL)
        another = wait_for(lambda: agent_pid(fabric, "r1", True) not in (0, speaker))
        run.claim("a successor", another, equals=True)
        wait_for(lambda: not manager.is_away("r1") and manager.deployment.is_here("r1"))
        run.claim("what it has", len(wan_state(fabric, "r1")["controller"]["binding_sids"]), equals=count)
        send("after")
        run.claim("what it had to change", _changes(fabric) - changes, equals=0)
