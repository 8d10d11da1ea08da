"""The headroom that Linux' driver of ConnectX adapters computes, and what of it the lab needs."""

from dataclasses import replace

from testbed.switch.headroom.calculation import Headroom, HeadroomPort
from testbed.switch.headroom.vendor import ETHERNET_BYTES, MLX5
from xoff import (
    Duration,
    Flow,
    Flows,
    Incast,
    Length,
    PfcFrame,
    Port,
    Rate,
    RawPort,
    Run,
    Size,
    experiment,
    network,
)  # fmt: skip

SOURCE = "Linux, drivers/net/ethernet/mellanox/mlx5/core/en/port_buffer.c: (301 + 2.16 m) x Gb/s + 2.72 MTU octets"
MTU = 4096
PUBLISHED = (("100Gb/s", "100m", 62_841), ("400Gb/s", "100m", 217_941), ("400Gb/s", "5m", 135_861))
CELL = 208
XOFF = 100
FRAME = Size(f"{MTU + 14}B")
INTERFACES = Duration("2408ns")
"""The time of 301 octets for each Gb/s, which the formula gives the interfaces of both ends."""
PRIORITY, FRAMES = 3, 200
HOLD, MOST_HOLDS = Duration("40us"), 1000
"""The time after which the receiver repeats its pause, which lasts 84 us at 400 Gb/s, and how often at most."""


@experiment(timeout="60s")
def mlx5_headroom(run: Run) -> None:
    """The headroom that the mlx5 driver keeps, and how much of it the lab needs.

    A host sends to a switch whose queue the receiver holds, with the formula's headroom, and obeys a pause as late as
    the formula lets interfaces: nothing is lost, and what it uses is the formula but for its longer cable and its 2.72
    MTU. The control cases are a host that obeys at once, which uses a part of that, and headroom for a single frame,
    which is less than the cable holds and loses some.
    """
    for rate, length, octets in PUBLISHED:
        found = _by_formula(rate, length)
        case = f"{rate}, {length}"
        run.claim(f"{case}: octets of headroom", found.bytes, equals=octets)
        lost, pauses, used = _loaded(rate, length, found.cells, INTERFACES)
        run.claim(f"{case}: lost", lost, equals=0)
        run.claim(f"{case}: pauses", pauses, at_least=1)
        run.published(
            f"{case}: octets of headroom that were used", used * CELL, value=octets, within=_differ(rate, length),
            source=SOURCE,
            differs="17.28 ns a metre there and back in the formula, and 10 in the lab; the formula's 2.72 MTU are for "
            "frames that the lab's PFC frames need not wait for",
        )  # fmt: skip
    rate, length, octets = PUBLISHED[0]
    _, _, used = _loaded(rate, length, _by_formula(rate, length).cells, Duration("0s"))
    run.claim(f"{rate}, {length}, a host that obeys at once: octets of headroom that were used", used * CELL,
              at_most=octets - _differ(rate, length) - 1)  # fmt: skip
    lost, _, _ = _loaded(rate, length, -(-FRAME.bytes // CELL), INTERFACES)
    run.claim(f"{rate}, {length}, headroom of a frame: lost", lost, at_least=1)


def _by_formula(rate: str, length: str) -> Headroom:
    return MLX5.headroom(HeadroomPort(Rate(rate), max_frame=MTU + ETHERNET_BYTES), Length(length))


def _differ(rate: str, length: str) -> int:
    """Return the octets that the formula has for its longer cable and for frames."""
    cable = Rate(rate).bps * Length(length).mm * 7280 // (8 * 10**15)
    return cable + MTU * 272 // 100


def _loaded(rate: str, length: str, headroom: int, interfaces: Duration) -> tuple[int, int, int]:
    """Send to a switch whose queue the receiver holds.

    Return lost frames, pauses of the sender, and the cells of headroom that its port used.
    """
    host = replace(Port(), obeys_after=interfaces)
    topo = Incast(
        1, rate=rate, length=length, mtu=MTU, total=20_000, xoff=XOFF, headroom=headroom, hopts={"port": host}
    )
    with (
        network(topo, case=f"{rate}, {length}, {interfaces}, {headroom} cells") as net,
        RawPort(net["r"], "r-eth0") as wire,
    ):
        port, held = net.port("s1", "h1"), PfcFrame.xoff(net.fabric.port("r-eth0").mac, [PRIORITY]).encode()
        wire.send(held)
        with Flows([Flow("h1", "r", PRIORITY, frame=FRAME, count=FRAMES)]) as flows:
            for _ in range(MOST_HOLDS):
                wire.repeat(held, net.lab_ns(HOLD), 2)
                if net.fabric.group(port, PRIORITY).xoffs:
                    break
            wire.repeat(held, net.lab_ns(HOLD), 2)  # until the last frame that the sender had begun is there
            flows.wait()
        group = net.fabric.group(port, PRIORITY)
        return flows.lost, group.xoffs, group.high_water[2]
