"""The configuration of a running SONiC switch: its tables, and the changes that it takes while traffic runs.

It changes what trimming is made of: SWITCH_TRIMMING, `packet_discard_action` of profiles, TC_TO_DSCP_MAP and its use by
ports, and ACL rules with DISABLE_TRIM. All else is as the network began; a change of it is refused by name.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

from testbed.errors import UsageError, listed
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import PortState
from testbed.subjects.sonic.read import read
from testbed.subjects.sonic.tables import DYNAMIC, FROM_TC, DiscardAction, Tables, TrimmingRow
from testbed.subjects.sonic.trimming import exceptions_of, trimming_of
from testbed.subjects.sonic.write import as_json
from testbed.switch.trimming.settings import MOST_EXCEPTIONS, SIZES

_OF_TRIMMING = ("SWITCH_TRIMMING", "TC_TO_DSCP_MAP", "ACL_TABLE_TYPE", "ACL_TABLE", "ACL_RULE")
_FIELDS_OF_TRIMMING = {"BUFFER_PROFILE": "packet_discard_action", "PORT_QOS_MAP": "tc_to_dscp_map"}


class ConfigurationError(UsageError):
    """A change that a running switch does not take. Nothing of it was applied."""


class Configuration:
    """The tables of one switch while it runs."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.trims = tables.trimming is not None
        """True if the switch begins with a data plane that can trim."""

    # Changes

    def set_trimming(self, **given: str | None) -> None:
        """Change fields of SWITCH_TRIMMING, given as words of a command; the others stay."""
        if not any(value is not None for value in given.values()):
            raise ConfigurationError("none of --size, --dscp, --tc and --queue is given")
        row = self.tables.trimming or TrimmingRow()
        changes: dict[str, Any] = {}
        for name, word, values in (
            ("size", "", SIZES), ("dscp_value", FROM_TC, range(64)), ("tc_value", "", range(8)),
            ("queue_index", DYNAMIC, range(8)),
        ):  # fmt: skip
            text = given.get(name)
            if text is not None:
                changes[name] = word if word and text == word else _number(name, text, values, word)
        if changes.get("dscp_value", row.dscp_value) == FROM_TC and changes.get("tc_value", row.tc_value) is None:
            raise ConfigurationError(f"dscp_value is {FROM_TC}, and there is no tc_value; give --tc too")
        if isinstance(changes.get("dscp_value"), int):
            changes.setdefault("tc_value", None)
        self.tables = replace(self.tables, trimming=replace(row, **changes))

    def set_action(self, profile: str, action: DiscardAction) -> None:
        """Set `packet_discard_action` of a buffer profile."""
        found = self.tables.profiles.get(profile)
        if found is None:
            raise ConfigurationError(f"there is no profile {profile!r}; there are {listed(self.tables.profiles)}")
        self.patch([{"op": "add", "path": f"/BUFFER_PROFILE/{profile}/packet_discard_action", "value": str(action)}])

    def patch(self, operations: list[dict[str, Any]]) -> None:
        """Apply a JSON patch (RFC 6902: add, replace, remove) to the configuration, all or nothing."""
        content = deepcopy(as_json(self.tables))
        for one in operations:
            _operate(content, one)
        self.load(json.dumps(content).encode())

    def load(self, octets: bytes) -> None:
        """Take another config_db.json, which differs in what can change while the switch runs."""
        reading = read(octets)
        if not reading.ok:
            raise ConfigurationError("; ".join(str(one) for one in reading.problems.errors[:4]))
        if changed := _changed(as_json(self.tables), as_json(reading.tables)):
            raise ConfigurationError(f"{listed(changed)} of a running switch cannot change; start the network anew")
        self.tables = reading.tables

    # The switch

    def apply(self, fabric: Fabric, node: str) -> None:
        """Have the ports of the running switch do what the tables say."""
        tables = fabric.core.running_program().trimming_tables
        if tables is None:
            raise ConfigurationError(
                f"{node} began without SWITCH_TRIMMING, and its data plane cannot trim; give its file an empty row: "
                '"SWITCH_TRIMMING": {"GLOBAL": {}}'
            )
        for port in self.ports(fabric, node):
            name = fabric.core.options.labels[port.name]
            trimming, exceptions = trimming_of(self.tables, name), exceptions_of(self.tables, name)[:MOST_EXCEPTIONS]
            assert port.settings is not None
            if port.settings.trim_exceptions != exceptions:
                tables.set_exceptions(port.slot, exceptions)
            tables.set(port.slot, trimming)
            port.settings = replace(port.settings, trimming=trimming, trim_exceptions=exceptions)

    @staticmethod
    def ports(fabric: Fabric, node: str) -> list[PortState]:
        return fabric.core.ports.by_node()[node]


def _number(name: str, text: str, values: range, word: str) -> int:
    if text.isascii() and text.isdigit() and int(text) in values:
        return int(text)
    raise ConfigurationError(
        f"{name} {text[:20]!r} is no number from {values[0]} to {values[-1]}{f' and not {word}' if word else ''}"
    )


def _operate(content: Any, one: dict[str, Any]) -> None:
    """Do one operation of a JSON patch."""
    if not isinstance(one, dict) or one.get("op") not in ("add", "replace", "remove"):
        raise ConfigurationError(f"{str(one)[:60]}: an operation is add, replace or remove, with a path")
    words = [word.replace("~1", "/").replace("~0", "~") for word in str(one.get("path", "")).split("/")[1:]]
    if not words:
        raise ConfigurationError(f"{str(one)[:60]}: the path is empty")
    at = content
    for word in words[:-1]:
        if not isinstance(at, dict) or (word not in at and one["op"] != "add"):
            raise ConfigurationError(f"there is no {one['path']}")
        at = at.setdefault(word, {})
    last = words[-1]
    if not isinstance(at, dict) or (last not in at and one["op"] != "add"):
        raise ConfigurationError(f"there is no {one['path']}")
    if one["op"] == "remove":
        del at[last]
    else:
        at[last] = one.get("value")


def _changed(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the tables that differ in more than what is about trimming."""
    return [
        table
        for table in sorted(old.keys() | new.keys())
        if table not in _OF_TRIMMING and _without(table, old.get(table, {})) != _without(table, new.get(table, {}))
    ]


def _without(table: str, rows: dict[str, Any]) -> dict[str, Any]:
    name = _FIELDS_OF_TRIMMING.get(table)
    return {key: {one: value for one, value in row.items() if one != name} for key, row in rows.items()}
