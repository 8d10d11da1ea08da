"""ETS as a peer recommends it, measured on the wire while the port is full."""

import socket
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from experiments.dcbx._dcbx import feature, wait_for
from testbed.frames.dcbx.values import STRICT, Tsa, mask
from testbed.linux.process import kernel
from xoff import (
    LONGEST_PAUSE,
    Cable,
    DcbxSettings,
    DcbxVersion,
    Ets,
    EtsAdmin,
    EtsRecommendation,
    Fabric,
    Flow,
    Flows,
    LosslessTopo,
    Network,
    PfcAdmin,
    PfcFrame,
    Port,
    Rate,
    RawPort,
    Recommend,
    Run,
    Size,
    configure_dcbx,
    experiment,
    network,
)

_ETH_P_ALL, _SO_RCVBUFFORCE = 3, 33
_IPV4 = b"\x08\x00"
PRIORITIES = (1, 3, 5)
LINE = Rate("10Mb/s")
FRAME = Size("1514B")
SETTLES, LASTS = 0.6, 0.8
"""Seconds from a new table until shares are measured, and how long they are measured."""
WAITING = Size("64kB")
"""The most that a sender has in its queue; it was queued by the table before, and has to go first."""

_OWN_CLASSES = tuple(range(8))
_EQUAL = (0, 20, 0, 20, 0, 20, 0, 40)


@dataclass(frozen=True)
class Step:
    """A recommendation, and the percent of the line that priorities then have."""

    name: str
    table: EtsRecommendation
    percent: dict[int, float]
    together: tuple[int, ...] = ()
    """Priorities of one class: they have its share between them, as they come."""


def _published(bandwidth: dict[int, int], classes: dict[int, int] | None = None, strict: int = -1) -> EtsRecommendation:
    assignment = tuple((classes or {}).get(priority, priority) for priority in range(8))
    tsa = tuple(int(Tsa.STRICT if number == strict else Tsa.ETS) for number in range(8))
    return EtsRecommendation(tuple(bandwidth.get(number, 0) for number in range(8)), assignment, tsa)


PUBLISHED = (
    Step("60, 30 and 10 percent", _published({1: 60, 3: 30, 5: 10}), {1: 60, 3: 30, 5: 10}),
    Step("10, 20 and 70 percent", _published({1: 10, 3: 20, 5: 70}), {1: 10, 3: 20, 5: 70}),
    Step("1 and 3 in one class", _published({1: 60, 5: 40}, {3: 1}), {1: 60, 5: 40}, (1, 3)),
    Step("1 is strict", _published({3: 75, 5: 25}, strict=1), {1: 100}),
    Step("equal again", _published({1: 20, 3: 20, 5: 20, 7: 40}), {1: 100 / 3, 3: 100 / 3, 5: 100 / 3}),
)

# In the draft a bridge recommends bandwidths for the groups that the host has: here 1 and 3 in one, 5 in another.
_GROUPS = (0, 1, 0, 1, 0, 2, 0, STRICT)
DRAFT = (
    Step("groups 60 to 40", EtsRecommendation((0, 60, 40, 0, 0, 0, 0, 0)), {1: 60, 5: 40}, (1, 3)),
    Step("groups 20 to 80", EtsRecommendation((0, 20, 80, 0, 0, 0, 0, 0)), {1: 20, 5: 80}, (1, 3)),
)


@experiment(timeout="200s")
def dcbx_ets(run: Run) -> None:
    """DCBX: a willing port shares its line as its peer recommends, also anew under load, and loses nothing.

    Three flows of three lossless priorities fill the port of a host. Its switch recommends one table after the other:
    other shares, two priorities in one class, a strict class. Then it pauses a priority, alone in its class or not: the
    class stops and the others have the line. The control case is a host that is not willing: shares stay equal.
    """
    own = Ets(_OWN_CLASSES, _EQUAL, (int(Tsa.ETS),) * 8)
    _share(run, "published", own, PUBLISHED, willing=True)
    _share(run, "draft", Ets(_GROUPS, (0, 50, 50, 0, 0, 0, 0, 0)), DRAFT, willing=True)
    _share(run, "published, not willing", own, PUBLISHED[:1], willing=False)


def _share(run: Run, case: str, own: Ets, steps: tuple[Step, ...], *, willing: bool) -> None:
    version = own.version
    pfc = PfcAdmin(mask(PRIORITIES))
    host = DcbxSettings(version, ets=EtsAdmin(own, willing=willing), pfc=pfc)
    bridge = DcbxSettings(version, ets=EtsAdmin(own), pfc=pfc)

    class Line(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            self.addLink(self.addHost("h1", port=Port(dcbx=host)), "s1", settings2=Port(dcbx=bridge))
            self.addLink(self.addHost("r"), "s1", cable=Cable(LINE * 4), settings2=Port().with_pfc(*PRIORITIES))

    topo = Line(scale=1, rate=LINE, port=Port().with_pfc(*PRIORITIES))
    with network(topo) as net:
        fabric = net.fabric
        wait_for(
            "the host has a DCBX peer",
            lambda: feature(fabric, "h1-eth0", "ets")["remote"] is not None,
        )
        time.sleep(4)  # until the first frames of LLDP are over
        wire = Wire(net)
        flows = [Flow("h1", "r", priority, FRAME, buffer=WAITING) for priority in PRIORITIES]
        with Flows(flows) as running:
            time.sleep(SETTLES)
            before = wire.shares()
            halves = {1: 50.0, 5: 50.0} if version is DcbxVersion.DRAFT else dict.fromkeys(PRIORITIES, 100 / 3)
            _claim(run, f"{case}, before", before, halves, (1, 3) if version is DcbxVersion.DRAFT else ())
            for step in steps:
                advice = replace(bridge, ets=EtsAdmin(own, recommend=Recommend(step.table)))
                configure_dcbx(fabric, "s1-eth1", advice)
                time.sleep(SETTLES)
                found = wire.shares()
                has = feature(fabric, "h1-eth0", "ets")["oper"]
                wanted = list(step.table.bandwidth if willing else own.bandwidth)
                run.claim(f"{case}, {step.name}: the host operates with", has["bandwidth"], equals=wanted)
                percent = step.percent if willing else dict.fromkeys(PRIORITIES, 100 / 3)
                together = step.together if willing else ()
                _claim(run, f"{case}, {step.name}", found, percent, together)
                if len(percent) == 1:  # one that is strict: nothing is left to compare
                    continue
                paused = min(percent)
                found = _while_paused(fabric, wire, paused)
                stopped = sorted({paused, *together})
                label = f"{case}, {step.name}, {paused} is paused"
                run.claim(f"{label}: sent by {stopped}", sum(found[one] for one in stopped), equals=0)
                _claim(run, label, found, _without(paused, percent))
        run.claim(f"{case}: lost", [report.lost for report in running.reports], equals=[0, 0, 0])
        run.claim(f"{case}: doubled", [report.doubled for report in running.reports], equals=[0, 0, 0])
        run.figure(f"{case}: received, and out of order", [[r.received, r.out_of_order] for r in running.reports])


def _while_paused(fabric: Fabric, wire: "Wire", priority: int) -> dict[int, float]:
    """Return the shares while the switch pauses a priority."""
    port = fabric.port("s1-eth1")
    wire.send(PfcFrame.of(port.mac, {priority: LONGEST_PAUSE}).encode())
    time.sleep(0.05)
    found = wire.shares()
    wire.send(PfcFrame.xon(port.mac, [priority]).encode())
    return found


def _without(priority: int, percent: dict[int, float]) -> dict[int, float]:
    """Return the shares of the others when one priority does not send."""
    others = {other: part for other, part in percent.items() if other != priority}
    return {other: part * 100 / sum(others.values()) for other, part in others.items()}


def _claim(
    run: Run, case: str, found: dict[int, float], wanted: dict[int, float], together: tuple[int, ...] = ()
) -> None:
    """Claim that each class has its part, within a twentieth of it, and that together they fill the line."""
    run.figure(f"{case}: percent of the line", {priority: round(part, 1) for priority, part in found.items()})
    for priority, percent in wanted.items():
        members = together if priority in together else (priority,)
        part = round(sum(found[member] for member in members), 2)
        label = f"{case}: percent of {' and '.join(map(str, members))}"
        run.claim(label, part, at_least=percent * 0.95, at_most=percent * 1.05)
    run.claim(f"{case}: percent in all", round(sum(found.values()), 2), at_least=99, at_most=101)


class Wire:
    """The cable between h1 and s1, at the switch's end."""

    def __init__(self, net: Network) -> None:
        with kernel.in_network_of(net["s1"].pid):
            self._tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        self._tap.bind(("s1-eth1", _ETH_P_ALL))
        self._tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 32 << 20)
        self._tap.setblocking(False)
        self._raw = RawPort(net["s1"], "s1-eth1", past_queues=True)

    def send(self, frame: bytes) -> None:
        self._raw.send(frame)

    def shares(self) -> dict[int, float]:
        """Return the percent of the line that incoming frames of each priority take, for a while from now on."""
        for _ in self._frames():
            pass
        begin_ns = time.monotonic_ns()
        time.sleep(LASTS)
        lasted_ns = time.monotonic_ns() - begin_ns
        count = Counter(frame[15] >> 5 for frame in self._frames())  # a flow's DSCP is 8 times its priority
        time_ns = LINE.time_for(FRAME + Size("24B")).ns
        return {priority: 100 * count[priority] * time_ns / lasted_ns for priority in PRIORITIES}

    def _frames(self) -> Iterator[bytes]:
        while True:
            try:
                frame = self._tap.recv(64)
            except BlockingIOError:
                return
            if frame[12:14] == _IPV4:
                yield frame
