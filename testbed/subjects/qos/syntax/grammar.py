"""The grammar of a policy, for both syntaxes: the entries of each section, and which are required or may be repeated.

It stands for the BNF that the RFC announces and lacks (decision 0122); docs/qos.md has it in full. Names here are those
of OpenSM's block text; `Syntax` has the other spellings. Both syntaxes are read into a tree of `SyntaxNode` first.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from testbed.subjects.qos.model import UlpKey


@dataclass(slots=True)
class SyntaxNode:
    """A section, or an entry with its text. Names are those of `testbed.subjects.qos.syntax.grammar`."""

    name: str
    offset: int
    text: str = ""  # of an entry, without white space around it
    text_offset: int = 0
    children: list[SyntaxNode] = field(default_factory=list)


class Occurs(enum.Enum):
    ONCE = "once"
    OPTIONAL = "optional"
    REPEATED = "repeated"


@dataclass(frozen=True)
class Element:
    """An element of the grammar: a section if it has members, else an entry."""

    members: Mapping[str, tuple[Occurs, Element]] = field(default_factory=dict)

    @property
    def is_section(self) -> bool:
        return bool(self.members)


_ENTRY = Element()


def _section(once: str = "", optional: str = "", repeated: str = "", **sections: tuple[Occurs, Element]) -> Element:
    members = {name.replace("_", "-"): member for name, member in sections.items()}
    for names, occurs in ((once, Occurs.ONCE), (optional, Occurs.OPTIONAL), (repeated, Occurs.REPEATED)):
        members |= {name: (occurs, _ENTRY) for name in names.split()}
    return Element(members)


_OPTIONAL, _REPEATED = Occurs.OPTIONAL, Occurs.REPEATED
_PORT_GROUP = _section("name", "use", "port-guid port-name partition pkey node-type")
_SL2VL_SCOPE = _section("sl2vl-table", "use", "group across across-from across-to from to")
_VLARB_SCOPE = _section("", "use vlarb-high vlarb-low vl-high-limit", "group across to")
_QOS_LEVEL = _section("sl", "sn name use tclass mtu-limit rate-limit path-bits packet-life", "pkey")
_MATCH_RULE = _section(
    "qos-level-name", "sn use", "source destination service-id tclass qos-class pkey"
)  # fmt: skip
_QOS_ULP = _section("ulp sl", " ".join(UlpKey))
_PARTITION_DEFAULT = _section("partition qos-level-name")
_QOS_SETUP = _section(
    sl2vl_tables=(_OPTIONAL, _section(sl2vl_scope=(_REPEATED, _SL2VL_SCOPE))),
    vlarb_tables=(_OPTIONAL, _section(vlarb_scope=(_REPEATED, _VLARB_SCOPE))),
)
POLICY = _section(
    optional="default-level",
    port_groups=(_OPTIONAL, _section(port_group=(_REPEATED, _PORT_GROUP))),
    qos_setup=(_OPTIONAL, _QOS_SETUP),
    qos_levels=(_OPTIONAL, _section(qos_level=(_REPEATED, _QOS_LEVEL))),
    qos_match_rules=(_OPTIONAL, _section(qos_match_rule=(_REPEATED, _MATCH_RULE))),
    qos_ulps=(_OPTIONAL, _section(qos_ulp=(_REPEATED, _QOS_ULP))),
    partition_defaults=(_OPTIONAL, _section(partition_default=(_REPEATED, _PARTITION_DEFAULT))),
)
ROOT = "qos-policy"


@dataclass(frozen=True)
class Syntax:
    """One of the two syntaxes: its spelling, the elements that it lacks, and the units of a level's limits."""

    name: str
    spelled: Mapping[str, str]  # name here -> as it is written
    lacks: frozenset[str] = frozenset()  # names here, with their section: "qos-level/tclass"
    codes: bool = False  # mtu-limit and rate-limit are codes of PathRecord

    def spell(self, name: str) -> str:
        return self.spelled.get(name, name)

    def has(self, section: str, name: str) -> bool:
        return f"{section}/{name}" not in self.lacks


XML = Syntax(
    "XML",
    {
        "service-id": "service", "qos-level-name": "match-level", "mtu-limit": "mtu_limit", "rate-limit": "rate_limit",
        "path-bits": "path_bits", "packet-life": "packet_life", "qos-class": "qos_class",
        "qos-match-rules": "qos_match_rules", "qos-match-rule": "qos_match_rule",
    },
)  # fmt: skip
BLOCK = Syntax(
    "block text",
    {},
    frozenset({
        "qos-level/sn", "qos-level/tclass", "qos-match-rule/sn", "qos-match-rule/tclass", "qos-policy/default-level",
        "qos-policy/partition-defaults",
    }),
    codes=True,
)  # fmt: skip
