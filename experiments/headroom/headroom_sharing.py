"""A burst makes a switch pause its senders if each group has headroom of its own, and not with DSH."""

from dataclasses import dataclass
from typing import Annotated

from testbed.net.watch.readings import whole_port
from xoff import (
    Between,
    Buffer,
    Cable,
    Duration,
    Dynamic,
    DynamicSharedHeadroom,
    Flow,
    Incast,
    PfcSettings,
    Port,
    Run,
    SharedHeadroomPool,
    Size,
    experiment,
    network,
)

PRIORITY, LOSSLESS = 3, frozenset(range(7))
CABLE = Cable("100Gb/s", delay="2us")
ETA = 56_840
"""The published headroom of a queue, in octets: two times line rate by delay and an MTU, and 3840 octets."""
BURSTING, BACKGROUND = 16, 2
PORTS = BURSTING + BACKGROUND + 2
SHARED = 75 * 2 * ETA
"""The octets that DSH leaves to share. Static headroom leaves a fifth, as at the 32 ports of the publication."""
TOTAL = SHARED + PORTS * ETA
POLICIES: dict[str, int | SharedHeadroomPool | DynamicSharedHeadroom] = {
    "per group": ETA,
    "shared pool": SharedHeadroomPool(ETA),
    "dsh": DynamicSharedHeadroom(ETA),
}
FRAME = 1514
BACKGROUND_FRAMES, BEFORE_BURST = 1600, Duration("100us")
"""A background flow has sent some 800 frames when the burst begins, and its group has reached its threshold."""


@dataclass(frozen=True)
class Seen:
    """The pauses and losses of a burst."""

    pauses: int  # XOFF to senders of the burst
    background: int  # XOFF to the background's senders
    whole: int  # pauses of whole ports
    lost: int
    shared: int  # what the switch has to share
    most: int  # the most that a sender's group held


@experiment(timeout="120s", free_cpu=True)
def headroom_sharing(run: Run, percent: Annotated[int, Between(15, 30)] = 25) -> None:
    """A burst of a quarter of the buffer, by headroom for each group, SONiC's shared pool, and DSH.

    Two background flows at line rate overload one port, so that their groups stay at their thresholds. Then 16 hosts
    send a burst to another port, each at line rate, which is so many percent of the switch's buffer. With headroom for
    each of seven lossless priorities of each port a fifth is left to share of what DSH leaves, and the senders are
    paused. With DSH none of them is. SONiC's pool, half of the static headroom here, is between them. Nothing is lost.
    The control case is static headroom with a burst of 5 %, which pauses nobody.
    """
    found = {policy: _burst(policy, percent) for policy in POLICIES}
    small = _burst("per group", 5)
    for policy, seen in found.items():
        run.figure(f"{policy}: pauses of the burst's senders", seen.pauses)
        run.figure(f"{policy}: pauses of the background's senders", seen.background)
        run.figure(f"{policy}: to share", Size.from_bytes(seen.shared))
        run.figure(f"{policy}: most that a group of the burst held", Size.from_bytes(seen.most))
        run.claim(f"{policy}: lost", seen.lost, equals=0)
        run.claim(f"{policy}: the background is paused", seen.background, at_least=1)
    run.claim("per group: the burst's senders that are paused", found["per group"].pauses, at_least=BURSTING)
    run.claim("dsh: pauses of the burst's senders", found["dsh"].pauses, equals=0)
    run.claim("dsh: pauses of a whole port", found["dsh"].whole, equals=0)
    run.claim("per group: pauses of the burst's senders at 5 %", small.pauses, equals=0)


def _burst(policy: str, percent: int) -> Seen:
    """Send a burst of so many percent of the buffer, an equal part from each of its senders."""
    frames = TOTAL * percent // 100 // FRAME // BURSTING
    port = Port(pfc=PfcSettings(enabled=LOSSLESS))
    buffer = Buffer(TOTAL, cell=1, xoff=Dynamic("1/16"), xon_offset=0, headroom=POLICIES[policy])
    topo = Incast(n=PORTS - 1, cable=CABLE, port=port, buffer=buffer)
    with network(topo) as net:
        hosts = list(net.hosts)
        background, bursting = hosts[:BACKGROUND], hosts[BACKGROUND : BACKGROUND + BURSTING]
        first, second = hosts[-2:]
        flows = net.run(
            *(Flow(host, first, frame=f"{FRAME}B", count=BACKGROUND_FRAMES) for host in background),
            *(Flow(host, second, frame=f"{FRAME}B", count=frames, start=BEFORE_BURST) for host in bursting),
        )
        at = {host: net.fabric.between("s1", host.name).name for host in hosts}
        return Seen(
            sum(net.fabric.pfc(at[host], PRIORITY)["xoff_sent"] for host in bursting),
            sum(net.fabric.pfc(at[host], PRIORITY)["xoff_sent"] for host in background),
            sum(whole_port(net.fabric, at[host]).pauses for host in hosts),
            flows.lost,
            net.fabric.buffer("s1").size[1],
            max(net.fabric.group(at[host], PRIORITY).most_cells for host in bursting),
        )
