"""OpenFlow's messages for orders, in both versions, as the library writes and reads them."""

from __future__ import annotations

import struct
from importlib import import_module
from typing import Any

import pytest

from controllers.openflow import COOKIE, HASHED, LEARNED, messages, selection_method
from controllers.orders import SOURCES, TO_CONTROLLER, WAYS, ForgetSources, Group, Remove, Replace, Rule, Send

os_ken = pytest.importorskip("os_ken")
GROUP = Group(77, (3, 5), 0x1_0000_0002)


class Datapath:
    """What the library's messages need of a switch."""

    id = 1

    def __init__(self, minor: int) -> None:
        self.ofproto = import_module(f"os_ken.ofproto.ofproto_v1_{minor}")
        self.ofproto_parser = import_module(f"os_ken.ofproto.ofproto_v1_{minor}_parser")
        self.xid = 0

    def set_xid(self, message: Any) -> None:
        message.set_xid(self.xid)


@pytest.fixture(params=[3, 5])
def datapath(request: pytest.FixtureRequest) -> Datapath:
    return Datapath(request.param)


def written(datapath: Datapath, order: Any) -> list[Any]:
    found = messages(datapath, order)
    for message in found:
        message.set_xid(1)
        message.serialize()
    return found


def test_a_rule_has_queue_ports_group_and_next_table(datapath: Datapath) -> None:
    rule = Rule(SOURCES, 7, (("in_port", 1),), queue=3, outputs=(TO_CONTROLLER, 2), group=77, goto=WAYS)
    (message,) = written(datapath, rule)
    actions, goto = message.instructions
    assert (message.table_id, message.priority, message.cookie, goto.table_id) == (SOURCES, 7, COOKIE, WAYS)
    kinds = [type(action).__name__ for action in actions.actions]
    assert kinds == ["OFPActionSetQueue", "OFPActionOutput", "OFPActionOutput", "OFPActionGroup"]
    assert actions.actions[1].port == datapath.ofproto.OFPP_CONTROLLER
    (learned,) = written(datapath, Rule(SOURCES, 1, is_learned=True))
    assert learned.cookie == LEARNED and learned.instructions == []


def test_removals_name_what_is_removed(datapath: Datapath) -> None:
    ofproto = datapath.ofproto
    (rule,) = written(datapath, Remove(Rule(WAYS, 10, (("eth_dst", "02:00:00:00:00:01"),))))
    assert (rule.command, rule.priority, rule.table_id) == (ofproto.OFPFC_DELETE_STRICT, 10, WAYS)
    (group,) = written(datapath, Remove(GROUP))
    assert (group.command, group.group_id) == (ofproto.OFPGC_DELETE, 77)
    (sources,) = written(datapath, ForgetSources())
    assert (sources.command, sources.cookie, sources.table_id) == (ofproto.OFPFC_DELETE, LEARNED, ofproto.OFPTT_ALL)


def test_a_group_of_several_ports_watches_each_and_one_of_a_single_port_has_no_choice(datapath: Datapath) -> None:
    ofproto = datapath.ofproto
    added, modified = written(datapath, GROUP)
    assert (added.command, modified.command) == (ofproto.OFPGC_ADD, ofproto.OFPGC_MODIFY)
    (replaced,) = written(datapath, Replace(Group(77, (3,), 1)))
    assert (replaced.command, replaced.type, len(replaced.buckets)) == (ofproto.OFPGC_MODIFY, ofproto.OFPGT_INDIRECT, 1)
    assert added.type == ofproto.OFPGT_SELECT
    octets = bytes(added.buf)
    if ofproto.OFP_VERSION == 4:
        assert [(bucket.weight, bucket.watch_port) for bucket in added.buckets] == [(1, 3), (1, 5)]
        return
    for port, start in ((3, 24), (5, 64)):  # a bucket is 40 octets: its head, one action, and two properties
        length, actions, identity = struct.unpack_from("!HHI", octets, start)
        assert (length, actions, identity) == (40, 16, port)
        assert struct.unpack_from("!HHHHHHI", octets, start + 24) == (0, 8, 1, 0, 1, 8, port)
    assert octets[104:] == selection_method(GROUP.seed) and len(octets) == int.from_bytes(octets[2:4])


def test_the_selection_method_is_netronomes_property() -> None:
    octets = selection_method(GROUP.seed)
    kind, length, vendor, experiment, pad, method, seed = struct.unpack_from("!HHIII16sQ", octets)
    assert (kind, vendor, experiment, pad, seed) == (0xFFFF, 0x154D, 1, 0, GROUP.seed)
    assert method.rstrip(b"\0") == b"hash" and len(octets) % 8 == 0 and 0 <= len(octets) - length < 8
    fields, place = {}, struct.calcsize("!HHIII16sQ")
    while place < length:
        oxm, number, count = struct.unpack_from("!HBB", octets, place)
        assert oxm == 0x8000 and octets[place + 4 : place + 4 + count] == b"\xff" * count
        fields[number >> 1] = count
        place += 4 + count
    assert fields == HASHED


def test_a_frame_of_the_controller_goes_out_of_a_port(datapath: Datapath) -> None:
    (message,) = written(datapath, Send(4, b"frame"))
    assert message.actions[0].port == 4 and bytes(message.buf).endswith(b"frame")
