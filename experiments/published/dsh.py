"""DSH: the burst that a switch takes without a pause, by headroom for each queue and by shared headroom."""

from dataclasses import dataclass

from testbed.net.watch.readings import whole_port
from xoff import (
    Buffer,
    Cable,
    Duration,
    Dynamic,
    DynamicSharedHeadroom,
    Flow,
    Incast,
    LosslessTopo,
    PfcSettings,
    Port,
    Rate,
    Run,
    Size,
    experiment,
    network,
)

SOURCE = "Shan et al., Efficient Headroom Allocation with Two-level Flow Control (DSH), figures 11 and 13"
LINE = Rate("100Gb/s")
CABLE = Cable(LINE, delay="2us")
PRIORITY, LOSSLESS = 3, frozenset(range(7))
ETA = 56_840
"""The published headroom of a queue, in octets: two times line rate by delay and an MTU, and 3840 octets."""
PORTS, TOTAL, PRIVATE = 32, 16 << 20, 3 << 10
"""16 MB, of which 12 are headroom and 672 KB private: 1024 x 1024 and 1024 octets, as 32 x 7 queues have so many."""
STATIC, DSH = ETA, DynamicSharedHeadroom(ETA)
FRAME = 1514
ON_THE_WIRE = FRAME + 24
BURSTING, BEFORE_BURST = 16, Duration("160us")
"""Background flows have filled their queues to the threshold when the burst begins."""
FAN_IN, EACH = 24, Size("64kB")


@dataclass(frozen=True)
class Burst:
    """The outcome of a burst."""

    unpaused: float | None
    """The percentage of the buffer that had come in when its first sender was paused; None if none was."""
    lost: int


@experiment(timeout="300s", free_cpu=True)
def dsh(run: Run) -> None:
    """The burst without a pause with headroom for each queue and with DSH, and an innocent flow beside a burst.

    Figure 11: two hosts overload one port of a switch with 32 x 100 Gb/s and 16 MB; then 16 hosts send a burst to
    another one. Published is that DSH pauses none of them up to 40 % of the buffer, over four times what static
    headroom takes. Figure 13: F0 and F1 share a cable with 50 Gb/s each, and 24 hosts send 64 KB to the receiver of
    F1. Published is that F0 falls with static headroom alone. The control case of each claim is the other policy.
    """
    static, shared = _burst("static", STATIC, 14), _burst("dsh", DSH, 46)
    for name, seen in (("static", static), ("dsh", shared)):
        run.claim(f"{name}: lost", seen.lost, equals=0)
    assert static.unpaused is not None and shared.unpaused is not None
    run.published(
        "dsh: burst without a pause, in percent of the buffer", shared.unpaused, value=40.0, within=2.0, source=SOURCE,
        differs="read from a plot with a step of 5 %; the lab's switch pauses at the octet",
    )  # fmt: skip
    run.published(
        "static: burst without a pause, in percent of the buffer", static.unpaused, value=10.0, within=1.0,
        source=SOURCE, differs="published as: DSH takes over four times as much",
    )  # fmt: skip
    run.published(
        "dsh: burst without a pause, times that of static headroom", round(shared.unpaused / static.unpaused, 2),
        value=4.0, source=SOURCE,
        differs="'over four times', from a plot with a step of 5 %; equal shares of what is left alone give 4.2, and "
        "background queues hold more than theirs when the burst begins",
    )  # fmt: skip
    for name, policy in (("static", STATIC), ("dsh", DSH)):
        pauses, lowest = _beside_burst(name, policy)
        if name == "static":
            run.claim("static: pauses of the cable that F0 shares", pauses, at_least=1)
            run.claim("static: F0 in percent of its rate, in the worst 10 us", lowest, at_most=50.0)
            continue
        run.published(
            "dsh: pauses of the cable that F0 shares", pauses, value=0, within=0, source=SOURCE,
            differs="hosts and cables of the figure are not stated: here F0 and F1 come by one cable of 100 Gb/s",
        )  # fmt: skip
        run.published(
            "dsh: F0 in percent of its rate, in the worst 10 us", lowest, value=100.0, within=5.0, source=SOURCE,
            differs="read from a plot; 10 us are 40 frames, of which two may come late",
        )  # fmt: skip


def _buffer(policy: int | DynamicSharedHeadroom) -> Buffer:
    return Buffer(TOTAL, cell=1, xoff=Dynamic("1/16"), xon_offset=0, guaranteed=PRIVATE, headroom=policy)


def _burst(name: str, policy: int | DynamicSharedHeadroom, percent: int) -> Burst:
    """Send a burst of so many percent, and look for the moment of the first pause of one of its senders."""
    frames = TOTAL * percent // 100 // FRAME // BURSTING
    topo = Incast(n=PORTS - 1, cable=CABLE, port=Port(pfc=PfcSettings(enabled=LOSSLESS)), buffer=_buffer(policy))
    with network(topo, case=f"burst, {name}") as net:
        hosts = [host.name for host in net.hosts]
        background, bursting, (first, second) = hosts[:2], hosts[2 : 2 + BURSTING], hosts[-2:]
        flows = net.run(
            *(Flow(host, first, PRIORITY, frame=f"{FRAME}B", count=2200) for host in background),
            *(Flow(host, second, PRIORITY, frame=f"{FRAME}B", count=frames, start=BEFORE_BURST) for host in bursting),
        )
        ports = {net.port("s1", host) for host in bursting}
        begin_ns = flows.reports[-1].begin_lab_ns + net.lab_ns(CABLE.delay)
        moments = [one.lab_ns for one in net.fabric.events() if one.kind == "xoff_sent" and one.port in ports]
        if not moments:
            return Burst(None, flows.lost)
        time_ns = (min(moments) - begin_ns) / net.lab_ns("1us") * 1000
        came = LINE.bps * time_ns / 8e9 * FRAME / ON_THE_WIRE * BURSTING
        return Burst(round(100 * came / TOTAL, 2), flows.lost)


class _Collateral(LosslessTopo):
    """h1 and h2 behind a cable of their own, and the hosts of the burst at the switch of the receivers."""

    def build(self) -> None:
        for switch in ("s0", "s1"):
            self.addSwitch(switch)
        self.addLink("s0", "s1")
        for number in (1, 2):
            self.addLink(self.addHost(f"h{number}"), "s0")
            self.addLink(self.addHost(f"r{number}"), "s1")
        for number in range(FAN_IN):
            self.addLink(self.addHost(f"b{number}"), "s1")


def _beside_burst(name: str, policy: int | DynamicSharedHeadroom) -> tuple[int, float]:
    """Return the pauses of the shared cable, and F0's lowest rate in percent of what it sends."""
    topo = _Collateral(cable=CABLE, port=Port(pfc=PfcSettings(enabled=LOSSLESS)), buffer=_buffer(policy))
    rate, lasts, frame = LINE // 2, Duration("300us"), f"{FRAME}B"
    burst = EACH.bytes // FRAME
    with network(topo, case=f"collateral, {name}") as net:
        flows = net.run(
            *(Flow(f"h{one}", f"r{one}", PRIORITY, frame=frame, rate=rate, duration=lasts) for one in (1, 2)),
            *(Flow(f"b{n}", "r2", PRIORITY, frame=frame, count=burst, start="100us") for n in range(FAN_IN)),
        )
        pauses = net.fabric.pfc(net.port("s1", "s0"), PRIORITY)["xoff_sent"]
        pauses += whole_port(net.fabric, net.port("s1", "s0")).pauses
    windows = flows.reports[0].windows[1:-2]
    whole = rate.bps * 10e-6 / 8 / ON_THE_WIRE
    return pauses, round(min(100.0, 100 * min(windows) / whole), 1)
