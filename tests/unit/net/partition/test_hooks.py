"""A network over several kernels is a room of its own: few places outside it know that there may be parts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[4]
ROOMS = ("testbed/net/partition/", "testbed/lab/partition/")
PROTOCOL = "testbed/net/fabric/parts.py"
MOST_HOOKS = 10
_OF_A_CORE = re.compile(r"(\bcore|\bfabric|\.current\(\)|\.running\(\))$")


def outside() -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules that networks are made of and that use them, without the rooms of partitions."""
    for path in sorted((ROOT / "testbed").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text()
        if not name.startswith(ROOMS) and name != PROTOCOL and ("parts" in text or "testbed.net.partition" in text):
            yield name, ast.parse(text)


def hooks(name: str, module: ast.Module) -> Iterator[str]:
    """Yield each place where a module takes hold of the parts of a network: it asks a core for them, or uses something
    of the room.
    """
    rooms = {
        alias.asname or alias.name
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("testbed.net.partition")
        for alias in node.names
    }
    for node in ast.walk(module):
        is_room = isinstance(node, ast.Name) and node.id in rooms
        is_core = (
            isinstance(node, ast.Attribute) and node.attr == "parts" and _OF_A_CORE.search(ast.unparse(node.value))
        )
        if is_room or is_core:
            yield f"{name}: {ast.unparse(node)}"


def test_few_places_know_that_a_network_may_have_parts() -> None:
    found = [hook for name, module in outside() for hook in hooks(name, module)]
    assert len(found) <= MOST_HOOKS, "\n".join(found)
    assert any("network.py" in hook for hook in found), "the room is used"


def test_no_place_asks_for_a_stand_in_or_tells_types_what_is_not_so() -> None:
    """Nodes elsewhere are null objects: nobody compares a process with 0, or casts what stands in for an object."""
    found = []
    for path in sorted((ROOT / "testbed/net").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            is_cast = isinstance(node, ast.Call) and ast.unparse(node.func) in ("cast", "typing.cast")
            is_asked = isinstance(node, ast.Compare) and re.search(r"pid\W.*== 0", ast.unparse(node))
            if is_cast or is_asked:
                found.append(f"{path.relative_to(ROOT)}: {ast.unparse(node)}")
    assert found == []
