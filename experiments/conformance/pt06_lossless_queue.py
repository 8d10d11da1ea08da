"""PT06: trimmed packets that leave by a lossless queue."""

from dataclasses import replace

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._trimming import FRAMES, SIZE, trimmed, trims, without_trimming
from testbed.subjects.sonic.tables import Tables
from xoff import PfcFrame, RawPort

CAME = "rests that arrived"


def _by_lossless(tables: Tables) -> Tables:
    found = trims(tables)
    row = found.trimming
    assert row is not None
    lossless = sorted(next(iter(rows)) for rows in [tables.pfc_of(port) for port in tables.ports] if rows)
    return replace(found, trimming=replace(row, queue_index=lossless[-1]))


@case(ports=3, tables=_by_lossless, timeout="240s",
      control=Control("the action drop", without_trimming, fails=[CAME, "rests in the lossless queue"]))  # fmt: skip
def pt06_lossless_queue(bench: Bench) -> None:
    """Rests leave by a lossless queue: PFC for it holds them, and all arrive when it ends."""
    row = bench.given.tables.trimming
    queue = row.queue_index if row is not None else None
    assert isinstance(queue, int)
    with trimmed(bench) as on, RawPort(on.net["h3"], "h3-eth0", past_queues=True) as wire:
        priority = on.lossy[0]
        on.congest("h3", priority)
        before = on.fabric.sent(on.port("h3")).sent_frames[queue]
        on.send(on.frame("h3", priority))
        came = on.arrived("h3")
        sent = on.fabric.sent(on.port("h3")).sent_frames[queue] - before
        mac = on.fabric.port("h3-eth0").mac
        wire.send(PfcFrame.xoff(mac, [queue]).encode())
        on.net.sleep(bench.round_trip(on.net) + bench.paced("2us"))
        on.send(on.frame("h3", priority), 10)
        held = on.arrived("h3")
        wire.send(PfcFrame.xon(mac, [queue]).encode())
        on.net.sleep(bench.paced("20us"))
        resumed = on.arrived("h3")
        on.relieve("h3", priority)
    bench.claim(CAME, sum(one.octets == SIZE for one in came), equals=FRAMES)
    bench.claim("rests in the lossless queue", sent, equals=FRAMES)
    bench.claim("rests that arrived while it is paused, and afterwards", [len(held), len(resumed)], equals=[0, 10])
