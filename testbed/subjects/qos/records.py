"""Path record queries under a policy: the level of a request, and the path that meets it (QoS RFC section 9, 3.2).

Requests and answers are in bytes, bits per second and port numbers; `testbed.subjects.qos.subnet_administration` has
the records of the wire. What the RFC leaves open is as in OpenSM: selectors of MTU, rate and packet life, and "not
found" for a request whose SL or P_Key is not the level's (decision 0123).

Paths through a fabric: the ways that the forwarding tables give, with MTU, rate and SLs.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from testbed.subjects.qos.fabric import DEFAULT_PKEY, EndPort, Fabric, Partition, PortKey
from testbed.subjects.qos.groups import members, partition_ports
from testbed.subjects.qos.matching import Fields, Rules, expanded
from testbed.subjects.qos.model import DEFAULT_NAME, DROP_VL, SLS, Policy, QosLevel, same
from testbed.subjects.qos.numbers import mtu_below, rate_below
from testbed.subjects.qos.plan import plan
from testbed.subjects.qos.setup import Crossing, Tables

MOST_HOPS = 64
_ALL_SLS = 0xFFFF
_MTU_OF_PORT_0 = 4096
_KEPT = 200_000
"""The most paths that are remembered. All are dropped when there are more."""


class Path(NamedTuple):
    """A path from an end port to a LID."""

    mtu: int  # bytes
    rate: int  # bit/s
    sls: int  # a bit for each SL that is mapped to VL15 nowhere on the way
    hops: int  # switches


class _Cable(NamedTuple):
    """The other end of a port's cable, and the abilities of both together."""

    node: str
    number: int
    mtu: int
    rate: int
    ends: bool  # not at a switch


@dataclass(frozen=True)
class NoPath:
    """The reason why there is no path."""

    reason: str


class Paths:
    """All paths of one fabric with one set of tables. It is made anew when either changes."""

    def __init__(self, fabric: Fabric, tables: Tables) -> None:
        self._fabric, self._tables = fabric, tables
        self._cables: dict[str, dict[int, _Cable]] = {name: {} for name in fabric.nodes}
        for (name, number), (far, far_number) in fabric.links.items():
            out, into = fabric.nodes[name].ports[number], fabric.nodes[far].ports[far_number]
            ends = not fabric.nodes[far].is_switch
            cable = _Cable(far, far_number, min(out.mtu, into.mtu), min(out.rate, into.rate), ends)
            self._cables[name][number] = cable
        self._known: dict[tuple[int, int], Path | NoPath] = {}
        self._sls: dict[Crossing, int] = {}
        for crossing, table in tables.sl2vl.items():
            if DROP_VL in table:
                self._sls[crossing] = sum(1 << sl for sl in SLS if table[sl] != DROP_VL)

    def path(self, source: EndPort, lid: int) -> Path | NoPath:
        key = source.index, lid
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            known = self._known[key] = self._walk(source, lid)
        return known

    def dropping(self, source: EndPort, lid: int, sl: int) -> str:
        """Return the place where packets of an SL are mapped to VL15, for a message."""
        for crossing in self._crossings(source, lid):
            if not self._sls.get(crossing, _ALL_SLS) >> sl & 1:
                inwards = f"from port {crossing.input} to " if crossing.input else ""
                return f"{crossing.node}, {inwards}port {crossing.output}"
        return "nowhere"

    def _walk(self, source: EndPort, lid: int) -> Path | NoPath:
        fabric, sls_at = self._fabric, self._sls
        destination = fabric.by_lid.get(lid)
        if destination is None:
            return NoPath(f"there is no port with LID {lid}")
        mtu, rate, sls, hops = 1 << 30, 1 << 62, _ALL_SLS, 0
        if source.key == destination.key:
            port = fabric.port(source.key)
            return Path(port.mtu, port.rate, sls, 0) if port else Path(_MTU_OF_PORT_0, rate, sls, 0)
        here, input_port, output = source.key.node, 0, source.key.number
        while True:
            if (forwarding := fabric.forwarding.get(here)) is not None:
                leads_to = forwarding.get(lid)
                if leads_to is None:
                    return NoPath(f"switch {here} has no forwarding entry for LID {lid}")
                if leads_to == 0:
                    arrived = here == destination.key.node
                    return Path(mtu, rate, sls, hops) if arrived else NoPath(f"LID {lid} ends in switch {here}")
                output = leads_to
                hops += 1 if input_port else 0
                if hops > MOST_HOPS:
                    return NoPath(f"the forwarding tables lead LID {lid} in a circle")
            if sls_at:
                sls &= sls_at.get(Crossing(here, input_port, output), _ALL_SLS)
            cable = self._cables[here].get(output)
            if cable is None:
                return NoPath(f"port {output} of {here} has no cable")
            here, input_port, cable_mtu, cable_rate, ends = cable
            mtu, rate = cable_mtu if cable_mtu < mtu else mtu, cable_rate if cable_rate < rate else rate
            if ends:
                if (here, input_port) == destination.key:
                    return Path(mtu, rate, sls, hops)
                return NoPath(f"LID {lid} ends in {here}")

    def _crossings(self, source: EndPort, lid: int) -> list[Crossing]:
        """Return the way of a path that exists."""
        crossings: list[Crossing] = []
        here, input_port, output = source.key.node, 0, source.key.number
        while len(crossings) <= MOST_HOPS:
            node = self._fabric.nodes[here]
            if node.is_switch:
                output = self._fabric.forwarding[here][lid]
            elif input_port:
                break
            far = self._fabric.links.get(PortKey(here, output)) if output else None
            if far is None:
                break
            crossings.append(Crossing(here, input_port, output))
            here, input_port = far
        return crossings


_PKEY_VALUE, _FULL_MEMBER = 0x7FFF, 0x8000
DEFAULT_PACKET_LIFE = 18
"""The packet life of a level that has none: the code of OpenSM's subnet timeout, about a second."""


class Selector(enum.IntEnum):
    """The meaning of a value in a request. The numbers are those of the record."""

    GREATER = 0
    LESS = 1
    EXACTLY = 2
    BEST = 3


class Wanted(NamedTuple):
    """An MTU in bytes, a rate in bit/s or a packet life as a code, with its selector."""

    value: int
    selector: Selector = Selector.EXACTLY


class PathRecordRequest(NamedTuple):
    """A PathRecord request for one pair of ports; None is a field whose component mask bit is off."""

    sgid: int | None = None
    dgid: int | None = None
    slid: int | None = None
    dlid: int | None = None
    service_id: int | None = None
    tclass: int | None = None
    qos_class: int | None = None
    pkey: int | None = None
    sl: int | None = None
    mtu: Wanted | None = None
    rate: Wanted | None = None
    packet_life: Wanted | None = None


class PathReason(enum.StrEnum):
    """A reason why no path is found."""

    UNKNOWN_PORT = "unknown-port"
    NO_PATH = "no-path"
    SL = "sl"  # the request's SL is not the level's
    SL_DROPPED = "sl-dropped"  # VL15 on the way
    PKEY = "pkey"
    PATH_BITS = "path-bits"
    MTU = "mtu"
    RATE = "rate"
    PACKET_LIFE = "packet-life"


class NotFound(NamedTuple):
    """The answer that there is no path, with the reason."""

    reason: PathReason
    message: str


class Found(NamedTuple):
    """The answer with a path and its parameters."""

    source: EndPort
    destination: EndPort
    slid: int
    dlid: int
    sl: int
    mtu: int  # bytes
    rate: int  # bit/s
    tclass: int
    pkey: int
    packet_life: int
    level: QosLevel
    rule: int | None  # the number of the rule in the file, from 0; those of the short form come after; None: a default
    hops: int


class PathRecords:
    """Answers queries for one policy and one fabric. `tables` are those of the policy's plan, if there is one."""

    def __init__(self, policy: Policy, fabric: Fabric, tables: Tables | None = None) -> None:
        self.tables = plan(policy, fabric).tables if tables is None else tables
        policy = expanded(policy)
        self.policy, self.fabric = policy, fabric
        self._paths = Paths(fabric, self.tables)
        self.groups = {
            same(group.name): frozenset(
                fabric.by_key[key].index for key in members(group, fabric) if key in fabric.by_key
            )
            for group in policy.port_groups
        }
        self._rules = Rules(policy.rules, self.groups, len(fabric.end_ports))
        levels = {same(level.name): level for level in policy.levels}
        self._levels = [levels[same(rule.level)] for rule in policy.rules]
        default = policy.default_level
        self._default = levels[same(default)] if default is not None else QosLevel(DEFAULT_NAME, 0)
        partitions = fabric.all_partitions
        named = {same(default.partition): levels[same(default.level)] for default in policy.partition_defaults}
        self._default_of = {p.pkey: named[same(p.name)] for p in partitions if same(p.name) in named}
        self._partitions = {p.pkey: _Membership(p, fabric) for p in sorted(partitions, key=_preference)}
        self._gids = {port.gid: port for port in fabric.end_ports}

    def level(self, fields: Fields) -> tuple[QosLevel, int | None]:
        """Return the level of the first rule that matches, or the default of the partition, or the default (decision
        0123).
        """
        rule = self._rules.first(fields)
        if rule is not None:
            return self._levels[rule], rule
        if fields.pkey is not None and fields.pkey in self._default_of:
            return self._default_of[fields.pkey], None
        return self._default, None

    def query(self, request: PathRecordRequest) -> Found | NotFound:
        """Return one path, or the reason why there is none."""
        source = self._port(request.sgid, request.slid)
        destination = self._port(request.dgid, request.dlid)
        if source is None or destination is None:
            return self._unknown(request, source is None)
        pkey = request.pkey
        fields = Fields(
            source.index, destination.index, request.service_id, request.tclass, request.qos_class,
            None if pkey is None else pkey & _PKEY_VALUE,
        )  # fmt: skip
        level, rule = self.level(fields)
        if request.sl is not None and request.sl != level.sl:
            return NotFound(PathReason.SL, f"SL {request.sl} is asked for, and level {level.name} has SL {level.sl}")
        bits = level.path_bits
        dlid = destination.lid + (bits & (1 << destination.lmc) - 1 if bits else 0)
        if request.dlid is not None and request.dlid != dlid:
            if bits is not None:
                text = f"LID {request.dlid} is asked for, and path bits {bits} of level {level.name} give LID {dlid}"
                return NotFound(PathReason.PATH_BITS, text)
            dlid = request.dlid
        path = self._paths.path(source, dlid)
        if isinstance(path, NoPath):
            return NotFound(PathReason.NO_PATH, path.reason)
        if not path.sls >> level.sl & 1:
            where = self._paths.dropping(source, dlid, level.sl)
            return NotFound(PathReason.SL_DROPPED, f"SL {level.sl} of level {level.name} is mapped to VL 15 at {where}")
        chosen = self._pkey(source, destination, pkey, level)
        if isinstance(chosen, NotFound):
            return chosen
        limited = self._limits(request, level, path, source is destination)
        if isinstance(limited, NotFound):
            return limited
        mtu, rate, life = limited
        tclass = level.tclass if level.tclass is not None else request.tclass or 0
        slid = source.lid if request.slid is None else request.slid
        return Found(source, destination, slid, dlid, level.sl, mtu, rate, tclass, chosen, life, level, rule, path.hops)

    # Parts of a query

    def _port(self, gid: int | None, lid: int | None) -> EndPort | None:
        if gid is None:
            return None if lid is None else self.fabric.by_lid.get(lid)
        port = self._gids.get(gid)
        if lid is not None and self.fabric.by_lid.get(lid) is not port:
            return None
        return port

    def _unknown(self, request: PathRecordRequest, is_source: bool) -> NotFound:
        gid, lid = (request.sgid, request.slid) if is_source else (request.dgid, request.dlid)
        given = [f"GID 0x{gid:032x}"] if gid is not None else []
        given += [f"LID {lid}"] if lid is not None else []
        what = "source" if is_source else "destination"
        return NotFound(
            PathReason.UNKNOWN_PORT,
            f"no port has {' and '.join(given)}, the {what}" if given else f"the request has no {what}, GID or LID",
        )

    def _pkey(self, source: EndPort, destination: EndPort, asked: int | None, level: QosLevel) -> int | NotFound:
        """Return the partition's P_Key: the one asked for, or one that both ports share and the level allows."""
        if asked is not None:
            value = asked & _PKEY_VALUE
            partition = self._partitions.get(value)
            if partition is None or not partition.shared(source.index, destination.index):
                return NotFound(PathReason.PKEY, f"the ports do not share P_Key 0x{asked:04x}")
            if level.pkeys and value not in level.pkeys:
                return NotFound(PathReason.PKEY, f"level {level.name} is not for P_Key 0x{asked:04x}")
            return asked
        for value, partition in self._partitions.items():
            if (not level.pkeys or value in level.pkeys) and partition.shared(source.index, destination.index):
                return value | (_FULL_MEMBER if partition.is_full(source.index) else 0)
        return NotFound(PathReason.PKEY, f"the ports share no partition that level {level.name} allows")

    def _limits(
        self, request: PathRecordRequest, level: QosLevel, path: Path, is_loopback: bool
    ) -> tuple[int, int, int] | NotFound:
        mtu, rate = path.mtu, path.rate
        if level.mtu_limit is not None and level.mtu_limit < mtu:
            mtu = level.mtu_limit
        if level.rate_limit is not None and level.rate_limit < rate:
            rate = level.rate_limit
        life = 0 if is_loopback else DEFAULT_PACKET_LIFE if level.packet_life is None else level.packet_life
        if request.mtu is not None:
            chosen = _select(mtu, request.mtu, mtu_below, may_shrink=True)
            if chosen is None:
                return NotFound(PathReason.MTU, f"the path's MTU under level {level.name} is {mtu} bytes")
            mtu = chosen
        if request.rate is not None:
            chosen = _select(rate, request.rate, rate_below, may_shrink=False)
            if chosen is None:
                return NotFound(PathReason.RATE, f"the path's rate under level {level.name} is {rate} bit/s")
            rate = chosen
        if request.packet_life is not None:
            chosen = _select(life, request.packet_life, _life_below, may_shrink=True)
            if chosen is None:
                return NotFound(PathReason.PACKET_LIFE, f"the packet life under level {level.name} is {life}")
            life = chosen
        return mtu, rate, life


def _select(value: int, wanted: Wanted, below: Callable[[int], int | None], may_shrink: bool) -> int | None:
    """Return the value that satisfies the request. With `may_shrink`, a path that can do more can do exactly
    this too.
    """
    if wanted.selector is Selector.GREATER:
        return value if value > wanted.value else None
    if wanted.selector is Selector.LESS:
        return value if value < wanted.value else below(wanted.value)
    if wanted.selector is Selector.EXACTLY:
        return wanted.value if value == wanted.value or (may_shrink and value > wanted.value) else None
    return value


def _life_below(code: int) -> int | None:
    return code - 1 if code > 1 else None


def _preference(partition: Partition) -> tuple[bool, int]:
    """Return the key by which partitions are sorted: the default partition comes first."""
    return partition.pkey != DEFAULT_PKEY, partition.pkey


class _Membership:
    """The members of a partition, as integers with a bit for each end port."""

    def __init__(self, partition: Partition, fabric: Fabric) -> None:
        ports = partition_ports(partition, fabric)
        self._members = sum(1 << port.index for port in ports)
        is_full = partition.full is None
        self._full = sum(1 << p.index for p in ports if is_full or p.key in (partition.full or ()))

    def is_full(self, port: int) -> bool:
        return bool(self._full >> port & 1)

    def shared(self, one: int, other: int) -> bool:
        """Return True if both ports are members. Two limited members cannot communicate."""
        both = self._members >> one & self._members >> other & 1
        return bool(both and (self._full >> one | self._full >> other) & 1)
