"""Damaged input for the controller's three doors: sessions of routers, REST, and switches.

Each input is made of a valid one: octets are flipped, cut, doubled and borrowed from others; values inside JSON are
replaced by others that stand at the borders of what is allowed; and now and then one is swollen up to a door's limits.
A door has to take, refuse or count whatever comes: an exception of another family than Xoff's own is a defect.

`tests/unit/controllers/test_fuzz.py` is a short run, `bench/controller.py` a long one that also takes times.
"""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv6Network
from typing import Any

from controllers.leaf import NEIGHBOURS, Leaves
from controllers.orders import Send
from controllers.services import services
from testbed.errors import XoffError
from testbed.frames import Mac
from testbed.rest.http import BadRequest, HttpConnection, NotAdmitted, Request
from testbed.rest.problems import problem
from testbed.rest.server import RestServer
from testbed.rest.service import register
from testbed.subjects.srv6.controller.manager import Manager
from testbed.subjects.srv6.controller.southbound import Southbound
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.rest import views
from testbed.subjects.srv6.rest.answers import TopologyView
from testbed.subjects.srv6.session.messages import (
    Ack,
    Counters,
    FromAgent,
    Nack,
    OwnTunnel,
    Pause,
    Report,
    as_json,
    router_key,
)
from testbed.subjects.srv6.session.router_side import Router
from testbed.subjects.srv6.session.session import SessionError
from testbed.typed_json.codec import CODEC
from tests.fake_routers import FIGURE_3, POLICY, VPN, FakeRouter, report, sid

KEY, TOKEN = b"a key for damaged input only", "a-token-for-damaged-input-only"
NAMES = ("R1", "R2", "R3")
LOCATORS = {name: (IPv6Network(f"fd00:a:{name[1:]}::/48"),) for name in NAMES}
MS = 10**6
MOST_INTENTS = 40
"""The most intents. With more the doors are emptied, so that intents do not fill the memory."""
_LONGEST_SWOLLEN = 60_000

_BORDERS: list[Any] = [
    None, True, False, 0, 1, 2, 7, 8, 255, 256, 4095, 4096, 65535, 65536, 1 << 31, 1 << 32, (1 << 53) - 1, 1 << 53,
    (1 << 64) - 1, 1 << 64, 10**59, 10**61, -1, 0.5, 1e300, "", "x", "R1", "R2", "R3", "A0", "R1:100:R3", "red",
    "\x1b[31m", "\x00", "\u202e", "\ud800", "x" * 63, "x" * 64, "x" * 1000, "fd00:a:1:1::", "fd00:a:3:f02::", "::",
    "fd00::1%eth0", "::ffff:1.2.3.4", "10.0.0.0/8", "10.0.0.1/8", "fd00::/129", "1.2.3.4", "to2", "dynamic", "explicit",
    "policy", "tunnel", "vpn", "report", "keepalive", "bye", "refused", "End.X.PFC", "End.DT46", [], {}, [[]], [{}],
    {"type": "dynamic"}, {"type": "explicit", "segments": ["fd00:a:2:1::"]}, {"keys": 1}, [None] * 300,
]  # fmt: skip


class Mutator:
    """Inputs made from others; the same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def value(self, original: Any) -> Any:
        """Return JSON with some of its values replaced, removed, doubled or added."""
        found = copy.deepcopy(original)
        for _ in range(self.dice.choice((1, 1, 1, 2, 3))):
            found = self._change(found)
        return found

    def _change(self, value: Any) -> Any:
        border = copy.deepcopy(self.dice.choice(_BORDERS))
        if not isinstance(value, dict | list) or not value or self.dice.random() < 0.08:
            return border
        places = list(value) if isinstance(value, dict) else range(len(value))
        place = self.dice.choice(places)
        chance = self.dice.random()
        if chance < 0.6:
            value[place] = self._change(value[place])
        elif chance < 0.7:
            del value[place]
        elif isinstance(value, list):
            value.insert(place, copy.deepcopy(value[self.dice.choice(places)]))
        elif chance < 0.85:
            value[place] = copy.deepcopy(value[self.dice.choice(places)])
        else:
            value[self.dice.choice(("type", "name", "more", "\x1b[31m", "x" * 70))] = border
        return value

    def octets(self, original: bytes) -> bytes:
        found = bytearray(original)
        for _ in range(self.dice.choice((1, 1, 2, 4))):
            place, size = self.dice.randrange(len(found) + 1), self.dice.choice((1, 1, 2, 8, 40))
            match self.dice.randrange(6):
                case 0 if place < len(found):
                    found[place] ^= 1 << self.dice.randrange(8)
                case 1 if place < len(found):
                    found[place] = self.dice.choice(b'\x00\xff"\\[]{}: \r\n0,%\x80')
                case 2:
                    del found[place : place + size]
                case 3:
                    found[place:place] = self.dice.randbytes(size)
                case 4:
                    found[place:place] = found[place : place + size]
                case _ if self.dice.random() < 0.2:
                    del found[place:]
        return bytes(found)

    def swollen(self, original: bytes, longest: int) -> bytes:
        """Return some piece of the input, or octets that are hard for parsers, repeated up to a limit."""
        pieces = (
            b" ",
            b"\t",
            b"[",
            b'{"a":',
            b"{},",
            b'"a":1,',
            b"a:\r\n",
            b"\r\n ",
            b"\\u0061",
            b"9",
            b"%41",
            b"&a=1",
        )
        start = self.dice.randrange(len(original) + 1)
        piece = self.dice.choice((*pieces, original[start : start + 20] or b"x"))
        place = self.dice.randrange(len(original) + 1)
        room = max(longest - len(original), 0)
        return original[:place] + piece * (room // len(piece)) + original[place:]

    def pieces(self, octets: bytes) -> list[bytes]:
        """Return the input in pieces, as a connection may cut it."""
        if self.dice.random() < 0.6 or len(octets) < 2:
            return [octets]
        cut = self.dice.randrange(1, len(octets))
        return [octets[:cut], octets[cut:]]


class SessionDoor:
    """The door of routers. Strangers send octets; a router with its key sends messages."""

    def __init__(self, seed: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self.mutator = Mutator(seed)
        self.now_ns = 0
        self._nonce = 0
        self.manager = Manager()
        self.manager.locators = dict(LOCATORS)
        keys = {name: router_key(KEY, name) for name in NAMES}
        self.south = Southbound(self.manager, "controller", keys.get, self._fresh)
        self._routers = {name: FakeRouter(report(name, FIGURE_3, ("R1", "R3")), keys[name]) for name in NAMES}
        self._numbers: dict[str, int] = {}
        self._messages = [as_json(message) for message in _messages()]
        stranger = Router("R1", keys["R1"])
        stranger.connect(bytes(32), 0)
        self._hello = stranger.data_to_send()
        for name in NAMES:
            self._connect(name)

    def input(self) -> Callable[[], None]:
        """Make the next input, and return a function that gives it to the door."""
        self.now_ns += MS
        chance = self.mutator.dice.random()
        if chance < 0.3:
            octets = self.mutator.octets(self._hello + self._hello if chance < 0.05 else self._hello)
            octets = self.mutator.swollen(octets, 1100) if chance > 0.28 else octets
            pieces = self.mutator.pieces(octets)
            return lambda: self._stranger(pieces)
        name = self.mutator.dice.choice(NAMES)
        message = self.mutator.dice.choice([one for one in self._messages if one.get("node", name) == name])
        message = self.mutator.value(message) if chance > 0.5 else message
        text = json.dumps(message).encode()
        if chance > 0.9:
            text = self.mutator.octets(text)
        if chance > 0.995:
            text = self.mutator.swollen(text, _LONGEST_SWOLLEN)
        frame = self._secured(name, text)
        return lambda: self._message(name, frame)

    def again(self) -> None:
        """Connect every router again, and keep the intents few."""
        for name in NAMES:
            session = self._routers[name].router.session
            if name not in self.south.routers or session is None or not session.is_open:
                self._connect(name)
        if len(self.manager.policies) + len(self.manager.vpns) > MOST_INTENTS:
            for key in list(self.manager.policies):
                self.manager.intents.remove_policy(key, self.now_ns)
            for vpn in list(self.manager.vpns):
                self.manager.intents.remove_vpn(vpn, self.now_ns)

    def answer(self) -> None:
        """Carry the output of the routers, and then that of the controller."""
        for name, number in self._numbers.items():
            self.south.receive(number, self._routers[name].router.data_to_send(), self.now_ns)
        self.south.step(self.now_ns)
        self._carry()

    def _fresh(self) -> bytes:
        self._nonce += 1
        return self._nonce.to_bytes(32)

    def _stranger(self, pieces: list[bytes]) -> None:
        number = self.south.connect(self.now_ns)
        if number is None:
            self.outcomes["no room"] += 1
            return
        for piece in pieces:
            self.south.receive(number, piece, self.now_ns)
            self.south.step(self.now_ns)
        self.south.output()
        self.south.disconnected(number, self.now_ns)
        self.outcomes["strangers"] += 1

    def _secured(self, name: str, text: bytes) -> bytes:
        session = self._routers[name].router.session
        assert session is not None
        session.data_to_send()
        session._secure(text, self.now_ns)
        return session.data_to_send()

    def _message(self, name: str, frame: bytes) -> None:
        number = self._numbers[name]
        self.south.receive(number, frame, self.now_ns)
        self.south.step(self.now_ns)
        self.outcomes["taken" if name in self.south.routers else "refused"] += 1
        self._carry()

    def _connect(self, name: str) -> None:
        number = self.south.connect(self.now_ns)
        assert number is not None
        self._numbers[name] = number
        fake = self._routers[name]
        fake.router.installed.clear()
        fake.router.connect(self._fresh(), self.now_ns)
        for _ in range(3):
            self.south.receive(number, fake.router.data_to_send(), self.now_ns)
            self.south.step(self.now_ns)
            self._carry()
        fake.log.clear()

    def _carry(self) -> None:
        by_number = {number: name for name, number in self._numbers.items()}
        for number, octets, _ in self.south.output():
            if (name := by_number.get(number)) is not None:
                fake = self._routers[name]
                fake.obey(fake.router.receive(octets, self.now_ns), self.now_ns)
                fake.log.clear()


class RestDoor:
    """The door of operators, with and without the token."""

    def __init__(self, seed: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self.mutator = Mutator(seed)
        self.now_ns = 0
        self._behind = SessionDoor(seed)
        self.manager, self.south = self._behind.manager, self._behind.south
        self.north = RestServer(services(self.manager, self.south), TOKEN, self.manager.history)
        tunnels = {"headend": "R3", "colour": 100, "endpoint": "R1", "vpn": "red", "binding_sid": "fd00:a:3:b::"}
        explicit = {
            "type": "explicit",
            "segments": ["fd00:a:1:f02::", "fd00:a:2:1::"],
            "preference": 7,
            "name": "by hand",
        }
        dynamic = {"type": "dynamic", "pfc_ends": True, "include_any": ["sea"], "max_delay_ns": 10**9}
        self._bodies: list[Any] = [
            VPN,
            VPN | {"slice": 7},
            POLICY,
            tunnels,
            POLICY | {"candidates": [explicit, dynamic]},
        ]
        self._paths = [path for path, methods in register(self.north.services).items() for _ in methods]

    def input(self) -> Callable[[], None]:
        self.now_ns += MS
        dice = self.mutator.dice
        method = dice.choice(("GET", "GET", "POST", "PUT", "DELETE"))
        path = dice.choice(self._paths).replace("{id}", dice.choice(("R1:100:R3", "R3:100:R1", "x")))
        path = path.replace("{name}", dice.choice(("red", "R2", "x")))
        path += dice.choice(("", "", "", "?router=R1", "?after=3&follow=false", "?follow=true"))
        content = dice.choice(self._bodies)
        body = b"" if method in ("GET", "DELETE") else json.dumps(self._body(content)).encode()
        chance = dice.random()
        body = self.mutator.octets(body) if body and chance < 0.1 else body
        body = self.mutator.swollen(body, 1 << 18) if body and chance > 0.99 else body
        token = TOKEN if dice.random() < 0.9 else "another"
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {dice.choice(('localhost', '127.0.0.1', '[::1]:8181', 'x'))}\r\n"
            f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode()
        head = self.mutator.octets(head) if dice.random() < 0.3 else head
        head = self.mutator.swollen(head, 8192) if dice.random() < 0.01 else head
        pieces = self.mutator.pieces(head + body)
        return lambda: self._connection(pieces)

    def again(self) -> None:
        self._behind.now_ns = self.now_ns
        self._behind.again()

    def settle(self) -> None:
        """Let the routers carry out their commands, and answer."""
        for _ in range(3):
            self._behind.answer()

    def _body(self, content: Any) -> Any:
        return self.mutator.value(content) if self.mutator.dice.random() < 0.8 else content

    def _connection(self, pieces: list[bytes]) -> None:
        connection = HttpConnection(self.now_ns, self.north.admit)
        try:
            for piece in pieces:
                request = connection.receive(piece)
                while request is not None:
                    self._answer(connection, request)
                    request = connection.receive(b"")
        except NotAdmitted as error:
            connection.refuse(error.response, self.now_ns)
            self.outcomes[f"{error.response.status}"] += 1
        except BadRequest as error:
            connection.refuse(problem(error.status, error.text), self.now_ns)
            self.outcomes[f"{error.status.value} no request"] += 1
        assert connection.is_over or not connection.may_go_on
        connection.data_to_send()

    def _answer(self, connection: HttpConnection, request: Request) -> None:
        response = self.north.handle(request, self.now_ns)
        self.south.step(self.now_ns)
        self._behind._carry()
        self.outcomes[f"{response.status}"] += 1
        if response.events_after is not None:
            self.north.events(response.events_after)
        connection.respond(replace(response, events_after=None), self.now_ns)


class SwitchDoor:
    """The door of switches, behind the library's parser: ports and frames."""

    def __init__(self, seed: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self.mutator = Mutator(seed)
        self.now_ns = 0
        self.manager = Manager()
        self.leaves = Leaves()
        self._ports = {number: (f"s-eth{number}", True, f"02:00:00:00:00:{number:02x}") for number in range(1, 5)}
        hellos = [self.leaves.connected(number, self._ports, 0, f"s{number}") for number in (1, 2, 3)]
        self._frames = [order.frame for orders in hellos for _, order in orders if isinstance(order, Send)]
        self._frames += [
            Mac(bytes([2, 0, 0, 0, 1, n])).octets + bytes([2, 0, 0, 0, 1, n + 1]) + bytes(60) for n in (1, 2)
        ]
        self._frames.append(NEIGHBOURS.octets + bytes(6) + bytes.fromhex("88cc") + bytes(20))

    def input(self) -> Callable[[], None]:
        self.now_ns += MS
        dice = self.mutator.dice
        number, port = dice.choice((1, 2, 3, 4, 1 << 63)), dice.choice((0, 1, 2, 3, 4, 0xFFFFFF00, 0xFFFFFFFE))
        if dice.random() < 0.05:
            name = dice.choice(("", "x" * 16, "\x1b[31m", "\ufffd\ufffd", "s1"))
            state = dice.choice((None, (name, True, "02:00:00:00:00:09"), (name, False, "ff:ff:ff:ff:ff:ff")))
            return lambda: self._port(number, port, state)
        frame = dice.choice(self._frames)
        frame = self.mutator.octets(frame) if dice.random() < 0.9 else self.mutator.swollen(frame, 9000)
        return lambda: self._frame(number, port, frame)

    def again(self) -> None:
        for number in (1, 2, 3):
            if self.mutator.dice.random() < 0.002:
                self.leaves.disconnected(number, self.now_ns)
                self.leaves.connected(number, self._ports, self.now_ns, f"s{number}")
        self.leaves.poll(self.now_ns)

    def _port(self, number: int, port: int, state: tuple[str, bool, str] | None) -> None:
        self.outcomes["ports"] += 1
        self.leaves.port(number, port, state, self.now_ns)
        self._facts(number)
        # The names that a switch gives are in REST's answers.
        CODEC.decode(TopologyView, CODEC.encode(views.topology(self.manager)))

    def _frame(self, number: int, port: int, frame: bytes) -> None:
        before = sum(self.leaves.counters.values())
        orders = self.leaves.frame(number, port, frame)
        assert orders or sum(self.leaves.counters.values()) > before, "neither forwarded nor counted"
        self.outcomes["frames with orders" if orders else "frames without"] += 1
        if "learned" in self.leaves.counters and self.mutator.dice.random() < 0.01:
            self._facts(number)

    def _facts(self, number: int) -> None:
        self.manager.put_leaf(number, self.leaves.facts(number), self.now_ns)


Door = SessionDoor | RestDoor | SwitchDoor
DOORS: dict[str, Callable[[int], Door]] = {"sessions": SessionDoor, "rest": RestDoor, "switches": SwitchDoor}


def run(door: Door, count: int, measure: Callable[[Callable[[], None]], None] = lambda act: act()) -> None:
    """Run inputs through a door. Raise every error of the door that is not of Xoff's family."""
    for _ in range(count):
        act = door.input()
        try:
            measure(act)
        except (XoffError, SessionError) as error:
            door.outcomes[type(error).__name__] += 1
        door.again()


def _messages() -> list[FromAgent]:
    back = ReverseTunnel("R3", "R1", (sid("R3", "1").address, sid("R1", "f02").address), 7, "to2", 5 * MS)
    known = report("R1", FIGURE_3, ("R1", "R3"), frozenset({7}))
    return [
        known,
        report("R3", FIGURE_3, ("R1", "R3")),
        Report("R2"),
        Counters((("frames", 7),)),
        Pause(sid("R1", "f02").address, "to2", 3, None, True),
        Pause(sid("R1", "f02").address, "to2", 3, 7, False),
        OwnTunnel(back, True, "learned"),
        Ack(1),
        Nack(2, "the kernel: no"),
    ]
