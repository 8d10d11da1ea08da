"""What the port program makes of frames without room is what the references say: octets of rests, and all counters."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

from testbed.frames.mac_control import PfcFrame
from testbed.lab import Run, experiment
from testbed.net.build.network import network
from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.port import Buffer, Port
from testbed.net.shell.wire import RawPort, Tap
from testbed.switch.buffer.model import BufferModel, Rest
from testbed.switch.buffer.settings import Dynamic, GroupSettings, QueueSettings, Static
from testbed.switch.buffer.use import DropReason
from testbed.switch.trimming.cut import checksum_sum, rest
from testbed.switch.trimming.settings import TrimException, Trimming

DSCP, REST = 48, 6
LOSSY = Port().without_pfc()
FRAMES_S = 2e-3
"""The time of some of the longest frames on a line of 100 Mb/s."""


class Pair(LosslessTopo):
    """h1 and h2 at a switch, whose ports have these settings."""

    def build(self, one: Port, other: Port, buffer: Buffer) -> None:
        self.addSwitch("s1", buffer=buffer)
        self.addLink(self.addHost("h1", port=Port().without_pfc()), "s1", settings2=one)
        self.addLink(self.addHost("h2", port=Port(pfc=other.pfc)), "s1", settings2=other)


@contextmanager
def pair(run: Run, one: Port, other: Port, buffer: Buffer) -> Iterator[tuple[Any, RawPort, RawPort, Tap]]:
    """Start the pair; yield the network, raw ports of both hosts, and a tap of what comes to h2."""
    with (
        network(Pair(one, other, buffer, mismatch="ignore"), run) as net,
        RawPort(net["h1"], "h1-eth0", past_queues=True) as sender,
        RawPort(net["h2"], "h2-eth0", past_queues=True) as receiver,
        Tap(net["h2"], "h2-eth0") as tap,
    ):
        yield net, sender, receiver, tap


def ethernet(net: Any, kind: int, payload: bytes) -> bytes:
    ends = bytes.fromhex((net["h2"].MAC() + net["h1"].MAC()).replace(":", ""))
    return ends + kind.to_bytes(2) + payload


def packet(chance: random.Random, version: int, protocol: int, payload: bytes, source: str = "") -> bytes:
    """Return an IP packet of some DSCP of queue 0 to 2, with a right header checksum."""
    tos = chance.randrange(24) << 2 | chance.randrange(4)
    if version == 6:
        addresses = ip_address(source or "fd00::1").packed + ip_address("fd00::2").packed
        return struct.pack("!IHBB", 6 << 28 | tos << 20, len(payload), protocol, 60) + addresses + payload
    addresses = ip_address(source or "10.1.0.1").packed + ip_address("10.1.0.2").packed
    head = struct.pack("!BBHHHBBH", 0x45, tos, 20 + len(payload), 0, 0, 60, protocol, 0) + addresses
    return head[:10] + (0xFFFF - checksum_sum(head)).to_bytes(2) + head[12:] + payload


def upper(chance: random.Random, protocol: int, length: int) -> bytes:
    """Return a UDP or TCP header with some checksum, and a payload."""
    checksum = chance.choice([0, chance.randrange(1, 65536)])
    if protocol == 17:
        return struct.pack("!4H", 1000, 2000, 8 + length, checksum) + chance.randbytes(length)
    head = struct.pack("!HHIIBBHHH", 1000, 2000, 5, 6, 0x50, chance.choice([0x10, 0x19]), 1000, checksum, 0)
    return head + chance.randbytes(length)


def random_frame(net: Any, chance: random.Random) -> bytes:
    """Return a frame of any kind, now and then a damaged one, or one that is not trimmed."""
    version, protocol = chance.choice([4, 6]), chance.choice([6, 17, 17, 89])
    payload = upper(chance, protocol, chance.randrange(1, 1300))
    inside = chance.random() < 0.3
    if inside:
        inner = chance.choice([4, 6])
        payload = packet(chance, inner, protocol, payload)
        protocol = 4 if inner == 4 else 41
        if version == 6 and chance.random() < 0.5:  # a segment routing header
            routing = bytes([protocol, 2, 4, 0, 0, 0, 0, 0]) + ip_address("fc00::1").packed
            payload, protocol = routing + payload, 43
    content = packet(chance, version, protocol, payload)
    if chance.random() < 0.15:
        damaged = bytearray(content)
        damaged[chance.choice([0, 2, 3, 4, 5, 6, 7, 20, 24, 25, 44])] ^= 1 << chance.randrange(8)
        content = bytes(damaged)
    frame = ethernet(net, 0x0800 if version == 4 else 0x86DD, content)
    if chance.random() < 0.2:
        frame = frame[:12] + struct.pack("!HH", 0x8100, 5) + frame[12:]
    return frame


@experiment(timeout="300s")
def test_rests_have_the_octets_of_the_reference(run: Run, frames: int = 600) -> None:
    """A buffer without room for all but rests: what comes is what the reference makes of each frame."""
    chance = random.Random(run.seed)
    none = GroupSettings(threshold=Static(0))
    groups = {(port, REST): GroupSettings() for port in (1, 2)}
    trims = LOSSY.with_trimming(*range(6), size=128, dscp=DSCP, queue=REST)
    differences, outcomes = [], {"cut": 0, "dropped": 0}
    with pair(run, LOSSY, trims, Buffer(lossy=none, groups=groups)) as (net, sender, _, tap):
        tables, port = FabricCore.current().running_program().trimming_tables, net.fabric.port("s1-eth2")
        assert tables is not None
        time.sleep(0.1)
        before = net.fabric.dropped()
        for number in range(frames):
            size = chance.choice([64, 65, 100, 127, 128, 200, 256])
            tables.set(port.slot, Trimming(frozenset(range(6)), size, DSCP, REST))
            frame = random_frame(net, chance)
            list(tap.frames())
            sender.send(frame)
            time.sleep(FRAMES_S)
            came = [one for one in tap.frames() if one[6:12] == frame[6:12]]
            expected = rest(frame, size, DSCP)
            outcomes["dropped" if expected is None else "cut"] += 1
            if came != ([] if expected is None else [expected]):
                shown = [one.hex() for one in came]
                differences.append(f"{number}, {size}: {frame.hex()} expected {expected and expected.hex()}: {shown}")
        dropped, trimmed = net.fabric.dropped() - before, net.fabric.trimmed("s1-eth2")
    run.figure("outcomes", outcomes)
    run.figure("differences", differences[:5])
    run.claim("frames whose rest is another", len(differences), equals=0)
    run.claim("kinds of outcome that occur", min(outcomes.values()), at_least=10)
    run.claim("frames dropped, trimmed", [dropped, trimmed.frames], equals=[outcomes["dropped"], outcomes["cut"]])
    run.claim("rests sent", trimmed.sent_frames, equals=outcomes["cut"])


@experiment(timeout="300s")
def test_counters_are_those_of_the_reference(run: Run, histories: int = 8, frames: int = 60) -> None:
    """Frames of random lengths and priorities into a buffer that is held: all counters are the model's."""
    differences: list[str] = []
    trimmed = lost = 0
    for history in range(histories):
        chance = random.Random(run.seed * 1000 + history)

        def threshold(chance: random.Random = chance) -> Static | Dynamic:
            found: list[Static | Dynamic] = [Static(chance.randrange(60)), Dynamic("1/2"), Dynamic(2)]
            return chance.choice(found)

        groups = {(1, priority): GroupSettings(guaranteed=chance.randrange(3), threshold=threshold())
                  for priority in (0, 2, REST)}  # fmt: skip
        limited = chance.random() < 0.6
        queues = {(2, queue): QueueSettings(chance.randrange(4), threshold()) for queue in (0, 2, REST)}
        buffer = Buffer(total=400, groups=groups)
        if limited:
            buffer = replace(buffer, egress_pools=(90,), queues=queues)
        held = Port().with_pfc(*range(8))
        with pair(run, LOSSY.with_trimming(7), held, buffer) as (net, sender, receiver, _):
            fabric, core = net.fabric, FabricCore.current()
            tables, out = core.running_program().trimming_tables, fabric.port("s1-eth2")
            assert tables is not None
            tables.set(out.slot, Trimming(frozenset({0, 2}), 128, DSCP, REST))
            model = BufferModel(fabric.buffers["s1"])
            stop = PfcFrame.xoff(fabric.port("h2-eth0").mac, range(8)).encode()
            for number in range(frames):
                if number % 20 == 0:
                    receiver.send(stop)
                    time.sleep(FRAMES_S)
                priority, length = chance.choice([0, 0, 2, 5]), chance.randrange(64, 1515)
                content = struct.pack("!BBHHHBBH", 0x45, priority << 5, length - 14, 0, 0, 60, 89, 0) + bytes(8)
                sender.send(ethernet(net, 0x0800, content + bytes(length - 34)))
                time.sleep(FRAMES_S)
                after = Rest(REST, min(length, 128), (2, REST)) if priority in (0, 2) else None
                result = model.admit(1, priority, length, (2, priority), after)
                trimmed += result.rest is not None
                lost += result.rest is not None and result.rest.dropped is not None
            differences += _differences(fabric, model, history)
            receiver.send(PfcFrame.xon(fabric.port("h2-eth0").mac, range(8)).encode())
            time.sleep(0.2)
            left = [fabric.group("s1-eth1", priority).used for priority in (0, 2, 5, REST)]
            differences += [f"{history}: {one} is still used" for one in left if any(one)]
    run.figure("trimmed, rests dropped", [trimmed, lost])
    run.figure("differences", differences[:5])
    run.claim("differences", len(differences), equals=0)
    run.claim("rests that were dropped", lost, at_least=1)


def _differences(fabric: Any, model: BufferModel, history: int) -> list[str]:
    found = []
    groups = {one["priority"]: one for one in model.snapshot()["groups"] if one["port"] == 1}
    for priority in (0, 2, 5, REST):
        counted, expected = fabric.group("s1-eth1", priority), groups.get(priority, {})
        nothing = {"frames": 0, "cells": 0}
        wanted = (
            expected.get("admitted", nothing), expected.get("trimmed", nothing),
            [expected["dropped"][one]["frames"] if expected else 0 for one in DropReason],
        )  # fmt: skip
        got = (
            {"frames": counted.admitted_frames, "cells": counted.admitted_cells},
            {"frames": counted.trimmed_frames, "cells": counted.trimmed_cells},
            list(counted.dropped_frames),
        )
        if got != wanted:
            found.append(f"{history}, priority {priority}: {got} in place of {wanted}")
    for one in model.snapshot().get("queues", ()):
        queue = fabric.queue("s1-eth2", one["queue"])
        counts = [queue.admitted_frames, queue.dropped_frames, queue.dropped_cells]
        model_counts = [one["admitted"]["frames"], one["dropped"]["frames"], one["dropped"]["cells"]]
        if one["port"] == 2 and counts != model_counts:
            found.append(f"{history}, queue {one['queue']}: {counts} in place of {model_counts}")
    return found


@experiment(timeout="60s")
def test_exceptions_are_dropped_and_counted(run: Run) -> None:
    """Two exceptions, by source of each version of IP; what fits is dropped, and all that fits is counted."""
    chance = random.Random(run.seed)
    none = GroupSettings(threshold=Static(0))
    groups = {(port, REST): GroupSettings() for port in (1, 2)}
    exceptions = (TrimException(source="1.1.1.1/32"), TrimException(source="8000::2", protocol="udp"))
    comes = Port(pfc=LOSSY.pfc, trim_exceptions=exceptions)
    trims = LOSSY.with_trimming(*range(6), dscp=DSCP, queue=REST)
    with pair(run, comes, trims, Buffer(lossy=none, groups=groups)) as (net, sender, _, tap):
        tables = FabricCore.current().running_program().trimming_tables
        assert tables is not None
        came = {}
        for source in ("1.1.1.1", "1.1.1.2", "8000::2", "8000::3"):
            version = 6 if ":" in source else 4
            content = packet(chance, version, 17, upper(chance, 17, 1000), source)
            frame = ethernet(net, 0x0800 if version == 4 else 0x86DD, content)
            list(tap.frames())
            for _ in range(3):
                sender.send(frame)
            time.sleep(3 * FRAMES_S)
            came[source] = sum(one[6:12] == frame[6:12] for one in tap.frames())
        counted = tables.excepted(net.fabric.port("s1-eth1").slot)
    run.claim("rests that came", came, equals={"1.1.1.1": 0, "1.1.1.2": 3, "8000::2": 0, "8000::3": 3})
    run.claim("frames that each exception counted", [frames for frames, _ in counted], equals=[3, 3])
