"""The tables of a config_db.json that decide about packet trimming, read and written: SWITCH_TRIMMING and ACL.

Of ACL tables only rules with the action DISABLE_TRIM are modelled, and the tables and types that they need.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.errors import UsageError, listed
from testbed.strict.problems import json_path as path
from testbed.strict.problems import shown
from testbed.subjects.sonic.entries import Entry, EntryReader
from testbed.subjects.sonic.tables import (
    DISABLE_TRIM,
    DYNAMIC,
    FROM_TC,
    AclRuleRow,
    AclTableRow,
    DiscardAction,
    MapKind,
    Tables,
    TrimmingRow,
)
from testbed.switch.trimming.settings import MOST_EXCEPTIONS, SIZES, TrimException, Trimming

GLOBAL_KEY = "GLOBAL"
ACTION = "DISABLE_TRIM_ACTION"
_LISTS = ("matches", "actions", "bind_points")
MATCHES = {
    "SRC_IP": "source", "DST_IP": "destination", "SRC_IPV6": "source", "DST_IPV6": "destination",
    "IP_PROTOCOL": "protocol", "NEXT_HEADER": "protocol", "L4_SRC_PORT": "source_port",
    "L4_DST_PORT": "destination_port", "DSCP": "dscp",
}  # fmt: skip
"""The fields of a packet that a rule can name, and what they are in a `TrimException`."""


def _both(*names: str) -> tuple[str, ...]:
    """Return names in the two spellings that files have."""
    return tuple(name for one in names for name in (one.lower(), one.upper()))


FIELDS = {
    "SWITCH_TRIMMING": ("size", "dscp_value", "tc_value", "queue_index"),
    "ACL_TABLE_TYPE": _both(*_LISTS),
    "ACL_TABLE": _both("policy_desc", "type", "stage", "ports"),
    "ACL_RULE": _both("priority", "packet_action", *MATCHES, "ether_type", "ip_type", "tcp_flags", "vlan_id",
                      "in_ports", "out_ports"),
}  # fmt: skip


def read_trimming(reader: EntryReader) -> TrimmingRow | None:
    """Return the row GLOBAL of SWITCH_TRIMMING. What is wrong in it goes to the reader's problems."""
    row = None
    for entry in reader.rows("SWITCH_TRIMMING"):
        if entry.key != GLOBAL_KEY:
            reader.problems.error(entry.where(), f"{shown(entry.key)} is unknown: {GLOBAL_KEY} is the only row")
            continue
        row = TrimmingRow(
            reader.whole(entry, "size", SIZES[0], SIZES[-1]),
            _word_or_number(reader, entry, "dscp_value", FROM_TC, 63),
            reader.whole(entry, "tc_value", 0, 7),
            _word_or_number(reader, entry, "queue_index", DYNAMIC, 7),
        )
        if not row.is_complete:
            missing = [name for name in ("size", "dscp_value", "queue_index") if name not in entry.row]
            if row.dscp_value == FROM_TC and "tc_value" not in entry.row:
                missing.append("tc_value")
            if missing:
                reader.problems.warning(
                    entry.where(), f"without {listed(missing)} the switch trims nothing", rule="trimming incomplete"
                )
    return row


def _word_or_number(reader: EntryReader, entry: Entry, name: str, word: str, most: int) -> int | str | None:
    text = entry.row.get(name, "").strip()
    if text.lower() == word:
        return word
    if text and not text.isdigit():
        reader.problems.error(entry.where(name), f"{shown(text)} is neither a number from 0 to {most} nor {word}")
        return None
    return reader.whole(entry, name, 0, most)


def read_acl(
    reader: EntryReader,
) -> tuple[
    dict[str, tuple[tuple[str, ...], tuple[str, ...]]], dict[str, AclTableRow], dict[tuple[str, str], AclRuleRow]
]:
    """Return the types, tables and rules that are about trimming."""
    lower = {
        name: [entry._replace(row={field.lower(): value for field, value in entry.row.items()})
               for entry in reader.rows(name)]
        for name in ("ACL_TABLE_TYPE", "ACL_TABLE", "ACL_RULE")
    }  # fmt: skip
    types = {}
    for entry in lower["ACL_TABLE_TYPE"]:
        matches, actions = (_split(entry.row.get(name, "").upper()) for name in ("matches", "actions"))
        if ACTION in actions:
            types[entry.key] = matches, actions
    tables = {}
    for entry in lower["ACL_TABLE"]:
        row = AclTableRow(
            entry.row.get("type", ""), entry.row.get("stage", "ingress").lower(),
            tuple(reader.named_ports(entry, entry.row.get("ports", ""))) if entry.row.get("ports") else (),
            entry.row.get("policy_desc", ""),
        )  # fmt: skip
        if row.type in types:
            tables[entry.key] = row
    rules = {}
    for entry in lower["ACL_RULE"]:
        if entry.row.get("packet_action", "").upper() != DISABLE_TRIM:
            continue
        table, bar, name = entry.key.partition("|")
        if not bar or table not in tables:
            reader.problems.error(
                entry.where(),
                f"{DISABLE_TRIM} is in the table {shown(table)}, which is none of a type with {ACTION}",
            )
            continue
        fits = {key.upper(): value for key, value in entry.row.items() if key not in ("priority", "packet_action")}
        wrong = [key for key in fits if key not in MATCHES]
        beside = [key for key in fits if key in MATCHES and key not in types[tables[table].type][0]]
        try:
            exception_of(fits)
        except (UsageError, ValueError) as error:
            reader.problems.error(entry.where(), str(error))
            continue
        if wrong:
            reader.problems.error(entry.where(), f"{listed(wrong)} is not modelled for {DISABLE_TRIM}")
            continue
        if beside:
            reader.problems.warning(
                entry.where(), f"the type {tables[table].type} has no match {listed(beside)}", rule="acl match"
            )
        rules[table, name] = AclRuleRow(reader.whole(entry, "priority", 0, 2**31) or 0, fits)
    return types, tables, rules


def _split(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split(",") if one.strip())


def exception_of(matches: Mapping[str, str]) -> TrimException:
    """Return the frames that a rule fits."""
    found: dict[str, Any] = {}
    for name, text in matches.items():
        if name in MATCHES:
            place = MATCHES[name]
            found[place] = text if "IP" in name and place in ("source", "destination") else int(text, 0)
    return TrimException(**found)


def as_json(tables: Tables) -> dict[str, dict[str, Any]]:
    """Return the tables as plain data."""
    row = tables.trimming
    values = {} if row is None else {
        name: str(value)
        for name in FIELDS["SWITCH_TRIMMING"]
        if (value := getattr(row, name)) is not None
    }  # fmt: skip
    return {
        "SWITCH_TRIMMING": {} if row is None else {GLOBAL_KEY: values},
        "ACL_TABLE_TYPE": {
            name: {"matches": ",".join(matches), "actions": ",".join(actions), "bind_points": "PORT"}
            for name, (matches, actions) in tables.acl_types.items()
        },
        "ACL_TABLE": {
            name: {
                **({"policy_desc": table.policy_desc} if table.policy_desc else {}),
                "type": table.type, "stage": table.stage,
                **({"ports": ",".join(table.ports)} if table.ports else {}),
            }
            for name, table in tables.acl_tables.items()
        },
        "ACL_RULE": {
            f"{table}|{name}": {"priority": str(rule.priority), "packet_action": DISABLE_TRIM, **rule.matches}
            for (table, name), rule in tables.acl_rules.items()
        },
    }  # fmt: skip


def trimmed_queues(tables: Tables, port: str) -> frozenset[int]:
    """Return the queues of a port whose profile has the action `trim`, lossless ones too."""
    return frozenset(
        queue
        for (one, queue), name in tables.queue_profiles.items()
        if one == port
        and (profile := tables.profiles.get(name))
        and profile.packet_discard_action is DiscardAction.TRIM
    )


def lossless_queues(tables: Tables, port: str) -> frozenset[int]:
    """Return the queues of a port that PFC stops."""
    pauses = tables.map_of(port, MapKind.PFC_TO_QUEUE)
    return frozenset(one if pauses is None else pauses.get(one, one) for one in tables.pfc_of(port))


def trimming_of(tables: Tables, port: str) -> Trimming | None:
    """Return what a port trims, or None: nothing, or there is no DSCP for it."""
    row = tables.trimming
    queues = trimmed_queues(tables, port) - lossless_queues(tables, port)
    if row is None or not row.is_complete or not queues:
        return None
    asymmetric = row.dscp_value == FROM_TC
    dscp: int | None = None
    if asymmetric:
        dscp = (tables.map_of(port, MapKind.TC_TO_DSCP) or {}).get(row.tc_value or 0)
    elif isinstance(row.dscp_value, int):
        dscp = row.dscp_value
    if dscp is None or row.size is None:
        return None
    queue = row.queue_index if isinstance(row.queue_index, int) else None
    return Trimming(queues, row.size, dscp, queue, row.tc_value if asymmetric else None)


def rules_of(tables: Tables, port: str) -> list[tuple[tuple[str, str], AclRuleRow]]:
    """Return the rules with DISABLE_TRIM for packets that come in by a port, the highest priority first."""
    found = [
        (key, rule)
        for key, rule in tables.acl_rules.items()
        if port in (table := tables.acl_tables[key[0]]).ports and table.stage == "ingress"
    ]
    return sorted(found, key=lambda item: -item[1].priority)


def exceptions_of(tables: Tables, port: str) -> tuple[TrimException, ...]:
    """Return the frames coming in by a port that are not trimmed."""
    return tuple(exception_of(rule.matches) for _, rule in rules_of(tables, port))


def check(tables: Tables, port: str) -> list[tuple[str, str, str]]:
    """Return what is contradictory about trimming at a port: the place, the finding, and the rule's name."""
    wrong = []
    queues, row = trimmed_queues(tables, port), tables.trimming
    where = path("BUFFER_QUEUE")
    if queues and row is None:
        wrong.append((where, "profiles have the action trim, and there is no SWITCH_TRIMMING: it is as drop",
                      "no trimming"))  # fmt: skip
    if lossless := sorted(queues & lossless_queues(tables, port)):
        wrong.append((where, f"queue {lossless[0]} is lossless and its profile has the action trim: only lossy "
                      "queues are trimmed", "trimming lossless"))  # fmt: skip
    if queues and row is not None and row.dscp_value == FROM_TC:
        dscps = tables.map_of(port, MapKind.TC_TO_DSCP)
        if dscps is None or row.tc_value not in dscps:
            wrong.append((path("PORT_QOS_MAP"), f"dscp_value is {FROM_TC}, and no tc_to_dscp_map has class "
                          f"{row.tc_value}: nothing is trimmed here", "no trimming dscp"))  # fmt: skip
    if len(rules_of(tables, port)) > MOST_EXCEPTIONS:
        wrong.append((path("ACL_RULE"), f"more than {MOST_EXCEPTIONS} rules with {DISABLE_TRIM}; the lab's switch "
                      f"takes the first {MOST_EXCEPTIONS}", "too many rules"))  # fmt: skip
    return wrong
