"""SONiC's commands about packet trimming in a running network: show, config, aclshow.

Counters are those of the lab's switch. SONiC counts a trimmed packet as dropped too, which the lab does not: the
columns of drops here have both.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testbed.errors import UsageError, nearest
from testbed.linux.port_program import Trimmed
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import PortState
from testbed.subjects.sonic.lab.configuration import Configuration
from testbed.subjects.sonic.lab.views import SonicViews, table
from testbed.subjects.sonic.tables import DISABLE_TRIM, DiscardAction
from testbed.subjects.sonic.trimming import rules_of

_EMPTY = "No configuration is present in CONFIG DB\n"
_ROWS = (("size", "size"), ("DSCP value", "dscp_value"), ("TC value", "tc_value"), ("queue index", "queue_index"))
_QUEUE = ("Trim/pkts", "TrimSent/pkts", "TrimDrop/pkts")
_PORT = ("IFACE", "STATE", "TRIM_PKTS", "TRIM_TX_PKTS", "TRIM_DRP_PKTS")
_OPTIONS = {"--size": "size", "-s": "size", "--dscp": "dscp_value", "-d": "dscp_value", "--tc": "tc_value",
            "-t": "tc_value", "--queue": "queue_index", "-q": "queue_index"}  # fmt: skip


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with a frame, as SONiC shows configurations; a column of numbers alone is at the right."""
    widths = [max(len(head) + 2, *(len(row[place]) for row in rows)) + 2 for place, head in enumerate(heads)]
    right = [all(row[place].isdigit() for row in rows) for place in range(len(heads))]
    line = "".join(f"+{'-' * width}" for width in widths) + "+\n"

    def shown(row: Sequence[str]) -> str:
        cells = (
            f" {cell} ".rjust(width) if is_right else f" {cell} ".ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        )
        return f"|{'|'.join(cells)}|\n"

    return line + shown(heads) + line.replace("-", "=") + "".join(shown(row) + line for row in rows)


def configuration_of(fabric: Fabric, wanted: str = "") -> tuple[str, Configuration]:
    """Return a switch of the network, and its configuration."""
    nodes = {name: ports[0].node.params.get("configuration") for name, ports in fabric.core.ports.by_node().items()}
    known = {name: one for name, one in nodes.items() if isinstance(one, Configuration)}
    if not known:
        raise UsageError("no switch of this network was read from a config_db.json")
    if not wanted and len(known) > 1:
        raise UsageError(f"there are several switches; name one, as in: switch-trimming global {next(iter(known))}")
    name = wanted or next(iter(known))
    if name not in known:
        raise UsageError(f"there is no switch {name}; {nearest(name, known)}")
    return name, known[name]


class TrimmingViews:
    """The views of trimming of one running network; what is cleared is remembered by the other views."""

    def __init__(self, views: SonicViews, fabric: Fabric) -> None:
        self._views, self._fabric = views, fabric

    def configuration(self, as_json: bool, wanted: str = "") -> str:
        """Return `show switch-trimming global`."""
        row = configuration_of(self._fabric, wanted)[1].tables.trimming
        if row is None:
            return _EMPTY
        values = {name: "N/A" if (value := getattr(row, name)) is None else str(value) for _, name in _ROWS}
        if as_json:
            return json.dumps(values, indent=4) + "\n"
        return grid(("Configuration", "Value"), [(f"Packet trimming {word}", values[name]) for word, name in _ROWS])

    def counts(self, port: PortState) -> list[Trimmed]:
        """Return what a port has trimmed by queue, since the counters were cleared."""
        found = []
        for queue, now in enumerate(self._fabric.trimmed_by_queue(port.name)):
            key = ("trimmed", port.name, queue)
            found.append(Trimmed(*(self._views.cleared.since((*key, place), count) for place, count in enumerate(now))))
        return found

    def queues(self, wanted: str, with_all: bool, as_json: bool) -> str:
        """Return `show queue counters` with --trim, or with --all."""
        blocks: list[str] = []
        found: dict[str, dict[str, dict[str, str]]] = {}
        for node, ports in self._views.ports(wanted):
            for port in ports:
                plain = self._views.queue_counts_since(node, port)
                label = self._views.label(port)
                rows: list[tuple[object, ...]] = []
                for queue, (one, (frames, octets, drops, dropped)) in enumerate(
                    zip(self.counts(port), plain, strict=True)
                ):
                    trimmed = (one.frames, one.sent_frames, one.dropped_frames)
                    beside = (frames, octets, drops, dropped) if with_all else ()
                    rows.append((label, f"UC{queue}", *beside, *trimmed))
                    found.setdefault(label, {})[f"UC{queue}"] = {
                        "dropbytes": str(dropped), "droppacket": str(drops), "totalbytes": str(octets),
                        "totalpacket": str(frames), "trimdroppacket": str(one.dropped_frames),
                        "trimpacket": str(one.frames), "trimsentpacket": str(one.sent_frames),
                    }  # fmt: skip
                columns = ("Counter/pkts", "Counter/bytes", "Drop/pkts", "Drop/bytes") if with_all else ()
                blocks.append(table(("Port", "TxQ", *columns, *_QUEUE), rows))
        return json.dumps(found, indent=2) + "\n" if as_json else "\n".join(blocks)

    def interfaces(self, wanted: str, as_json: bool) -> str:
        """Return `show interfaces counters trim`."""
        rows = []
        for _, ports in self._views.ports(wanted):
            for port in ports:
                total = sum(self.counts(port), Trimmed())
                rows.append((self._views.label(port), "U", total.frames, total.sent_frames, total.dropped_frames))
        if as_json:
            return (
                json.dumps({row[0]: dict(zip(_PORT[1:], map(str, row[1:]), strict=True)) for row in rows}, indent=4)
                + "\n"
            )
        return table(_PORT, rows)

    def switch(self, detailed: bool, as_json: bool, wanted: str = "") -> str:
        """Return `show switch counters`."""
        total = Trimmed()
        for _, ports in self._views.ports(wanted):
            for port in ports:
                total += sum(self.counts(port), Trimmed())
        sent, dropped = f"{total.sent_frames:,}", f"{total.dropped_frames:,}"
        if as_json:
            return json.dumps({"trim_drop": dropped, "trim_sent": sent}, indent=4) + "\n"
        if detailed:
            lines = {"Trimmed Sent Packets": sent, "Trimmed Dropped Packets": dropped}
            return "".join(f"{words}{'.' * (47 - len(words))} {count}\n" for words, count in lines.items())
        return table(_QUEUE[1:], [(sent, dropped)])

    def acl_tables(self, wanted: str = "") -> str:
        """Return `show acl table`."""
        tables = configuration_of(self._fabric, wanted)[1].tables.acl_tables
        heads = ("Name", "Type", "Binding", "Description", "Stage", "Status")
        return table(heads, [(name, one.type, ",".join(one.ports), one.policy_desc, one.stage, "Active")
                             for name, one in tables.items()], left=True)  # fmt: skip

    def acl_rules(self, wanted: str = "") -> str:
        """Return `show acl rule`."""
        rules = configuration_of(self._fabric, wanted)[1].tables.acl_rules
        heads = ("Table", "Rule", "Priority", "Action", "Match", "Status")
        return table(heads, [(*key, one.priority, DISABLE_TRIM,
                              ", ".join(f"{name}: {value}" for name, value in one.matches.items()), "Active")
                             for key, one in rules.items()], left=True)  # fmt: skip

    def acl_counters(self, wanted: str = "") -> str:
        """Return `aclshow --all`: the packets and octets that each rule has fitted, at all ports of its table."""
        node, configuration = configuration_of(self._fabric, wanted)
        tables = self._fabric.core.running_program().trimming_tables
        found = {key: [0, 0] for key in configuration.tables.acl_rules}
        for port in configuration.ports(self._fabric, node) if tables else ():
            rules = rules_of(configuration.tables, self._fabric.core.options.labels[port.name])
            assert tables is not None
            for (key, _), counted in zip(rules, tables.excepted(port.slot), strict=False):
                found[key] = [one + more for one, more in zip(found[key], counted, strict=True)]
        rows = [
            (key[1], key[0], configuration.tables.acl_rules[key].priority, *counted) for key, counted in found.items()
        ]
        return table(("RULE NAME", "TABLE NAME", "PRIO", "PACKETS COUNT", "BYTES COUNT"), rows, left=True)


# config


def configure(words: Sequence[str]) -> str:
    """Do a command of config about trimming."""
    fabric = Fabric.current()
    match list(words):
        case ["switch-trimming", "global", *rest]:
            given, wanted = _options(rest)
            return _apply(fabric, wanted, lambda one: one.set_trimming(**given))
        case ["mmu", "-p", profile, "-t", ("on" | "off") as state, *rest]:
            action = DiscardAction.TRIM if state == "on" else DiscardAction.DROP
            return _apply(fabric, "".join(rest[:1]), lambda one: one.set_action(profile, action))
        case ["apply-patch", file, *rest]:
            operations = _json(file)
            if not isinstance(operations, list):
                raise UsageError(f"{file}: a JSON patch is a list of operations")
            return _apply(fabric, "".join(rest[:1]), lambda one: one.patch(operations))
        case ["reload", file, *rest]:
            return _apply(fabric, "".join(rest[:1]), lambda one: one.load(Path(file).read_bytes()))
    raise UsageError(
        "one of these is expected: config switch-trimming global --size N --dscp N|from-tc --tc N --queue N|dynamic, "
        "config mmu -p PROFILE -t on|off, config apply-patch FILE, config reload FILE"
    )


def _apply(fabric: Fabric, wanted: str, change: Any) -> str:
    """Change a switch's configuration and apply it; if it cannot be applied it stays as it was."""
    node, configuration = configuration_of(fabric, wanted)
    before = configuration.tables
    try:
        change(configuration)
        configuration.apply(fabric, node)
    except UsageError:
        configuration.tables = before
        raise
    return ""


def _options(words: Sequence[str]) -> tuple[dict[str, str], str]:
    given: dict[str, str] = {}
    wanted = ""
    left = iter(words)
    for word in left:
        if word in _OPTIONS:
            given[_OPTIONS[word]] = next(left, "")
        elif word.startswith("-"):
            raise UsageError(f"there is no option {word}; {nearest(word, [one for one in _OPTIONS if one[1] == '-'])}")
        else:
            wanted = word
    return given, wanted


def _json(file: str) -> Any:
    try:
        return json.loads(Path(file).read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read as JSON: {error}") from None
