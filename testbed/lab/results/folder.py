"""A result folder: `result.json`, the networks, events, DCBX log and time series, as reports, plots and tables read it.

Everything in a folder may be of foreign origin. It is opened by `lab/results/foreign.py`; a file that cannot be read
gives an error that names it, and a line that is not what it should be is left out and named. What comes
out of here has the types that it should have, and text is kept as it is: whoever shows it has to escape it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from testbed.lab.results.flow_lines import FLOWS, Flow, flow_of
from testbed.lab.results.foreign import DEEPEST, LARGEST_LOG, ForeignError, ForeignFolder, is_shallow
from testbed.lab.results.published import Published, published_of
from testbed.lab.results.result_file import RESULT, Claim, Figure, ResultFile
from testbed.units import Duration, Scale

EVENTS = "events.jsonl"
_FEW_EVENTS = 50_000
"""The most events that are kept; each takes about a kilobyte."""
_NEW_NAMES = {"t_ns": "lab_ns", "rate_bps": "lab_rate_bps", "delay_ns": "lab_delay_ns"}
NETWORKS = "networks.jsonl"
DCBX = "dcbx.jsonl"
PUBLISHED = "published.jsonl"
LATEST_NS = 10**18
MOST_KINDS = 1000
"""The most names of events, and of fields, in one log."""
MOST_NETWORKS = 2000
_TIMES = ("ns", "us", "ms", "s")
_LARGEST_LIST = 256 << 20
"""The most octets of a log that is kept in memory as a whole."""


MOST = 10_000
"""The most damaged lines of one file. A file with more is no log of a run, and is not read on."""
_NAMED = 3


class Damage:
    """The count of damaged lines, each once, however often its file is read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: dict[tuple[str, int], str] = {}
        self._counts: Counter[str] = Counter()

    def add(self, file: str, line: int, why: str) -> None:
        """Count a line that is left out. `why` completes the sentence that begins with it: "is no event"."""
        if (file, line) in self._found:
            return
        self._found[file, line] = why
        self._counts[file] += 1
        if self._counts[file] > MOST:
            raise ForeignError(f"{self._folder / file}: {MOST} lines up to line {line} are damaged; line {line} {why}")

    def __len__(self) -> int:
        return len(self._found)

    def __str__(self) -> str:
        """Return one line that names the damaged lines, or the first of many; empty if there are none."""
        if not self._found:
            return ""
        named = [f"line {line} of {file} {why}" for (file, line), why in list(self._found.items())[:_NAMED]]
        more = len(self._found) - len(named)
        lines = f"{', '.join(named)}{f', and {more} more are damaged' if more else ''}"
        return f"{self._folder}: {lines}; the rest is read without {'it' if len(self._found) == 1 else 'them'}"


class ReportError(ForeignError):
    """Raised if no report can be made from a folder or file."""


@dataclass(frozen=True)
class Event:
    """A line of the event log; `fields` are those beside time, event, port and priorities."""

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
    is_in_lab_time: bool = False
    """True if the experiment's own values were the lab's."""
    soft_roce: dict[str, dict[str, int]] = field(default_factory=dict)
    """The counters of Soft-RoCE devices at the network's end, by port and name."""
    llr: dict[str, dict[str, int]] = field(default_factory=dict)
    """The same of ports with LLR, or with errors on their cables."""

    @property
    def title(self) -> str:
        return self.case or (f"{self.topology} {self.number}" if self.topology else f"network {self.number}")

    def node_of(self, port: str) -> str:
        """Return the node of a port; the port's name has it where the network was not described."""
        known = self.ports.get(port, {}).get("node")
        return known if isinstance(known, str) else port.rpartition("-")[0] or port


@dataclass
class Folder:
    """A result folder, as far as it has been read."""

    path: Path
    result: dict[str, Any]
    networks: list[Network] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    files: ForeignFolder = field(init=False)
    damage: Damage = field(init=False)
    """The damaged lines of its files, which are left out."""
    lab_time: bool = False
    """True if rates and times are shown as those of the lab, and not of the hardware."""
    names: dict[str, str] = field(default_factory=dict)
    """Other names by which ports are shown, by those of the lab."""
    _events: tuple[Event, ...] | None = field(default=None, init=False, repr=False)
    """All events, once they have been read, if they are few: several parts of a report look at them."""

    def __post_init__(self) -> None:
        self.files = ForeignFolder(self.path)
        self.damage = Damage(self.path)

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def scale(self) -> Scale:
        """The scale of the run's networks; 1 if there is none, there are several, or the run is in lab time."""
        scales = {cable.get("scale") for network in self.networks for cable in network.cables}
        if any(network.is_in_lab_time for network in self.networks):
            return Scale(1)
        scales.discard(None)
        found = scales.pop() if len(scales) == 1 else 1
        return Scale(found) if type(found) is int and 1 <= found <= Scale.limit else Scale(1)

    @property
    def units(self) -> Scale:
        """The scale between the times of the logs, which are the lab's, and those that are shown."""
        return Scale(1) if self.lab_time else self.scale

    def span(self, lab_ns: int) -> str:
        """Return a time of the logs as it is shown."""
        return str(self.units.nearest_real(Duration.from_ns(max(0, lab_ns))))

    @property
    def end_ns(self) -> int:
        virtual = self.result["times"].get("virtual_ns")
        return virtual if isinstance(virtual, int) and 0 < virtual <= LATEST_NS else 1

    def show_own_names(self) -> None:
        """Show ports by the names that their switches' own system has for them: s1-Ethernet8 for s1-eth3."""
        for network in self.networks:
            for port, known in network.ports.items():
                if isinstance(name := known.get("name"), str):
                    self.names[port] = f"{network.node_of(port)}-{name}"
        self.networks = [
            replace(
                one,
                **{part: _renamed(getattr(one, part), self.names) for part in ("cables", "ports", "soft_roce", "llr")},
            )
            for one in self.networks
        ]

    def events(self) -> Iterator[Event]:
        """Yield the events of the log, in the order of the file."""
        if self._events is not None:
            yield from self._events
            return
        few: list[Event] | None = []
        kinds: set[str] = set()
        names: set[str] = set()
        for number, line in self._lines(EVENTS):
            event = _event(line)
            if event is None:
                self.damage.add(EVENTS, number, "is no event")
                continue
            kinds.add(event.name)
            names.update(event.fields)
            for found, what in ((kinds, "kinds of events"), (names, "names of fields")):
                if len(found) > MOST_KINDS:
                    raise ReportError(
                        f"{self.path / EVENTS}: line {number}: there are more than {MOST_KINDS} {what}, and no run "
                        "has so many"
                    )
            if few is not None:
                few.append(event)
                if len(few) > _FEW_EVENTS:
                    few = None
            yield event
        if few is not None:
            self._events = tuple(few)

    def flows(self) -> list[Flow]:
        """Return the flows that have ended, in the order of their ends."""
        found = []
        for number, line in self._lines(FLOWS, _LARGEST_LIST):
            if (flow := flow_of(_by_new_names(line), LATEST_NS)) is None:
                self.damage.add(FLOWS, number, "is no flow")
            else:
                found.append(flow)
        return found

    def dcbx(self) -> list[dict[str, Any]]:
        """Return the log of DCBX."""
        found = []
        for number, line in self._lines(DCBX, _LARGEST_LIST):
            match line := _by_new_names(line):
                case {"lab_ns": int(t_ns), "what": str(), "port": str()} if 0 <= t_ns <= LATEST_NS:
                    found.append(line | {"t_ns": t_ns})  # the name in the logs of agents, which are drawn as well
                case _:
                    self.damage.add(DCBX, number, "is no line of DCBX")
        return found

    def published(self) -> list[Published]:
        """Return what others have published, beside what the run measured."""
        found = []
        for number, line in self._lines(PUBLISHED, _LARGEST_LIST):
            if (one := published_of(line)) is None:
                self.damage.add(PUBLISHED, number, "is no published value")
            else:
                found.append(one)
        return found

    def read_networks(self) -> None:
        """Read the networks from their log."""
        started: dict[str, Any] | None = None

        def close(end_ns: int, soft_roce: Any = None, llr: Any = None) -> None:
            if started is not None:
                network = network_of(started, len(self.networks) + 1, end_ns)
                self.networks.append(replace(network, soft_roce=_counted(soft_roce), llr=_counted(llr)))

        for number, line in self._lines(NETWORKS, _LARGEST_LIST):
            match line := _by_new_names(line):
                case {"network": "started", "lab_ns": int(t_ns)} if abs(t_ns) <= LATEST_NS:
                    close(t_ns)
                    started = line
                case {"network": "ended", "lab_ns": int(t_ns)} if abs(t_ns) <= LATEST_NS:
                    close(t_ns, line.get("soft_roce"), line.get("llr"))
                    started = None
                case _:
                    self.damage.add(NETWORKS, number, "is no start or end of a network")
            if len(self.networks) > MOST_NETWORKS:
                raise ReportError(
                    f"{self.path / NETWORKS}: line {number}: there are more than {MOST_NETWORKS} networks"
                )
        close(self.end_ns)  # the run ended before the network did

    def _lines(self, name: str, most: int = LARGEST_LOG) -> Iterator[tuple[int, Any]]:
        """Yield the lines of a file of JSON lines with their numbers, or none if there is no such file."""
        try:
            for number, line in self.files.lines(name, most):
                try:
                    content = json.loads(line)
                except (ValueError, RecursionError):
                    self.damage.add(name, number, "is not JSON")
                    continue
                if line.count("{") + line.count("[") > DEEPEST and not is_shallow(content):
                    self.damage.add(name, number, f"is nested deeper than {DEEPEST} times")
                else:
                    yield number, _renamed(content, self.names) if self.names else content
        except FileNotFoundError:
            return


def read(path: Path, lab_time: bool = False) -> Folder:
    """Return the result in a folder, without its logs, which are read when they are needed.

    With `lab_time` its rates and times are those of the lab.
    """
    found = ResultFile.read(ForeignFolder(path))
    folder = Folder(path, found.content, lab_time=lab_time)

    def damaged(line: int, reason: str) -> None:
        folder.damage.add(RESULT, line, reason)

    folder.read_networks()
    folder.figures, folder.claims = found.figures(damaged), found.claims(damaged)
    if lab_time and folder.scale.k > 1:
        k = folder.scale.k
        folder.figures = [replace(one, value=_in_lab(one.value, one.unit, k)) for one in folder.figures]
        folder.claims = [
            replace(
                one,
                measured=_in_lab(one.measured, one.unit, k),
                expected={bound: _in_lab(value, one.unit, k) for bound, value in one.expected.items()},
            )
            for one in folder.claims
        ]
    return folder


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """Return a line of a log with other names of ports."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [_renamed(one, names) for one in value]
    if isinstance(value, dict):
        return {names.get(key, key): _renamed(one, names) for key, one in value.items()}
    return value


def _in_lab(value: Any, unit: str, k: int) -> Any:
    """Return a figure's value, or each number in it, as that of the lab."""
    if isinstance(value, list):
        return [_in_lab(one, unit, k) for one in value]
    if isinstance(value, dict):
        if isinstance(value.get("unit"), str) and "value" in value:
            return value | {"value": _in_lab(value["value"], value["unit"], k)}
        return {name: _in_lab(one, unit, k) for name, one in value.items()}
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if unit in _TIMES or unit == "m":
        return value * k
    return value / k if unit == "b/s" else value


def _by_new_names(line: Any) -> Any:
    """Return a line or a part of one with values of the lab by the names that say so, also if Xoff 0.1 wrote it."""
    if not isinstance(line, dict):
        return line
    return {_NEW_NAMES.get(name, name): value for name, value in line.items()}


def _event(line: Any) -> Event | None:
    match line:
        case {"t": int(t_ns), "event": str(name)} if abs(t_ns) <= LATEST_NS:
            port, priorities = line.get("port", ""), line.get("priorities", [])
            known = isinstance(port, str) and isinstance(priorities, list)
            if known and all(type(p) is int and p in range(8) for p in priorities):
                rest = {k: v for k, v in line.items() if k not in ("t", "event", "port", "priorities")}
                return Event(t_ns, name, port, tuple(priorities), rest)
    return None


def network_of(line: dict[str, Any], number: int, end_ns: int) -> Network:
    """Return the network that a line of the log has the start of."""

    def mapping(key: str) -> dict[str, dict[str, Any]]:
        value = line.get(key)
        if not isinstance(value, dict):
            return {}
        return {str(name): one for name, one in value.items() if isinstance(one, dict)}

    nodes, cables = line.get("nodes"), line.get("cables")
    return Network(
        number=number,
        start_ns=line["lab_ns"],
        end_ns=max(line["lab_ns"], end_ns),
        case=_text(line.get("case")),
        topology=_text(line.get("topology")),
        nodes={str(n): _text(k) for n, k in nodes.items()} if isinstance(nodes, dict) else {},
        cables=[_by_new_names(cable) for cable in cables if _is_cable(cable)] if isinstance(cables, list) else [],
        ports=mapping("ports"),
        buffers=mapping("buffers"),
        is_in_lab_time=line.get("in_lab_time") is True,
    )


def _counted(ports: Any) -> dict[str, dict[str, int]]:
    """Return the counters of ports, as far as they are whole numbers that a kernel may have counted."""
    if not isinstance(ports, dict):
        return {}
    return {
        str(port): {str(name): value for name, value in counters.items() if type(value) is int and 0 <= value < 1 << 64}
        for port, counters in ports.items()
        if isinstance(counters, dict)
    }


def _is_cable(cable: Any) -> bool:
    match cable:
        case {"ends": [str(), str()], "nodes": [str(), str()]}:
            return True
    return False


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
