"""OpenFlow's messages for the orders of `leaf`, in version 1.3 or 1.5, of the library's parser.

How a switch chooses among the ways of a group is its own matter in OpenFlow 1.3. In 1.5 a group has properties, and
Open vSwitch knows one (Netronome's experimenter property) that names the method, its seed and the fields that it
hashes. Without it Open vSwitch takes the kernel's hash of a frame, which has a key drawn at boot and no other seed.
The libraries' classes for these properties do not serialise, so their octets are made here.
"""

from __future__ import annotations

import struct
from typing import Any

from controllers.orders import TO_CONTROLLER, ForgetSources, Group, Order, Remove, Replace, Rule, Send

COOKIE, LEARNED = 0x786F6666, 0x786F6667
"""The cookies of the controller's flow entries, so that it removes no others."""
_ALL_BITS = (1 << 64) - 1
_EXPERIMENTER = 0xFFFF
_NETRONOME, _SELECTION_METHOD = 0x154D, 1
_BUCKET_WEIGHT, _BUCKET_WATCH_PORT = 0, 1
_OXM_BASIC = 0x8000
HASHED = {10: 1, 11: 4, 12: 4, 13: 2, 14: 2, 15: 2, 16: 2, 26: 16, 27: 16}
"""The fields that are hashed, by their OXM numbers, and their octets: protocol, addresses and ports of IPv4 and IPv6.
Open vSwitch leaves out those that a frame does not have."""


class _Octets:
    """A property as the library's messages take it."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets

    def serialize(self) -> bytes:
        return self._octets


def messages(datapath: Any, order: Order) -> list[Any]:
    """Return the messages that carry out an order."""
    ofproto = datapath.ofproto
    match order:
        case Rule():
            return [_rule(datapath, order)]
        case Group():  # one that a controller before this one has made is replaced
            return [_group(datapath, order, ofproto.OFPGC_ADD), _group(datapath, order, ofproto.OFPGC_MODIFY)]
        case Replace(group):
            return [_group(datapath, group, ofproto.OFPGC_MODIFY)]
        case Remove(Group() as group):
            return [datapath.ofproto_parser.OFPGroupMod(datapath, ofproto.OFPGC_DELETE, group_id=group.number)]
        case Remove(Rule() as rule):
            return [_removal(datapath, command=ofproto.OFPFC_DELETE_STRICT, table_id=rule.table,
                             priority=rule.priority, match=_match(datapath, rule))]  # fmt: skip
        case ForgetSources():
            return [_removal(datapath, command=ofproto.OFPFC_DELETE, table_id=ofproto.OFPTT_ALL, cookie=LEARNED,
                             cookie_mask=_ALL_BITS)]  # fmt: skip
        case _:
            assert isinstance(order, Send)
            return [_frame(datapath, order)]


def selection_method(seed: int) -> bytes:
    """Return the property of a group by which Open vSwitch hashes `HASHED` with a seed."""
    fields = b"".join(
        struct.pack("!HBB", _OXM_BASIC, number << 1, octets) + b"\xff" * octets for number, octets in HASHED.items()
    )
    body = struct.pack("!III16sQ", _NETRONOME, _SELECTION_METHOD, 0, b"hash", seed) + fields
    length = 4 + len(body)
    return struct.pack("!HH", _EXPERIMENTER, length) + body + bytes(-length % 8)


def _rule(datapath: Any, rule: Rule) -> Any:
    parser, ofproto = datapath.ofproto_parser, datapath.ofproto
    actions = [] if rule.queue is None else [parser.OFPActionSetQueue(rule.queue)]
    actions += [_output(datapath, output) for output in rule.outputs]
    actions += [] if rule.group is None else [parser.OFPActionGroup(rule.group)]
    instructions = [parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, actions)] if actions else []
    if rule.goto is not None:
        instructions.append(parser.OFPInstructionGotoTable(rule.goto))
    return parser.OFPFlowMod(
        datapath, cookie=LEARNED if rule.is_learned else COOKIE, table_id=rule.table, priority=rule.priority,
        match=_match(datapath, rule), instructions=instructions,
    )  # fmt: skip


def _removal(datapath: Any, **named: Any) -> Any:
    ofproto = datapath.ofproto
    return datapath.ofproto_parser.OFPFlowMod(
        datapath, out_port=ofproto.OFPP_ANY, out_group=ofproto.OFPG_ANY, **named
    )  # fmt: skip


def _group(datapath: Any, group: Group, command: int) -> Any:
    parser, ofproto = datapath.ofproto_parser, datapath.ofproto
    chooses = len(group.ports) > 1
    kind = ofproto.OFPGT_SELECT if chooses else ofproto.OFPGT_INDIRECT
    if hasattr(parser, "OFPGroupPropExperimenter"):
        buckets = [
            parser.OFPBucket(
                bucket_id=port, actions=[_output(datapath, port)], properties=_watch(port) if chooses else []
            )
            for port in group.ports
        ]
        properties = [_Octets(selection_method(group.seed))] if chooses else []
        return parser.OFPGroupMod(datapath, command, kind, group.number, buckets=buckets, properties=properties)
    buckets = [
        parser.OFPBucket(
            int(chooses), port if chooses else ofproto.OFPP_ANY, ofproto.OFPG_ANY, [_output(datapath, port)]
        )
        for port in group.ports
    ]
    return parser.OFPGroupMod(datapath, command, kind, group.number, buckets)


def _watch(port: int) -> list[_Octets]:
    """Return the properties of a bucket that counts as one way while a port has a carrier."""
    weight = struct.pack("!HHHH", _BUCKET_WEIGHT, 8, 1, 0)
    return [_Octets(weight), _Octets(struct.pack("!HHI", _BUCKET_WATCH_PORT, 8, port))]


def _frame(datapath: Any, order: Send) -> Any:
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    came = ofproto.OFPP_CONTROLLER
    where = (
        {"match": parser.OFPMatch(in_port=came)} if hasattr(parser, "OFPGroupPropExperimenter") else {"in_port": came}
    )
    return parser.OFPPacketOut(
        datapath=datapath, buffer_id=ofproto.OFP_NO_BUFFER, actions=[_output(datapath, order.output)],
        data=order.frame, **where,
    )  # fmt: skip


def _output(datapath: Any, output: int) -> Any:
    ofproto = datapath.ofproto
    port = ofproto.OFPP_CONTROLLER if output == TO_CONTROLLER else output
    return datapath.ofproto_parser.OFPActionOutput(port, ofproto.OFPCML_NO_BUFFER)


def _match(datapath: Any, rule: Rule) -> Any:
    return datapath.ofproto_parser.OFPMatch(**dict(rule.match))
