"""Scapy's layers of the link layer against our codecs: each reads what the other wrote."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("scapy", reason="Scapy is not installed; it is in requirements/test.lock")

from scapy.layers.l2 import Ether

from testbed.frames import Mac
from testbed.frames.link import credits
from testbed.subjects.link import scapy_layers as layers
from testbed.subjects.link.llr import ordered_set, record

A, B = Mac.parse("02:00:00:00:00:01"), Mac.parse("02:00:00:00:00:02")
INSIDE = B.octets + A.octets + b"\x88\xb7" + bytes(range(40))


def test_records_of_a_line_are_the_same_in_both() -> None:
    dice = random.Random(7)
    for _ in range(200):
        fate, sequence = dice.choice(list(record.Fate)), dice.randrange(ordered_set.SEQUENCES)
        kind = dice.choice([None, *ordered_set.Kind])
        head = Ether(src=str(A), dst=str(B))
        if kind is None:
            is_replay = dice.random() < 0.5
            ours = record.Record(B, A, sequence, fate, is_replay, INSIDE)
            theirs = layers.LlrFrame(sequence=sequence, fate=fate.value, flags="replay" if is_replay else 0)
            built = bytes(head / theirs / Ether(INSIDE))
        else:
            data = dice.randrange(0x10000) if kind in (ordered_set.Kind.INIT, ordered_set.Kind.ECHO) else 0
            ours = record.Record(B, A, ordered_set.OrderedSet(kind, sequence, data), fate)
            built = bytes(head / layers.LlrOrderedSet(set=kind.value, sequence=sequence, fate=fate.value, data=data))
        assert built == ours.encode()
        assert record.parse(built) == ours
        found = Ether(ours.encode())
        layer = found[layers.LlrFrame if kind is None else layers.LlrOrderedSet]
        assert (layer.sequence, layer.fate) == (sequence, fate)
        assert kind is not None or bytes(found[layers.LlrFrame].payload) == INSIDE


def test_messages_about_credits_are_the_same_in_both() -> None:
    update = credits.both([credits.Freed(3, 0x7ABC), credits.Freed(5, 17)])
    head = Ether(src=str(A), dst="01:80:c2:00:00:01")
    built = bytes(head / layers.CfUpdate(vc=3, freed=0x7ABC, second_vc=5, second_freed=17))
    assert built == credits.carried(A, update.encode())
    assert layers.CfUpdate(built[14:]).second_freed == 17
    used = tuple(range(0xF0000, 0xF0010))
    built = bytes(head / layers.CcUpdate(type=2, **{f"used_{place}": count for place, count in enumerate(used)}))
    assert built == credits.CcUpdate(A, 16, used).encode()
    assert layers.CcUpdate(built[14:]).used_15 == 0xF000F
