"""The headroom that Linux' driver of ConnectX adapters computes, and what of it the lab needs."""

from testbed.switch.headroom.calculation import HeadroomPort
from testbed.switch.headroom.vendor import ETHERNET_BYTES, MLX5
from xoff import Flow, Incast, Length, Rate, Run, Size, experiment, network

SOURCE = "Linux, drivers/net/ethernet/mellanox/mlx5/core/en/port_buffer.c: (301 + 2.16 m) x Gb/s + 2.72 MTU octets"
MTU = 4096
PUBLISHED = (("100Gb/s", "100m", 62_841), ("400Gb/s", "100m", 217_941), ("400Gb/s", "5m", 135_861))
CELL = 208
XOFF = 100
FRAME = Size(f"{MTU + 14}B")


@experiment(timeout="60s")
def mlx5_headroom(run: Run) -> None:
    """The headroom that the mlx5 driver keeps, and how much of it the lab needs.

    Two hosts send to a third one, with the formula's headroom at the switch: nothing is lost. Most of the formula is
    what the interfaces of both ends may take, and in the lab they take next to nothing. The control case has headroom
    for a single frame, which is less than the cable holds, and loses some.
    """
    for rate, length, octets in PUBLISHED:
        found = MLX5.headroom(HeadroomPort(Rate(rate), max_frame=MTU + ETHERNET_BYTES), Length(length))
        run.published(f"{rate}, {length}: octets of headroom", found.bytes, value=octets, within=0, source=SOURCE)
    for rate, length, _ in PUBLISHED:
        found = MLX5.headroom(HeadroomPort(Rate(rate), max_frame=MTU + ETHERNET_BYTES), Length(length))
        case = f"{rate}, {length}"
        lost, pauses, used = _loaded(rate, length, found.cells)
        run.claim(f"{case}: lost", lost, equals=0)
        run.claim(f"{case}: pauses", pauses, at_least=2)
        run.published(
            f"{case}: octets of headroom that were used",
            used * CELL,
            value=found.bytes,
            source=SOURCE,
            differs="interfaces take no time in the lab, its agents take 66 ns, and PFC frames wait for no other frame",
        )
    lost, _, _ = _loaded("100Gb/s", "100m", -(-FRAME.bytes // CELL))
    run.claim("100Gb/s, 100m, headroom of a frame: lost", lost, at_least=1)


def _loaded(rate: str, length: str, headroom: int) -> tuple[int, int, int]:
    """Return lost frames, pauses, and the most cells of headroom that one sender's port used."""
    with network(Incast(2, rate=rate, length=length, mtu=MTU, total=20_000, xoff=XOFF, headroom=headroom)) as net:
        flows = net.run(Flow("h1", "r", frame=FRAME, count=400), Flow("h2", "r", frame=FRAME, count=400))
        groups = [net.fabric.group(net.port("s1", host), 3) for host in ("h1", "h2")]
        return flows.lost, sum(one.xoffs for one in groups), max(one.high_water[2] for one in groups)
