"""Trimming in place of loss: four hosts send to one, and what the buffer has no room for is cut."""

from typing import Annotated, Any

from xoff import Between, Flow, Incast, Port, Run, Size, experiment, network

PRIORITY, REST_QUEUE = 3, 6
DSCP = 48
FRAME = Size("1514B")
WIRE = 24
"""Octets of the line beside a frame's own: FCS, preamble and gap."""
CELLS = 1500


@experiment(timeout="120s")
def trimming(
    run: Run,
    senders: Annotated[int, Between(2, 8)] = 4,
    frames: Annotated[int, Between(300, 1200)] = 600,
    size: Annotated[int, Between(64, 256)] = 128,
) -> None:
    """Four hosts send to one without PFC: frames without room are cut to 128 octets, and none is lost.

    Every frame arrives, whole or as a rest with another DSCP, and no rest is dropped. Whole frames share the line with
    the rests of all others: of n senders, w + (n - w) x rest / frame = 1 in each frame time, in octets on the wire, and
    what the buffer holds at the end leaves whole, too. Arrived frames and octets equal those delivered, trimmed, and
    dropped by reason, by the switch's own counters. The control case is the same without trimming: frames are lost.
    """
    plain = Port(strict=frozenset({REST_QUEUE})).without_pfc()
    case = "trimmed"
    found = _run(run, case, plain.with_trimming(PRIORITY, size=size, dscp=DSCP, queue=REST_QUEUE), senders, frames)
    sent, per_frame = senders * frames, FRAME.bytes + WIRE
    whole, trimmed = found["whole"], found["trimmed"]
    run.claim(f"{case}: frames sent, that arrived whole and as rests", [sent, whole + trimmed.sent_frames],
              equals=[sent, sent])  # fmt: skip
    run.claim(f"{case}: frames lost", found["lost"], equals=0)
    run.claim(f"{case}: rests dropped", trimmed.dropped_frames, equals=0)
    run.claim(f"{case}: octets that the switch's groups took in, trimmed and dropped", found["octets in"],
              equals=sent * FRAME.bytes)  # fmt: skip
    run.claim(f"{case}: octets sent on", found["octets out"], equals=whole * FRAME.bytes + trimmed.sent_frames * size)
    # While all send, rests go first, and whole frames have what they leave of the line.
    part = (size + WIRE) / per_frame
    share = (1 - senders * part) / (1 - part)
    cells = -(-FRAME.bytes // 208)
    held = CELLS // cells
    expected = int(share * frames)
    run.figure(f"{case}: frames that arrived whole, and as rests", [whole, trimmed.frames])
    run.figure(f"{case}: whole frames by the law, without what the buffer holds at the end", expected)
    run.claim(f"{case}: whole frames beyond the law, of those that the buffer can hold", whole - expected,
              at_least=0, at_most=held)  # fmt: skip

    case = "dropped"
    found = _run(run, case, plain, senders, frames)
    run.figure(f"{case}: frames that arrived whole, and as rests", [found["whole"], 0])
    run.claim(f"{case}: frames lost", found["lost"], at_least=1)
    run.claim(f"{case}: frames dropped by the buffer", found["dropped"], equals=found["lost"])


def _run(run: Run, case: str, port: Port, senders: int, frames: int) -> dict[str, Any]:
    with network(Incast(n=senders, port=port, total=CELLS), case=case) as net:
        *hosts, target = net.hosts
        flows = net.run(*(Flow(host, target, PRIORITY, FRAME, count=frames) for host in hosts))
        out = net.fabric.between("s1", target.name).name
        sent, trimmed = net.fabric.sent(out), net.fabric.trimmed(out)
        groups = [net.fabric.group(f"s1-eth{number}", PRIORITY) for number in range(1, senders + 1)]
        whole = sum(group.admitted_frames for group in groups)
        dropped = net.fabric.dropped()
        return {
            "whole": whole,
            "trimmed": trimmed,
            "lost": sum(report.lost for report in flows.reports),
            "dropped": dropped,
            "octets in": whole * FRAME.bytes + trimmed.octets + dropped * FRAME.bytes,
            "octets out": sum(sent.sent_bytes),
        }
