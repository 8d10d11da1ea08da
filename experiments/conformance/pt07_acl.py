"""PT07: ACL rules with DISABLE_TRIM."""

from dataclasses import replace

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._trimming import FRAMES, SIZE, trimmed, trims
from testbed.subjects.sonic.lab.commands import trimming
from testbed.subjects.sonic.tables import AclRuleRow, AclTableRow, Tables
from testbed.subjects.sonic.trimming import ACTION

_TABLE, _TYPE = "TRIM_TABLE", "TRIMMING_L3"
_FIT, _OTHER = {4: "1.1.1.1", 6: "8000::2"}, {4: "1.1.1.2", 6: "8000::3"}
DROPPED = "packets that the rules fit, and that arrived"


def _with_rules(tables: Tables) -> Tables:
    found = trims(tables)
    rules = {
        (_TABLE, "TRIM_RULE"): AclRuleRow(999, {"SRC_IP": "1.1.1.1/32"}),
        (_TABLE, "TRIM_RULE_ipv6"): AclRuleRow(999, {"SRC_IPV6": "8000::2/128"}),
    }
    ports = tuple(port for port, row in tables.ports.items() if row.admin_up)
    return replace(
        found,
        acl_types={_TYPE: (("SRC_IP", "SRC_IPV6"), (ACTION,))},
        acl_tables={_TABLE: AclTableRow(_TYPE, "ingress", ports, "Packet trimming")},
        acl_rules=rules,
    )


def _without_rules(tables: Tables) -> Tables:
    return replace(tables, acl_rules={})


@case(ports=3, tables=_with_rules, timeout="240s",
      control=Control("no ACL rules", _without_rules, fails=[DROPPED]))  # fmt: skip
def pt07_acl(bench: Bench) -> None:
    """Packets that a rule with DISABLE_TRIM fits are dropped and counted, others are trimmed; without it all are."""
    with trimmed(bench) as on:
        priority = on.lossy[0]
        on.congest("h3", priority)
        dropped = on.fabric.dropped()
        found = {}
        for name, sources in (("fit", _FIT), ("other", _OTHER)):
            for version, source in sources.items():
                on.send(on.frame("h3", priority, kind=f"IPv{version} UDP", source=source))
            found[name] = sum(one.octets == SIZE for one in on.arrived("h3"))
        dropped = on.fabric.dropped() - dropped
        counters = [line.split() for line in trimming().acl_counters().splitlines()[2:]]
        on.patch(*({"op": "remove", "path": f"/ACL_RULE/{_TABLE}|{one}"} for one in ("TRIM_RULE", "TRIM_RULE_ipv6"))
                 if not bench.is_control else ())  # fmt: skip
        for version, source in _FIT.items():
            on.send(on.frame("h3", priority, kind=f"IPv{version} UDP", source=source))
        after = sum(one.octets == SIZE for one in on.arrived("h3"))
        on.relieve("h3", priority)
    bench.claim(DROPPED, found["fit"], equals=0)
    bench.claim("other packets, that arrived trimmed", found["other"], equals=2 * FRAMES)
    bench.claim("packets dropped", dropped, equals=2 * FRAMES)
    bench.claim("packets that aclshow counts", [int(row[3]) for row in counters], equals=[FRAMES, FRAMES])
    bench.claim("trimmed after the rules have gone", after, equals=2 * FRAMES)
