"""The port program's buffer and the reference of it never differ in a counter."""

from __future__ import annotations

import random
import socket
import time
from collections import deque
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.lab import Run, experiment
from testbed.linux.port_program import (
    POOLS,
    BufferCounters,
    EventKind,
    GroupCounters,
    GroupLimits,
    PortProgram,
    PortTables,
    QueueCounters,
    QueueLimits,
)
from testbed.linux.process import kernel
from testbed.switch.buffer.headroom import DynamicSharedHeadroom, HeadroomPerGroup, HeadroomPolicy, SharedHeadroomPool
from testbed.switch.buffer.model import BufferModel
from testbed.switch.buffer.settings import (
    MOST_CELLS,
    BufferBusyError,
    BufferModelError,
    BufferSettings,
    Dynamic,
    GroupSettings,
    Pool,
    QueueSettings,
    Static,
    Threshold,
)
from testbed.switch.buffer.use import DropReason, Signal
from testbed.switch.priority.settings import PriorityMap

if TYPE_CHECKING:
    from tests.lab.conftest import Runner

MARKS = {"test_many_more_histories_leave_no_difference": [("long",)]}


Key = tuple[int, int]
KINDS = ("guaranteed", "shared", "headroom")
REASONS = tuple(DropReason)
ADMITTED = len(REASONS)
_FRAMES_S = 260e-6
"""The time of two of the longest frames on a line of 100 Mb/s, and a little more."""
SIGNALS = {None: 0, Signal.XOFF: EventKind.XOFF, Signal.XON: EventKind.XON}


def random_settings(
    chance: random.Random, ports: tuple[int, ...], scale: int, cell_bytes: int, policy: HeadroomPolicy | BufferSettings
) -> BufferSettings:
    """Return valid settings. `scale` is about how many cells a group may have: with few of them every rule applies.
    What cannot change in use is as in settings that are given in place of a policy for headroom.
    """
    like = policy if isinstance(policy, BufferSettings) else None
    policy = policy.policy if isinstance(policy, BufferSettings) else policy
    while True:
        pools = chance.choice([1, 1, 2, 4]) if like is None else len(like.pools)
        groups = {
            (port, priority): random_group(chance, scale, pool=chance.randrange(pools))
            for port in ports
            for priority in range(8)
            if chance.random() < 0.8
        }
        usual = {priority: random_group(chance, scale, lossy=True) for priority in (0, 5)}
        if like is not None:
            groups = {
                key: replace(groups.get(key) or usual.get(key[1]) or GroupSettings(), pool=group.pool)
                for key, group in like.all_groups().items()
            }
        elif policy.pauses_ports:  # the lossless groups of a port are in one pool
            groups = {key: replace(one, pool=key[0] % pools) if one.lossless else one for key, one in groups.items()}
        overbooked = chance.random() < 0.5
        chosen = [random_pool(chance, scale, groups, number, overbooked) for number in range(pools)]
        try:
            return BufferSettings(
                ports,
                total=chosen[0].total,
                headroom_pool=chosen[0].headroom_pool,
                priorities=usual,
                groups=groups,
                cell_bytes=cell_bytes,
                overbook_headroom=overbooked,
                more_pools=tuple(chosen[1:]),
                policy=policy,
                **(random_egress(chance, ports, scale) if like is None else egress_of(like)),
            )
        except BufferModelError:  # now and then it cannot be
            continue


def random_pool(
    chance: random.Random, scale: int, groups: dict[Key, GroupSettings], number: int, overbooked: bool
) -> Pool:
    members = [group for group in groups.values() if group.pool == number]
    headrooms = [group.headroom for group in members] or [0]
    pool = chance.randint(max(headrooms), sum(headrooms)) if overbooked else None
    reserved = sum(group.guaranteed for group in members) + (sum(headrooms) if pool is None else pool)
    return Pool(reserved + (chance.randint(0, 1) if chance.random() < 0.1 else chance.randint(scale, 6 * scale)), pool)


def random_egress(chance: random.Random, ports: tuple[int, ...], scale: int) -> dict[str, Any]:
    pools = chance.choice([0, 1, 2])
    queues = {
        (port, number): QueueSettings(
            reserved=chance.choice([0, 0, 1, chance.randrange(scale // 4)]),
            threshold=random_threshold(chance, scale),
            pool=chance.randrange(pools),
        )
        for port in ports
        for number in range(8)
        if pools and chance.random() < 0.7
    }
    reserved = [sum(queue.reserved for queue in queues.values() if queue.pool == pool) for pool in range(pools)]
    return {"egress_pools": tuple(own + chance.randint(scale, 8 * scale) for own in reserved), "queues": queues}


def random_threshold(chance: random.Random, scale: int) -> Threshold:
    if chance.random() < 0.5:
        return Static(chance.randrange(3 * scale))
    return Dynamic.power(chance.randint(-3, 3))


def egress_of(settings: BufferSettings) -> dict[str, Any]:
    return {"egress_pools": settings.egress_pools, "queues": settings.queues}


def random_group(chance: random.Random, scale: int, lossy: bool = False, pool: int = 0) -> GroupSettings:
    lossless = not lossy and chance.random() < 0.6
    extreme = chance.random() < 0.1
    static = Static(chance.choice([0, 1, 50 * scale]) if extreme else chance.randrange(2 * scale))
    usual = Fraction(chance.choice([1, 1, 3]), chance.randint(1, 16))
    alpha = chance.choice([Fraction(1, 65535), Fraction(65535)]) if extreme else usual
    thresholds: list[Threshold] = [static, Dynamic(alpha)]
    threshold = chance.choice(thresholds)
    offset = chance.choice([0, 1, chance.randrange(scale)])
    return GroupSettings(
        lossless=lossless,
        guaranteed=chance.choice([0, 0, 1, chance.randrange(scale // 4)]),
        threshold=threshold,
        xon_offset=min(offset, static.cells) if threshold is static else offset,
        headroom=chance.choice([0, 1, chance.randrange(scale // 4), scale]) if lossless else 0,
        xon=chance.choice([0, 0, 1, chance.randrange(scale)]),
        pool=pool,
    )


def limits(group: GroupSettings, policy: HeadroomPolicy) -> GroupLimits:
    """Return the settings in the program's terms."""
    static, alpha = terms(group.threshold)
    return GroupLimits(
        group.lossless, group.guaranteed, static, alpha, group.xon_offset, group.headroom, group.xon, group.pool,
        with_port=group.lossless and policy.pauses_ports,
    )  # fmt: skip


def terms(threshold: Threshold) -> tuple[int, Fraction | None]:
    return (threshold.cells, None) if isinstance(threshold, Static) else (0, threshold.alpha)


def expected(model: BufferModel) -> tuple[list[BufferCounters], dict[Key, GroupCounters], dict[Key, QueueCounters]]:
    """Return all counters of the model, in the form of the program's: pools, groups, queues. Zeros if unused."""
    found = model.snapshot()
    nothing = (0,) * len(REASONS)
    groups = dict.fromkeys(
        model.settings.all_groups(),
        GroupCounters((0, 0, 0), (0, 0, 0), 0, False, 0, 0, 0, 0, 0, 0, nothing, nothing, 0),
    )
    for group in found["groups"]:
        groups[group["port"], group["priority"]] = GroupCounters(
            used=tuple(group["used"][kind] for kind in KINDS),
            high_water=tuple(group["high_water"][kind] for kind in KINDS),
            most_cells=group["high_water"]["total"],
            xoff=group["xoff"],
            xoffs=group["xoffs"],
            xons=group["xons"],
            admitted_frames=group["admitted"]["frames"],
            admitted_cells=group["admitted"]["cells"],
            released_frames=group["released"]["frames"],
            released_cells=group["released"]["cells"],
            dropped_frames=tuple(group["dropped"][reason]["frames"] for reason in REASONS),
            dropped_cells=tuple(group["dropped"][reason]["cells"] for reason in REASONS),
            impossible_releases=0,
        )
    queues = dict.fromkeys(model.settings.queues, QueueCounters((0, 0), (0, 0), 0, 0, 0, 0, 0))
    for queue in found.get("queues", ()):
        queues[queue["port"], queue["queue"]] = QueueCounters(
            used=tuple(queue["used"][kind] for kind in KINDS[:2]),
            high_water=tuple(queue["high_water"][kind] for kind in KINDS[:2]),
            most_cells=queue["high_water"]["total"],
            admitted_frames=queue["admitted"]["frames"],
            admitted_cells=queue["admitted"]["cells"],
            dropped_frames=queue["dropped"]["frames"],
            dropped_cells=queue["dropped"]["cells"],
        )
    none = BufferCounters((0, 0, 0), (0, 0, 0), (0, 0, 0), 0)
    pools = [none] * (2 * POOLS)
    for start, states in ((0, [found, *found.get("more_pools", ())]), (POOLS, found.get("egress_pools", ()))):
        for number, state in enumerate(states, start):
            size, used, high_water = (
                tuple(state[kind][name] for kind in KINDS) for name in ("size", "used", "high_water")
            )
            pools[number] = BufferCounters(size, used, high_water, state["buffer"]["high_water"])
    return pools, groups, queues


def egress_sizes(settings: BufferSettings) -> list[tuple[int, int, int]]:
    return [(*settings.egress_cells(pool), 0) for pool in range(len(settings.egress_pools))]


def ingress_sizes(settings: BufferSettings) -> list[tuple[int, int, int]]:
    return [settings.pool_cells(pool) for pool in range(len(settings.pools))]


class Pair:
    """A model and the program with the same input; differences are kept."""

    def __init__(self, program: PortProgram, settings: BufferSettings, buffer: int) -> None:
        self.model = BufferModel(settings)
        self._program = program
        self._buffer = buffer
        self._impossible: dict[Key, int] = dict.fromkeys(settings.all_groups(), 0)
        self._slots = {port: 8 * buffer + number for number, port in enumerate(settings.ports)}
        self.differences: list[str] = []
        self.seen: set[str] = set()
        """The events that happened at least once: drops by reason, signals."""
        program.buffers.set_buffer(buffer, settings.cell_bytes, ingress_sizes(settings), egress_sizes(settings))
        for (port, number), queue in settings.queues.items():
            own = QueueLimits(queue.pool, queue.reserved, *terms(queue.threshold))
            program.buffers.set_queue(self._slots[port], number, own)
        tables = PortTables(buffer, buffer, 0, tuple(range(8)), PriorityMap().tables())
        for slot in self._slots.values():
            program.set_port(slot, tables)
        for (port, priority), group in settings.all_groups().items():
            program.buffers.set_group(self._slots[port], priority, limits(group, settings.policy))

    def admit(self, key: Key, length: int, queue: Key | None) -> bool:
        port, priority = key
        wanted = self.model.admit(port, priority, length, queue)
        found = self._program.buffers.admit(
            self._slots[port], priority, self.model.settings.cells(length), self._place(queue)
        )
        reason = ADMITTED if wanted.dropped is None else REASONS.index(wanted.dropped)
        self._compare("admit", key, (SIGNALS[wanted.signal], reason), found)
        self.seen |= {str(wanted.dropped), str(wanted.signal)} | ({"port paused"} if wanted.others else set())
        return wanted.dropped is None

    def _place(self, queue: Key | None) -> Key | None:
        return None if queue is None else (self._slots[queue[0]], queue[1])

    def release(self, key: Key, length: int, queue: Key | None = None) -> None:
        port, priority = key
        found = self._program.buffers.release(
            self._slots[port], priority, self.model.settings.cells(length), self._place(queue)
        )
        try:
            given_back = self.model.release(port, priority, length, queue)
            signal = given_back.signal
            self.seen |= {"port resumed"} if given_back.others else set()
        except BufferModelError:
            signal = None
            self._impossible[key] += 1
            self.seen.add("impossible release")
        self._compare("release", key, (SIGNALS[signal], ADMITTED), found)
        self.seen.add(str(signal))

    def recheck(self, key: Key) -> None:
        port, priority = key
        wanted = self.model.recheck(port, priority)
        found = self._program.buffers.recheck(self._slots[port], priority)
        self._compare("recheck", key, wanted is Signal.XON, found)
        self.seen.add(f"recheck {wanted}")

    def configure(self, settings: BufferSettings) -> None:
        """Change the settings of both while cells are in use; both refuse, or neither does."""
        sizes = ingress_sizes(settings)
        groups = {
            (self._slots[port], priority): limits(group, settings.policy)
            for (port, priority), group in settings.all_groups().items()
        }
        busy = self._program.buffers.busy(self._buffer, sizes, groups)
        try:
            resumed = {(self._slots[one.port], one.priority) for one in self.model.configure(settings)}
        except BufferBusyError:
            self.seen.add("busy")
            if not busy:
                self.differences.append("configure: the model is busy, the program is not")
            resumed = {(self._slots[one.port], one.priority) for one in self.model.give_up(settings)}
            self._compare("give up", (0, 0), resumed, set(self._program.buffers.give_up(self._buffer, groups)))
            return
        found = set(self._program.buffers.configure(self._buffer, sizes, groups))
        if busy or found != resumed:
            self.differences.append(f"configure: the model resumes {resumed}, the program {found}, busy {busy}")
        self.seen |= {"configured"} | ({"configured, resumed"} if resumed else set())

    def _compare(self, what: str, key: Key, wanted: Any, found: Any) -> None:
        if wanted != found:
            self.differences.append(f"{what} at {key}: the model has {wanted}, the program {found}")

    def clear(self, key: Key, queue: Key | None, pool: int) -> None:
        """Read and clear the watermarks of a group, a queue and a pool."""
        model, program, buffer = self.model, self._program, self._buffer
        egress = pool >= len(model.settings.pools)
        number = pool - len(model.settings.pools) if egress else pool
        pairs = [
            (model.group_watermark(*key, clear=True), program.buffers.clear_group(buffer, self._slots[key[0]], key[1])),
            (
                model.pool_watermark(number, egress, clear=True),
                program.buffers.clear_pool(buffer, number + (POOLS if egress else 0)),
            ),
        ]
        if queue is not None:
            found = program.buffers.clear_queue(buffer, self._slots[queue[0]], queue[1])
            pairs.append((model.queue_watermark(*queue, clear=True), found))
        for wanted, found in pairs:
            values = tuple(getattr(wanted.cells, kind) for kind in KINDS), wanted.total
            self._compare("watermark", key, values, (found.high_water, found.most_cells))
        self.seen.add("watermark cleared")

    def compare_all(self) -> None:
        """Compare every counter of the pools, groups and queues."""
        pools, groups, queues = expected(self.model)
        found = self._program.buffers.pools(self._buffer)
        if found != pools:
            self.differences.append(f"pools: the model has {pools}, the program {found}")
        for (port, number), queue in queues.items():
            had = self._program.buffers.queue(self._slots[port], number)
            if had != queue:
                self.differences.append(f"queue {port}, {number}: the model has {queue}, the program {had}")
        for (port, priority), group in groups.items():
            counted = self._program.buffers.group(self._slots[port], priority)
            wanted = GroupCounters(**vars(group) | {"impossible_releases": self._impossible[port, priority]})
            if counted != wanted:
                self.differences.append(f"group {port}, {priority}: the model has {wanted}, the program {counted}")
        for whole in self.model.snapshot().get("ports", ()):
            number = whole.pop("port")
            if (together := self._program.buffers.whole_port(self._slots[number])._asdict()) != whole:
                self.differences.append(f"port {number}: the model has {whole}, the program {together}")


@experiment(_in_lab_time=True, timeout="600s")
def agrees_step_by_step(run: Run, seeds: int = 4, steps: int = 10_000) -> None:
    """Frames come and go at random; after each the two say the same, and now and then all counters are compared."""
    program = PortProgram()
    differences: list[str] = []
    seen: set[str] = set()
    for number in range(seeds):
        chance = random.Random(f"{run.seed} {number}")
        scale = (40, 40, 300, 10_000_000)[number % 4]
        policy = (DynamicSharedHeadroom(), HeadroomPerGroup(), SharedHeadroomPool(), DynamicSharedHeadroom())[
            number % 4
        ]
        ports = tuple(range(1, chance.randint(2, 5)))
        settings = random_settings(chance, ports, scale, chance.choice([1, 160, 208]), policy)
        pair = Pair(program, settings, number)
        wander(pair, chance, scale, steps)
        differences += [f"seed {number}: {difference}" for difference in pair.differences]
        seen |= pair.seen
    program.close()
    run.figure("what happened", sorted(seen))
    run.figure("differences", differences[:20])
    run.claim("steps that differ", len(differences), equals=0)


def wander(pair: Pair, chance: random.Random, scale: int, steps: int) -> None:
    """Fill and drain a few groups by turns. Many frames are as long as just fits somewhere, or one cell longer."""
    settings = pair.model.settings
    inside: dict[Key, list[tuple[int, Key | None]]] = {}
    groups, queues = list(settings.all_groups()), [None, *settings.queues]
    pools = len(settings.pools) + len(settings.egress_pools)
    hot, arriving, sizes = groups, 0.7, [1]
    for step in range(steps):
        if step % 250 == 0:
            pair.compare_all()
            if step % 1000 == 500:
                pair.configure(random_settings(chance, settings.ports, scale, settings.cell_bytes, settings))
                settings = pair.model.settings
                pair.compare_all()
            hot = chance.sample(groups, chance.randint(1, 6))
            arriving = chance.choice([0.2, 0.5, 0.55, 0.7])
            sizes = chance.choice([[1], [1, 1, 1, 2, 3, 8], [1, scale // 20, scale // 8, scale // 4]])
        key = chance.choice(hot)
        held = inside.setdefault(key, [])
        what = chance.random()
        if what < 0.02:
            pair.recheck(key)
        elif what < 0.025:
            pair.release(key, (pair.model.used(*key).total + 1) * settings.cell_bytes)  # more than there is
        elif what < 0.03:
            pair.clear(key, chance.choice(queues), chance.randrange(pools))
        elif chance.random() < arriving or not held:
            cells = tight(pair.model, key, chance) if chance.random() < 0.1 else chance.choice(sizes)
            length = cells * settings.cell_bytes - chance.randrange(settings.cell_bytes)
            queue = chance.choice(queues[:4])
            if pair.admit(key, length, queue):
                held.append((length, queue))
        else:
            pair.release(key, *held.pop(chance.randrange(len(held))))
    pair.compare_all()


def tight(model: BufferModel, key: Key, chance: random.Random) -> int:
    """Return a number of cells that just fits into one of the pools, or under the threshold; or one more."""
    group, used = model.settings.group(*key), model.used(*key)
    unused = group.guaranteed - used.guaranteed
    under_threshold = unused + model.threshold(*key) - used.shared
    fits = chance.choice([unused, under_threshold, unused + model.free_shared, group.headroom - used.headroom])
    return min(max(1, fits + chance.randint(0, 1)), MOST_CELLS)


# With frames

BROADCAST = b"\xff" * 6


@experiment(_in_lab_time=True, timeout="600s")
def agrees_with_frames(run: Run, networks: int = 3, rounds: int = 40) -> None:
    """Frames of any size, priority and port meet stopped queues, so their order is known; then queues are let go, one
    at a time, for a while or until they are empty.
    """
    differences: list[str] = []
    frames = 0
    for number in range(networks):
        chance = random.Random(f"{run.seed} {number}")
        policy = (HeadroomPerGroup(), SharedHeadroomPool(), DynamicSharedHeadroom())[number % 3]
        switch = Switch(chance, policy, scale=(60, 150, 100)[number % 3])
        differences += [f"network {number}: {difference}" for difference in switch.wander(rounds)]
        frames += switch.frames
        run.figure(f"network {number}: drops, congestions, reliefs", switch.happened)
    run.figure("frames", frames)
    run.figure("differences", differences[:20])
    run.claim("differences", len(differences), equals=0)


class Switch:
    """A switch, its hosts, and the model of its buffer."""

    def __init__(self, chance: random.Random, policy: HeadroomPolicy, scale: int) -> None:
        self._chance = chance
        self._policy, self._scale = policy, scale
        self._group_of: list[int] = []
        """The priority group of each priority."""
        self._queues: dict[tuple[Any, int], deque[tuple[Key, int]]] = {}
        """The frames that wait at (egress port, priority): the group that holds each, and its length."""
        self._expected: list[tuple[Any, ...]] = []
        self.differences: list[str] = []
        self.frames = 0
        self.happened: dict[str, int] = {}

    def wander(self, rounds: int) -> list[str]:
        from testbed.net.build.network import network
        from testbed.net.build.topo import LosslessTopo
        from testbed.net.fabric.port import Buffer, Port
        from testbed.net.shell.wire import RawPort

        class Star(LosslessTopo):
            def build(self) -> None:
                self.addSwitch("s1")
                for number in range(1, 5):
                    self.addLink(self.addHost(f"h{number}"), "s1")

        cell = self._chance.choice([64, 208, 1000])
        settings = random_settings(self._chance, (1, 2, 3, 4), self._scale, cell, self._policy)
        buffer = Buffer(
            total=settings.total,
            cell=settings.cell_bytes,
            headroom_pool=settings.headroom_pool,
            overbook_headroom=settings.overbook_headroom,
            groups=settings.all_groups(),
            more_pools=settings.more_pools,
            headroom=settings.policy,
            **egress_of(settings),
        )
        self._group_of = [self._chance.randrange(8) for _ in range(8)]
        mapping = PriorityMap("dscp", dot1p_to_group=self._group_of)
        # Agents without PFC do not ask the buffer once more in the meantime.
        with network(Star(scale=100, port=Port(priorities=mapping).without_pfc(), buffer=buffer)) as net:
            self._fabric = net.fabric
            self._ports = [net.fabric.between("s1", f"h{number}") for number in range(1, 5)]
            self._hosts = [net.fabric.far_end(port) for port in self._ports]
            self._raw = [RawPort(port.node, port.name, past_queues=True) for port in self._hosts]
            with kernel.in_network_of(net["s1"].pid):
                self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
            self._model = BufferModel(net.fabric.buffers["s1"])
            for port in self._ports:
                assert port.queues is not None
                self._netlink.send(b"".join(port.queues.pausing(priority, True) for priority in range(8)))
            for number in range(4):
                self._send(number, None, 0, 60)  # to all: from now on the switch has learned all stations
            for _ in range(rounds):
                priorities = self._chance.sample(range(8), self._chance.randint(1, 8))
                for _ in range(self._chance.choice([1, 10, 60])):
                    here, there = self._chance.sample(range(4), 2)
                    priority = self._chance.choice(priorities)
                    self._send(here, there, priority, self._length(here, priority))
                self._compare()
                for _ in range(self._chance.choice([0, 2, 20])):
                    if waiting := [queue for queue, held in self._queues.items() if held]:
                        self._release(*self._chance.choice(waiting), self._chance.choice([100, 500, None]))
                self._compare()
            for queue, held in self._queues.items():
                if held:
                    self._release(*queue, None)
            self._compare()
            self._compare_ends()
            for raw in self._raw:
                raw.close()
            self._netlink.close()
        return self.differences

    def _length(self, here: int, priority: int) -> int:
        """Draw the length of a frame; now and then one that just fits somewhere, or is a cell too long."""
        group = self._number(self._ports[here]), self._group_of[priority]
        length = tight(self._model, group, self._chance) * self._model.settings.cell_bytes
        if 60 <= length <= 1514 and self._chance.random() < 0.3:
            return length
        return self._chance.choice([60, 1514, self._chance.randint(60, 1514)])

    def _send(self, here: int, there: int | None, priority: int, length: int) -> None:
        """Send one frame from a host to another, or to all the others."""
        port = self._ports[here]
        target = BROADCAST if there is None else self._hosts[there].mac.octets
        header = target + self._hosts[here].mac.octets + b"\x08\x00\x45" + bytes([8 * priority << 2])
        self._raw[here].send(header.ljust(length, b"\0"))
        self.frames += 1
        group = self._number(port), self._group_of[priority]
        # A flood goes to the port that joined last first.
        for leaving in [self._ports[there]] if there is not None else [p for p in self._ports[::-1] if p is not port]:
            wanted = self._model.admit(*group, length, (self._number(leaving), priority))
            for congested in sorted([group[1]] * bool(wanted.signal) + list(wanted.others)):
                self._expect("congested", port.name, congested)
            if wanted.dropped:
                self._expect("drop", port.name, group[1], wanted.dropped.value, length)
            else:
                self._queues.setdefault((leaving.slot, priority), deque()).append((group, length))

    def _release(self, slot: int, priority: int, wait_us: int | None) -> None:
        """Let a queue send for so long, or to its end."""
        queues = self._fabric.ports[slot].queues
        assert queues is not None
        before = self._released()
        held = self._queues[slot, priority]
        self._netlink.send(queues.pausing(priority, False))
        if wait_us is None:
            deadline = time.monotonic() + 10
            while self._released() - before < len(held) and time.monotonic() < deadline:
                time.sleep(0.001)
        else:
            time.sleep(wait_us / 1e6)
        self._netlink.send(queues.pausing(priority, True))
        # Until the last bit of the frame that is leaving.
        time.sleep(_FRAMES_S)
        gone, number = self._released() - before, self._number(self._fabric.ports[slot])
        if wait_us is None and gone != len(held):
            self.differences.append(f"{gone} of {len(held)} frames left queue {slot}, {priority}")
        for _ in range(min(gone, len(held))):
            group, length = held.popleft()
            given_back = self._model.release(*group, length, (number, priority))
            for relieved in sorted([group[1]] * bool(given_back.signal) + list(given_back.others)):
                self._expect("relieved", self._names[group[0]], relieved)

    def _released(self) -> int:
        return sum(
            self._fabric.group(port.name, priority).released_frames for port in self._ports for priority in range(8)
        )

    def _number(self, port: Any) -> int:
        number: int = port.node.ports[port.intf]
        return number

    @property
    def _names(self) -> dict[int, str]:
        return {self._number(port): port.name for port in self._ports}

    def _expect(self, *event: Any) -> None:
        self._expected.append(event)
        self.happened[event[0]] = self.happened.get(event[0], 0) + 1

    def _compare(self) -> None:
        pools, groups, queues = expected(self._model)
        found = self._fabric.pools("s1")
        if found != pools:
            self.differences.append(f"pools: the model has {pools}, the program {found}")
        for (number, place), queue in queues.items():
            had = self._fabric.queue(self._names[number], place)
            if had != queue:
                self.differences.append(f"queue {number}, {place}: the model has {queue}, the program {had}")
        for (number, priority), group in groups.items():
            counted = self._fabric.group(self._names[number], priority)
            if counted != group:
                self.differences.append(f"group {number}, {priority}: the model has {group}, the program {counted}")

    def _compare_ends(self) -> None:
        """Compare the agent's log, and the frames that arrived, when all is over."""
        self._fabric.snapshot("s1")  # it reads what waits for it
        logged: list[tuple[Any, ...]] = []
        for event in self._fabric.events():
            if event.kind in ("congested", "relieved"):
                logged.append((event.kind, event.port, *event.priorities))
            elif event.kind == "drop":
                logged.append(("drop", event.port, *event.priorities, event.detail["reason"], event.detail["octets"]))
        if logged != self._expected:
            first = next((pair for pair in zip(logged, self._expected) if pair[0] != pair[1]), None)  # noqa: B905
            self.differences.append(f"{len(logged)} events, not {len(self._expected)}; the first other one: {first}")
        if used := [pool.used for pool in self._fabric.pools("s1") if any(pool.used)]:
            self.differences.append(f"{used} cells are still in use")
        admitted = sum(
            self._fabric.group(port.name, priority).admitted_frames for port in self._ports for priority in range(8)
        )
        arrived = sum(map(received_frames, self._hosts))
        if arrived != admitted:
            self.differences.append(f"{admitted} frames were admitted and {arrived} arrived")
        lost = sum(self._fabric.sent(port.name).lost_events for port in self._ports)
        if lost:
            self.differences.append(f"{lost} events were lost")


def received_frames(port: Any) -> int:
    """Return the frames that came in by a port, as the kernel counts them."""
    lines = Path(f"/proc/{port.node.pid}/net/dev").read_text().splitlines()
    (counts,) = [line.split(":")[1].split() for line in lines if line.split(":")[0].strip() == port.name]
    return int(counts[1])


DROPS = {"headroom", "headroom pool", "threshold", "shared pool", "queue threshold", "egress pool"}
SIGNALLED = {"xoff", "xon", "recheck xon", "impossible release", "watermark cleared", "port paused", "port resumed"}
CHANGES = {"configured", "configured, resumed", "busy"}


def test_ten_thousand_steps_of_each_history_leave_no_difference(run: Runner) -> None:
    result = run(agrees_step_by_step).check()
    assert set(result.figure("what happened")) >= DROPS | SIGNALLED | CHANGES


def test_many_more_histories_leave_no_difference(run: Runner) -> None:
    assert run(agrees_step_by_step, seed=2, seeds=40).check().passed


def test_frames_at_the_ports_of_a_switch_leave_no_difference(run: Runner) -> None:
    result = run(agrees_with_frames).check()
    assert result.figure("frames") > 2000
    happened = [result.figure(f"network {number}: drops, congestions, reliefs") for number in range(3)]
    assert all(sum(one[kind] for one in happened) > 80 for kind in ("drop", "congested", "relieved")), happened
