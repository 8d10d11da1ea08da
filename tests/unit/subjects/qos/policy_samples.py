"""Random QoS policies, a fabric, and mutated files, for the tests and `bench/policy.py`."""

from __future__ import annotations

import random
from pathlib import Path

from testbed.subjects.qos.fabric import GBIT, Fabric, Partition, PortCapabilities, PortKey
from testbed.subjects.qos.model import (
    MatchRule,
    NodeType,
    PartitionDefault,
    Policy,
    PortGroup,
    QosLevel,
    Sl2VlScope,
    Ulp,
    UlpKey,
    UlpRule,
    VlArbScope,
    VlWeight,
)
from testbed.subjects.qos.numbers import Ranges

ROOT = Path(__file__).parents[4]
RFC_SAMPLE = ROOT / "tests" / "unit" / "data" / "qos_rfc_sample.xml"
EXAMPLE = ROOT / "docs" / "examples" / "qos-policy.xml"
EXAMPLE_FABRIC = ROOT / "docs" / "examples" / "qos-fabric.toml"

BLOCK_SAMPLE = b"""\
# every section and entry of OpenSM's syntax
port-groups
    port-group
        name: Storage
        use: "SRP targets # not a comment"
        port-guid: 0x10000000000001, 0x10000000000005-0x1000000000FFFA
        port-guid: 0x1000000000FFFF
    end-port-group
    port-group
        name: Servers
        port-name: vs1 HCA-1/P1, vs2/HCA-1/p2
        partition: Part1
        pkey: 0x1234-0x1240
        node-type: ca, SELF, Router
    end-port-group
end-port-groups
qos-setup
    sl2vl-tables
        sl2vl-scope
            group: Storage, Servers
            from: *
            to: 1, 3-5
            sl2vl-table: 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7
        end-sl2vl-scope
        sl2vl-scope
            across: Storage
            across-to: Servers
            across-from: Storage
            sl2vl-table: 0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,15
        end-sl2vl-scope
    end-sl2vl-tables
    vlarb-tables
        vlarb-scope
            group: Storage
            to: *
            vlarb-high: 0:255,1:127,2:63,3:31
            vlarb-low: 8:255,9:127
            vl-high-limit: 10
        end-vlarb-scope
        vlarb-scope
            across: Servers
            vl-high-limit: 0
        end-vlarb-scope
    end-vlarb-tables
end-qos-setup
qos-levels
    qos-level
        name: DEFAULT
        use: default
        sl: 0
    end-qos-level
    qos-level
        name: WholeSet
        sl: 1
        mtu-limit: 4
        rate-limit: 5
        pkey: 0x1234
        packet-life: 8
        path-bits: 3
    end-qos-level
end-qos-levels
qos-match-rules
    qos-match-rule
        use: by class
        qos-class: 7-9,11
        qos-level-name: wholeset
    end-qos-match-rule
    qos-match-rule
        source: Servers
        destination: Storage
        service-id: 0x10000000000001, 0x10000000000008-0x10000000000FFF
        pkey: 0x0F00-0x0FFF
        qos-level-name: WholeSet
    end-qos-match-rule
end-qos-match-rules
qos-ulps
    default : 0 # SL
    sdp, port-num 30000 : 1
    sdp, port-num 10000-20000 : 2
    SDP : 3
    rds, port-num 25000 : 2
    rds : 2
    iser, port-num 900 : 5
    iser : 4
    srp, target-port-guid 0x1234 : 5
    ipoib, pkey 0x0001 : 5
    ipoib : 6
    any, service-id 0x6234 : 2
    any, pkey 0x0ABC : 3
    any, target-port-guid 0x0ABC-0xFFFFF : 6
    any, source-port-guid 0x1234 : 7
    any, source-target-port-guid 0x5678 : 8
end-qos-ulps
"""


def random_ranges(rng: random.Random, most: int, span: int = 8) -> Ranges:
    pairs = []
    for _ in range(rng.randrange(1, 4)):
        low = rng.randrange(most + 1)
        pairs.append((low, min(most, low + rng.randrange(span))))
    return Ranges.of(pairs)


def random_policy(rng: random.Random, *, rules: int = 12, syntax_block: bool = False) -> Policy:
    """Return a policy with some of everything; with `syntax_block` only parts that OpenSM's text can express."""
    groups = []
    for number in range(rng.randrange(1, 6)):
        groups.append(
            PortGroup(
                f"group {number}",
                rng.choice(("", "some <ports> & more")),
                random_ranges(rng, 20, 5) if rng.random() < 0.6 else Ranges(),
                ("h1 HCA-1/P1",) if rng.random() < 0.3 else (),
                ("Part1",) if rng.random() < 0.3 else (),
                Ranges(((0x7FFF, 0x7FFF),)) if rng.random() < 0.1 else Ranges(),
                (rng.choice(list(NodeType)),) if rng.random() < 0.3 else (),
            )
        )
    names = [group.name for group in groups]

    def names_of(odds: float) -> tuple[str, ...]:
        return tuple(rng.sample(names, rng.randrange(1, len(names) + 1))) if rng.random() < odds else ()

    levels = []
    for number in range(rng.randrange(1, 6)):
        levels.append(
            QosLevel(
                str(number) if not syntax_block else f"level {number}",
                rng.randrange(16),
                rng.choice(("", "a level")),
                rng.randrange(256) if rng.random() < 0.4 and not syntax_block else None,
                rng.choice((256, 1024, 4096)) if rng.random() < 0.4 else None,
                rng.choice((2_500_000_000, 10 * GBIT, 25 * GBIT)) if rng.random() < 0.4 else None,
                rng.randrange(4) if rng.random() < 0.2 else None,
                rng.randrange(64) if rng.random() < 0.3 else None,
                Ranges(((0x7FFF, 0x7FFF),)) if rng.random() < 0.2 else Ranges(),
            )
        )
    made = []
    for number in range(rules):
        made.append(
            MatchRule(
                rng.choice(levels).name,
                None if syntax_block else number,
                "",
                names_of(0.4),
                names_of(0.4),
                random_ranges(rng, 30) if rng.random() < 0.5 else Ranges(),
                random_ranges(rng, 10, 3) if rng.random() < 0.3 and not syntax_block else Ranges(),
                random_ranges(rng, 10, 3) if rng.random() < 0.3 else Ranges(),
                Ranges(((1, 1),)) if rng.random() < 0.2 else Ranges(),
            )
        )
    ulps = tuple(random_ulp(rng) for _ in range(rng.randrange(4)))
    table = tuple(rng.randrange(16) for _ in range(16))
    scope = Sl2VlScope(table, names_of(1), names_of(0.3), names_of(0.3), None, random_ranges(rng, 4, 2))
    weights = tuple(VlWeight(rng.randrange(15), rng.randrange(256)) for _ in range(rng.randrange(1, 5)))
    arb = VlArbScope(names_of(1), names_of(0.3), None, weights, None, rng.choice((None, 0, 255)))
    defaults = () if syntax_block or rng.random() < 0.5 else (PartitionDefault("Part1", levels[0].name),)
    default = None
    if syntax_block:
        levels.append(QosLevel("DEFAULT", rng.randrange(16)))
        default = "DEFAULT"
    elif rng.random() < 0.5:
        default = levels[-1].name
    return Policy(tuple(groups), (scope,), (arb,), tuple(levels), tuple(made), ulps, default, defaults)


def random_ulp(rng: random.Random) -> UlpRule:
    kind = rng.randrange(6)
    sl = rng.randrange(16)
    if kind == 0:
        return UlpRule(rng.choice((Ulp.SDP, Ulp.RDS, Ulp.ISER)), sl)
    if kind == 1:
        return UlpRule(rng.choice((Ulp.SDP, Ulp.RDS, Ulp.ISER)), sl, UlpKey.PORT_NUM, random_ranges(rng, 60_000))
    if kind == 2:
        return UlpRule(Ulp.ANY, sl, UlpKey.SERVICE_ID, random_ranges(rng, 30))
    if kind == 3:
        return UlpRule(Ulp.ANY, sl, UlpKey.SOURCE_PORT_GUID, random_ranges(rng, 20))
    if kind == 4:
        return UlpRule(Ulp.SRP, sl, UlpKey.TARGET_PORT_GUID, random_ranges(rng, 20))
    return UlpRule(Ulp.IPOIB, sl)


def small_fabric(*, lmc: int = 0) -> Fabric:
    """Return a fabric: h1 and h2 at s1, h3 and the router r1 at s2, one cable between the switches."""
    fabric = Fabric()
    for number in (1, 2):
        fabric.add(
            f"s{number}", NodeType.SWITCH, 0x100 * number, [PortCapabilities(n, 40 * GBIT, 4096) for n in range(1, 5)]
        )
    for number, name in enumerate(("h1", "h2", "h3", "r1")):
        kind = NodeType.ROUTER if name == "r1" else NodeType.CA
        ports = [PortCapabilities(1, 40 * GBIT if name != "h2" else 10 * GBIT, 4096 if name != "h3" else 2048)]
        description = f"{name} HCA-1 and so on"
        fabric.add(name, kind, number, ports, description=description, lmc=lmc)
    for name, switch, number in (("h1", "s1", 1), ("h2", "s1", 2), ("h3", "s2", 1), ("r1", "s2", 2)):
        fabric.connect(PortKey(name, 1), PortKey(switch, number))
    fabric.connect(PortKey("s1", 4), PortKey("s2", 4))
    fabric.partition(
        Partition("Part1", 1, frozenset({PortKey("h1", 1)}), frozenset({PortKey("h2", 1), PortKey("h3", 1)}))
    )
    fabric.manager = "h1"
    fabric.route()
    return fabric


# Mutated files

_TOKENS = (
    b"<", b">", b"</", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"&b;", b"&#x0;",
    b"<sl>", b"</sl>", b"<qos-level>", b"</qos-levels>", b'"', b"#", b":", b"-", b",", b"0x", b"\x00", b"\xff",
    b"\xe2\x80\x94", b"99999999999999999999", b"-1", b"*", b"end-qos-levels", b"qos-level", b"\n", b"name:", b"sl: 16",
    b"7-3", b"<?xml version='1.0' encoding='utf-16'?>", b"<a b='c'/>", b"\xef\xbb\xbf", b"default : 3",
)  # fmt: skip


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Return a damaged file: octets changed, parts cut out, repeated, moved, or something put in between."""
    data = bytearray(content)
    for _ in range(rng.randrange(1, 6)):
        place = rng.randrange(len(data) + 1)
        length = rng.choice((1, 2, 8, 64, 400))
        what = rng.randrange(6)
        if what == 0 and place < len(data):
            data[place] = rng.randrange(256)
        elif what == 1:
            del data[place : place + length]
        elif what == 2:
            data[place:place] = rng.choice(_TOKENS)
        elif what == 3:
            data[place:place] = data[place : place + length]
        elif what == 4:
            piece = data[place : place + length]
            del data[place : place + length]
            where = rng.randrange(len(data) + 1)
            data[where:where] = piece
        else:
            lines = data.split(b"\n")
            rng.shuffle(lines) if rng.random() < 0.05 else lines.pop(rng.randrange(len(lines)))
            data = bytearray(b"\n".join(lines))
    return bytes(data)
