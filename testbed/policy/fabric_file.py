"""A fabric as a TOML file, for queries without a network: nodes, links and partitions. docs/qos.md has the keys.

An unknown key or a value of the wrong kind is one FabricError that names it.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeVar

from testbed import toml_text
from testbed.errors import UsageError
from testbed.policy.fabric import Fabric, FabricError, Partition, PortCapabilities, PortKey
from testbed.policy.model import NodeType
from testbed.units import Rate

T = TypeVar("T")
_KINDS = {"HCA": NodeType.CA, "CA": NodeType.CA, "SWITCH": NodeType.SWITCH, "ROUTER": NodeType.ROUTER}
_PKEY_VALUE, _MOST_PORTS = 0x7FFF, 254
_USUAL = PortCapabilities(1)


def parse(content: bytes, name: str) -> Fabric:
    """The fabric, with its forwarding tables."""
    file = toml_text.read(content, name, FabricError)
    try:
        return _fabric(_Section(file, ""))
    except UsageError as error:
        raise FabricError(f"{name}: {error}") from None


def _fabric(file: _Section) -> Fabric:
    fabric = Fabric()
    for node in file.sections("node"):
        _add_node(fabric, node)
    for link in file.sections("link"):
        ends = [_key(text, link) for text in link.take("ends", list, [])]
        if len(ends) != 2:
            raise FabricError(f'{link.name}: ends = {ends}; two ports are expected, such as ["h1/1", "sw1/3"]')
        fabric.connect(ends[0], ends[1])
        link.done()
    for section in file.sections("partition"):
        _add_partition(fabric, section)
    manager = file.take("manager", str, "")
    if manager and manager not in fabric.nodes:
        raise FabricError(f"manager = {manager!r}: there is no such node")
    fabric.manager = manager or None
    file.done()
    fabric.route()
    return fabric


def _add_node(fabric: Fabric, node: _Section) -> None:
    name = node.take("name", str)
    kind = node.take("type", str, "HCA").upper()
    if kind not in _KINDS:
        raise FabricError(f"{node.name}: type = {kind!r}; one of {', '.join(_KINDS)} is expected")
    count = node.number("ports", 1, 1, _MOST_PORTS)
    settings = {
        "rate": Rate(node.take("rate", str, str(Rate.from_bps(_USUAL.rate)))).bps,
        "mtu": node.number("mtu", _USUAL.mtu, 256, 1 << 16),
        "vls": node.number("vls", _USUAL.vls, 1, 15),
        "arb_high": node.number("arb-high", _USUAL.arb_high, 0, 64),
        "arb_low": node.number("arb-low", _USUAL.arb_low, 0, 64),
    }
    fabric.add(
        name,
        _KINDS[kind],
        node.number("guid", 0, 1, (1 << 64) - 256),
        [PortCapabilities(number, **settings) for number in range(1, count + 1)],
        description=node.take("description", str, ""),
        lmc=node.number("lmc", 0, 0, 7),
        lids=[node.number("lid", 0, 1, 0xBFFF)] if "lid" in node.content else (),
    )
    node.done()


def _add_partition(fabric: Fabric, section: _Section) -> None:
    full = section.take("full", list, None)
    usual = Partition("", 1)
    fabric.partition(
        Partition(
            section.take("name", str),
            section.number("pkey", 0, 1, 0xFFFF) & _PKEY_VALUE,
            None if full is None else frozenset(_key(text, section) for text in full),
            frozenset(_key(text, section) for text in section.take("limited", list, [])),
            section.number("sl", usual.sl, 0, 15),
            section.number("mtu", usual.mtu, 256, 1 << 16),
            Rate(section.take("rate", str, str(Rate.from_bps(usual.rate)))).bps,
            section.number("tclass", usual.tclass, 0, 255),
        )
    )
    section.done()


def _key(text: object, section: _Section) -> PortKey:
    node, slash, number = str(text).rpartition("/")
    if not slash or not (number.isascii() and number.isdecimal()) or len(number) > 3:
        raise FabricError(f"{section.name}: {text!r} is not a port; a node and a number are expected, such as sw1/3")
    return PortKey(node, int(number))


class _Section:
    """A table of the file, of which every key has to be taken."""

    def __init__(self, content: dict[str, Any], name: str) -> None:
        self.content, self.name = dict(content), name
        self._known: list[str] = []

    def sections(self, key: str) -> list[_Section]:
        found = self.take(key, list, [])
        if not all(isinstance(one, dict) for one in found):
            raise FabricError(f"{key} is written as [[{key}]]")
        return [_Section(one, f"{key} {one.get('name', number)}") for number, one in enumerate(found, 1)]

    def take(self, key: str, kind: Callable[..., T], default: Any = ...) -> Any:
        self._known.append(key)
        value = self.content.pop(key, default)
        if value is ...:
            raise FabricError(f"{self.name}: {key} is missing")
        if value is not default and not isinstance(value, kind):  # type: ignore[arg-type]
            raise FabricError(f"{self.name}: {key} = {value!r} is of the wrong kind")
        return value

    def number(self, key: str, default: int, least: int, most: int) -> int:
        value = self.take(key, int, default if default >= least else ...)
        if isinstance(value, bool) or not least <= value <= most:
            raise FabricError(f"{self.name}: {key} = {value}; {least} to {most} is expected")
        return int(value)

    def done(self) -> None:
        for key in self.content:
            near = get_close_matches(key, self._known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self._known)}"
            raise FabricError(f"{self.name + ': ' if self.name else ''}unknown key {key}; {hint}")
