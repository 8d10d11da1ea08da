"""The time within which a far end has to obey XOFF: headroom has to hold what it goes on to send."""

import time

from xoff import (
    Buffer,
    Cable,
    Duration,
    Flow,
    Flows,
    GroupSettings,
    LosslessTopo,
    Mac,
    PfcFrame,
    Port,
    Rate,
    RawPort,
    Run,
    Size,
    Static,
    experiment,
    network,
)

LINE = Rate("10Gb/s")
FRAME = Size("1514B")
FRAME_TIME = LINE.time_for(FRAME + Size("24B"))
CELLS = 8
"""The cells of 208 octets for each such frame."""
SHARED, HEADROOM = 10, 8
SLACK = HEADROOM
"""The slack of headroom in frame times: it has the frame that triggers XOFF, and those that begin until XOFF works."""
BURST = SHARED + HEADROOM + 7
BURSTS = 3
RECEIVER = Mac.parse("02:00:00:00:00:01")

# A frame that has begun goes out whole. XOFF works in the middle of one, so that neither the lab's own reaction nor a
# sender that waits for its turn on the CPU, each a few hundredths of a frame time, makes it one frame more or less.
DELAYS = {
    "none": FRAME_TIME * 0,
    "half of the slack": FRAME_TIME * SLACK // 2,
    "the slack less half a frame": FRAME_TIME * (2 * SLACK - 1) // 2,
    "the slack and half a frame": FRAME_TIME * (2 * SLACK + 1) // 2,
    "the slack and a frame and a half": FRAME_TIME * (2 * SLACK + 3) // 2,
    "the slack and four frames and a half": FRAME_TIME * (2 * SLACK + 9) // 2,
}
TOO_MANY = (0, 0, 0, 1, 2, 5)
"""Frames of each burst that find headroom full."""


@experiment(timeout="60s")
def response(run: Run) -> None:
    """Six senders obey XOFF later and later: once rate x delay reaches the slack of headroom, frames are lost.

    Each has a cable of its own length, so that its XOFF works one round trip later. The receiver has paused the switch,
    which has headroom of eight frames for each port, and everyone sends a burst at line rate. In the first control case
    the switch computes headroom from the cable, and nothing is lost; in the second there is no PFC, and everyone loses.
    """
    fixed = Buffer(xoff=Static(SHARED * CELLS), xon_offset=CELLS, headroom=HEADROOM * CELLS)
    for name, frames, (lost, pauses) in zip(DELAYS, TOO_MANY, _lost_and_pauses(fixed, Port()), strict=True):
        run.figure(f"delay of {name}", DELAYS[name])
        run.claim(f"delay of {name}: pauses", pauses, at_least=BURSTS)
        run.claim(f"delay of {name}: lost", lost, equals=frames * BURSTS)
    computed = Buffer(xoff=Static(SHARED * CELLS), xon_offset=CELLS)
    run.claim("computed headroom: lost", sum(lost for lost, _ in _lost_and_pauses(computed, Port())), equals=0)
    lossy = Buffer(lossy=GroupSettings(threshold=Static(SHARED * CELLS)))
    least = min(lost for lost, _ in _lost_and_pauses(lossy, Port().without_pfc()))
    run.claim("without PFC: lost by the sender that loses least", least, at_least=BURSTS)


def _lost_and_pauses(buffer: Buffer, port: Port) -> list[tuple[int, int]]:
    """Return for each sender the frames that it lost, and the XOFF frames that it received."""

    class Responses(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            for number, delay in enumerate(DELAYS.values(), 1):
                self.addLink(self.addHost(f"h{number}"), "s1", cable=Cable(LINE, delay=delay // 2))
            self.addLink(self.addHost("r"), "s1")

    numbers = range(1, len(DELAYS) + 1)
    lost = [0] * len(numbers)
    with network(Responses(buffer=buffer, port=port)) as net, RawPort(net["r"], "r-eth0") as wire:
        for _ in range(BURSTS):
            wire.send(PfcFrame.xoff(RECEIVER, [3]).encode())
            senders = [Flow(f"h{number}", "r", frame=FRAME, count=BURST) for number in numbers]
            with Flows(senders, settle=Duration("2ms")) as flows:
                time.sleep(0.2)
                wire.send(PfcFrame.xon(RECEIVER, [3]).encode())
                flows.wait()
            lost = [before + report.lost for before, report in zip(lost, flows.reports, strict=True)]
        pauses = [net.fabric.group(f"s1-eth{number}", 3).xoffs for number in numbers]
    return list(zip(lost, pauses, strict=True))
