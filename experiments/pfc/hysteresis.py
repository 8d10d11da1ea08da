"""XON comes exactly at the configured offset below the threshold, and a larger offset means fewer pauses."""

from itertools import pairwise
from typing import Annotated

from xoff import (
    Between,
    Buffer,
    Flow,
    Incast,
    LoggedEvent,
    Rate,
    Run,
    Size,
    Static,
    StoppedQueue,
    experiment,
    network,
    total_rate,
)

CELL = 208
FRAME = Size("1514B")
LINE = Rate("10Gb/s")
THRESHOLD = 200
OFFSETS = (0, 1, 8, 9, 100, 200)
LIVE_OFFSETS = (0, 24, 56, 120)
HEADROOM = 100


@experiment(timeout="200s")
def hysteresis(run: Run, frames: Annotated[int, Between(200, 1000)] = 400) -> None:
    """XON comes exactly at its offset below the threshold, and a larger offset means fewer pauses.

    First a queue drains frame by frame until XON reaches the sender: that is when headroom is empty and use has fallen
    by the offset. Then two senders overload a port, with offsets from 0 up. The control case is the offset 0: the first
    frame that leaves ends the pause, the next that comes begins another, and pauses are most frequent.
    """
    _exactly(run)
    _in_traffic(run, frames)


def _exactly(run: Run) -> None:
    """Claim that XON comes when the frame in headroom has left, and then as many as the offset asks for."""
    for offset in OFFSETS:
        with (
            network(Incast(n=1, buffer=_buffer(offset, ports=2))) as net,
            StoppedQueue(net) as steps,
        ):
            for octets, cells in ((208, 1), (1514, 8)):
                fits = THRESHOLD // cells
                steps.fill([("h1", octets)] * (fits + 1))
                arrived, resumed = steps.drain()
                label = f"offset {offset}, frames of {cells} cells"
                run.claim(f"{label}: XON comes when so many have left", resumed, equals={"h1": 1 + -(-offset // cells)})
                run.claim(f"{label}: arrived in the end", arrived, equals=fits + 1)


def _in_traffic(run: Run, frames: int) -> None:
    pauses = {}
    for offset in LIVE_OFFSETS:
        with network(Incast(n=2, buffer=_buffer(offset, ports=3))) as net:
            *hosts, target = net.hosts
            flows = net.run(*(Flow(host, target, frame=FRAME, count=frames) for host in hosts))
            found = [net.fabric.pfc(f"{host.name}-eth0", 3)["xoff_received"] for host in hosts]
            levels = _levels(net.fabric.events())
        pauses[offset] = sum(found)
        label = f"offset {offset}, two senders at line rate"
        run.claim(f"{label}: cells in use at each XON", levels, equals=[(THRESHOLD - offset) // 8 * 8])
        run.claim(f"{label}: lost", flows.lost, equals=0)
        run.claim(f"{label}: goodput", total_rate(flows.reports), at_least=LINE * 99 // 100)
        if offset:  # a group that was relieved has to be sent so many cells before it is congested again
            most = len(hosts) * (frames * 8 // offset + 1)
            run.claim(f"{label}: pauses", pauses[offset], at_most=most)
    counts = list(pauses.values())
    run.figure("pauses by offset", pauses)
    falling = all(more > fewer for more, fewer in pairwise(counts))
    run.claim("a larger offset means fewer pauses", falling, equals=True)


def _levels(events: list[LoggedEvent]) -> list[int]:
    """Return the different numbers of shared cells that groups had when they were relieved."""
    relieved = {(event.lab_ns, event.port) for event in events if event.kind == "relieved"}
    crossings = [event for event in events if event.kind == "threshold" and (event.lab_ns, event.port) in relieved]
    return sorted({event.detail["shared_cells"] for event in crossings})


def _buffer(offset: int, ports: int) -> Buffer:
    total = ports * (THRESHOLD + HEADROOM)
    return Buffer(total=total, cell=CELL, xoff=Static(THRESHOLD), xon_offset=offset, headroom=HEADROOM)
