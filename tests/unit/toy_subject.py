"""A subject for tests: switches with the option `greets` say hello. It uses every way into the core."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.agent.plan import AgentPlan, PartPlan
from testbed.agent.speaker.part import Part, Services
from testbed.cli.commands import Command
from testbed.errors import XoffError
from testbed.lab.results.folder import Event, Folder
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import PortState, PortTable
from testbed.net.shell.views import View, table
from testbed.report.exports.frame_text import Decoder, Layer
from testbed.report.pages.panels import Panel
from testbed.report.timeline.states import Row
from testbed.report.timeline.tracks import Tracks
from testbed.subject import Subject

_HERE = "tests.unit.toy_subject"
SUBJECT = Subject(
    name="toy",
    commands=f"{_HERE}:COMMANDS",
    node_options=f"{_HERE}:NODE_OPTIONS",
    agent=f"{_HERE}:part_plan",
    views=f"{_HERE}:VIEWS",
    history=f"{_HERE}:history",
    panels=f"{_HERE}:panels",
    section=f"{_HERE}:section",
    decoders=f"{_HERE}:DECODERS",
)
TAKEN = Subject(name="dcbx")
INTERVAL_NS = 1000

# A frame type

_ETHERTYPE = 0x88B5


def frame(name: str) -> bytes:
    return bytes(12) + _ETHERTYPE.to_bytes(2, "big") + name.encode()


def decode(octets: bytes) -> Iterator[Layer]:
    name = octets[14:].decode()
    if not name:
        raise XoffError("a greeting has a name")
    yield Layer("greeting", f"greeting from {name}", {"name": name})


DECODERS = (Decoder(_ETHERTYPE, ("greeting",), decode),)

# A command


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default="all")


def greet(given: argparse.Namespace) -> int:
    """Say hello."""
    print(f"hello {given.name}")
    return 0


COMMANDS = {"toys": {"greet": Command("say hello", _HERE, "greet", "options")}}

# An option of switches, and the part in speakers that it asks for

NODE_OPTIONS = {"switch": ("greets",)}


class Lines:
    """What the part has logged."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, dict[str, Any]]] = []

    def line(self, slot: int, line: dict[str, Any]) -> None:
        self.lines.append((slot, line))


class Greeter(Part):
    """Says hello at one port, again and again."""

    def __init__(self, slot: int, services: Services, said: int) -> None:
        self._slot, self._services, self._said = slot, services, said
        self._next_ns = 0

    @property
    def deadline_ns(self) -> int:
        return self._next_ns

    @property
    def notes(self) -> int:
        return self._said

    def start(self, up: Any, now_ns: int) -> None:
        self._next_ns = now_ns + INTERVAL_NS

    def expire(self, now_ns: int) -> None:
        self._said += 1
        self._next_ns = now_ns + INTERVAL_NS
        self._services.log.line(self._slot, {"t_ns": now_ns, "what": "greeting"})

    def answer(self, verb: str, argument: Any, now_ns: int) -> dict[str, Any]:
        return self.snapshot() if verb == "count" else super().answer(verb, argument, now_ns)

    def snapshot(self) -> dict[str, Any]:
        return {"greetings": self._said}


@dataclass(frozen=True)
class GreeterPlan(PartPlan):
    """The plan of a node that greets."""

    slot: int
    name = "toy"
    handover_ports = 1

    def part(self, node: AgentPlan, services: Services, before: Any, succeeds: bool) -> Greeter:
        return Greeter(self.slot, services, before or 0)


def part_plan(_: PortTable, ports: Sequence[PortState]) -> GreeterPlan | None:
    slot = ports[0].node.params.get("greets")
    return None if slot is None else GreeterPlan(slot)


# A view of a network, and what a report shows


def reading(_: Fabric, wanted: str = "") -> dict[str, int]:
    return {wanted: 1}


def shown(fabric: Fabric, wanted: str = "") -> str:
    """Show greetings."""
    return table(("port", "greetings"), reading(fabric, wanted).items())


VIEWS = {"greetings": View(reading, shown)}


def history(_: Folder, facts: Iterable[Event]) -> Iterator[Row]:
    yield 0, "s1", "greets"


def panels(_: Folder, found: Tracks) -> list[Panel]:
    return [Panel("", "Greetings over time", "of the whole run", "lanes", lanes=[("s1", [0])])]


def section(_: Folder) -> list[str]:
    return ["<p>All greetings</p>"]
