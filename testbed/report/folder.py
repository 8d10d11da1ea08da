"""A result folder as it was read: `result.json`, the networks, events, DCBX log and time series.

Everything in a folder may be of foreign origin. A file that is damaged gives an error that names it, and a line of a
log that is no event is counted and left out. Text is kept as it is: whoever shows it has to escape it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.errors import UsageError
from testbed.lab.result import BOUNDS, RESULT, Claim

EVENTS = "events.jsonl"
NETWORKS = "networks.jsonl"
DCBX = "dcbx.jsonl"
LATEST_NS = 10**18
_KEYS = {
    "experiment": str,
    "status": str,
    "parameters": dict,
    "seed": int,
    "figures": list,
    "claims": list,
    "fidelity": dict,
    "provenance": dict,
    "times": dict,
    "files": dict,
    "passed": bool,
    "digest": str,
}
"""What a report takes from `result.json`, with the type of each."""


class ReportError(UsageError):
    """A folder or file that a report cannot be made from."""


@dataclass(frozen=True)
class Event:
    """One line of the event log; `fields` are those beside time, event, port and priorities."""

    t_ns: int
    name: str
    port: str
    priorities: tuple[int, ...]
    fields: dict[str, Any]


@dataclass(frozen=True)
class Network:
    """A network of the run and the time in which it ran."""

    number: int
    start_ns: int
    end_ns: int
    case: str
    topology: str
    nodes: dict[str, str]
    """The kind of each node."""
    cables: list[dict[str, Any]]
    ports: dict[str, dict[str, Any]]
    buffers: dict[str, dict[str, Any]]

    @property
    def title(self) -> str:
        return self.case or (f"{self.topology} {self.number}" if self.topology else f"network {self.number}")

    def node_of(self, port: str) -> str:
        """The node of a port; by its name where the network was not described."""
        known = self.ports.get(port, {}).get("node")
        return known if isinstance(known, str) else port.rpartition("-")[0] or port


@dataclass
class Folder:
    """One result."""

    path: Path
    result: dict[str, Any]
    networks: list[Network] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    damaged_lines: int = 0
    """Lines of logs, and claims, that are not what they should be."""

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def end_ns(self) -> int:
        virtual = self.result["times"].get("virtual_ns")
        return virtual if isinstance(virtual, int) and 0 < virtual <= LATEST_NS else 1

    def events(self) -> Iterator[Event]:
        """The event log, in the order of the file."""
        for line in self._lines(EVENTS):
            match line:
                case {"t": int(t_ns), "event": str(name)} if abs(t_ns) <= LATEST_NS:
                    port, priorities = line.get("port", ""), line.get("priorities", [])
                    known = isinstance(port, str) and isinstance(priorities, list)
                    if known and all(type(p) is int and p in range(8) for p in priorities):
                        rest = {k: v for k, v in line.items() if k not in ("t", "event", "port", "priorities")}
                        yield Event(t_ns, name, port, tuple(priorities), rest)
                        continue
            self.damaged_lines += 1

    def dcbx(self) -> list[dict[str, Any]]:
        """The log of DCBX."""
        return [line for line in self._lines(DCBX) if isinstance(line, dict) and isinstance(line.get("t_ns"), int)]

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def lines(self, name: str) -> Iterator[Any]:
        """A file of JSON lines."""
        return self._lines(name)

    def _lines(self, name: str) -> Iterator[Any]:
        try:
            with (self.path / name).open(encoding="utf-8", errors="replace") as log:
                for line in log:
                    try:
                        yield json.loads(line)
                    except (ValueError, RecursionError):
                        self.damaged_lines += 1
        except FileNotFoundError:
            return
        except OSError as error:
            raise ReportError(f"{self.path / name}: {error.strerror}") from None


def read(path: Path) -> Folder:
    """The result in a folder, without its logs, which are read when they are needed."""
    file = path / RESULT
    if not path.is_dir():
        raise ReportError(f"there is no result folder {path}; xoff run makes one, in results/")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ReportError(f"{path} has no {RESULT}: it is no result folder, or its run did not end") from None
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{file} is not JSON: {error}") from None
    except OSError as error:
        raise ReportError(f"{file}: {error.strerror}") from None
    for key, kind in _KEYS.items():
        if not isinstance(content, dict) or not isinstance(content.get(key), kind):
            raise ReportError(f"{file} is not a result of xoff: {key} is missing, or no {kind.__name__}")
    folder = Folder(path, content)
    folder.networks = _networks(folder)
    folder.claims = _claims(folder)
    return folder


def _claims(folder: Folder) -> list[Claim]:
    """Those claims that can be read."""
    found = []
    for one in folder.result["claims"]:
        match one:
            case {"name": str(name), "expected": dict(expected), "passed": bool(passed)}:
                unit = one.get("unit")
                known = {bound: value for bound, value in expected.items() if bound in BOUNDS}
                found.append(Claim(name, known, one.get("measured"), passed, unit if isinstance(unit, str) else ""))
            case _:
                folder.damaged_lines += 1
    return found


def _networks(folder: Folder) -> list[Network]:
    found: list[Network] = []
    started: dict[str, Any] | None = None

    def close(end_ns: int) -> None:
        if started is not None:
            found.append(network_of(started, len(found) + 1, end_ns))

    for line in folder.lines(NETWORKS):
        match line:
            case {"network": "started", "t_ns": int(t_ns)}:
                close(t_ns)
                started = line
            case {"network": "ended", "t_ns": int(t_ns)}:
                close(t_ns)
                started = None
            case _:
                folder.damaged_lines += 1
    close(folder.end_ns)  # the run ended before the network did
    return found


def network_of(line: dict[str, Any], number: int, end_ns: int) -> Network:
    """A network from the line of its start in the log."""

    def mapping(key: str) -> dict[str, dict[str, Any]]:
        value = line.get(key)
        if not isinstance(value, dict):
            return {}
        return {str(name): one for name, one in value.items() if isinstance(one, dict)}

    nodes, cables = line.get("nodes"), line.get("cables")
    return Network(
        number=number,
        start_ns=line["t_ns"],
        end_ns=max(line["t_ns"], end_ns),
        case=_text(line.get("case")),
        topology=_text(line.get("topology")),
        nodes={str(n): _text(k) for n, k in nodes.items()} if isinstance(nodes, dict) else {},
        cables=[cable for cable in cables if _is_cable(cable)] if isinstance(cables, list) else [],
        ports=mapping("ports"),
        buffers=mapping("buffers"),
    )


def _is_cable(cable: Any) -> bool:
    match cable:
        case {"ends": [str(), str()], "nodes": [str(), str()]}:
            return True
    return False


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
