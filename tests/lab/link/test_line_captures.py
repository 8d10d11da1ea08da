"""Captures of lines with Link Layer Retry: preambles, replays, losses and ordered sets, without a change of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from testbed import lab
from testbed.frames.capture_file import frames
from testbed.lab import Run, experiment
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.job.job import WHOLE_FRAMES
from testbed.subjects.link.llr import record
from testbed.subjects.link.llr.ordered_set import Kind, OrderedSet
from testbed.subjects.link.llr.record import Fate, Record

if TYPE_CHECKING:
    from tests.lab.conftest import Runner


@experiment(timeout="60s")
def disturbed(run: Run) -> None:
    """100 frames over a cable with LLR that loses the 50th, damages the 70th that it carries, and loses an ACK."""
    from testbed.net.build.network import network
    from testbed.net.fabric.cable import Cable
    from testbed.net.traffic import Flow
    from testbed.switch.link.jam import Jam
    from topologies.incast import Incast

    with network(Incast(1, cable=Cable("10Gb/s", "100m", llr=True)), run) as net:
        net.fabric.core.cabling.jam("h1-eth0", Jam("frame", "lost", 50), Jam("frame", "damaged", 70))
        net.fabric.core.cabling.jam("s1-eth1", Jam("ack", "lost", 3))
        net.run(Flow("h1", "r", frame="1514B", count=100))
        sender = net.fabric.llr("h1-eth0")
        run.figure("sent", sender["TX_OK"])
        run.figure("replays", sender["TX_REPLAY"])
        run.figure("acknowledgements", net.fabric.llr("s1-eth1")["TX_ACK_CTL_OS"])
        events = [(one.kind, one.port, one.detail["sequence"]) for one in net.fabric.events()
                  if one.kind.startswith("llr")]  # fmt: skip
        run.claim("replays as events", events, equals=[("llr_replay", "h1-eth0", 49), ("llr_replay", "h1-eth0", 67)])


def records(folder: Path, source: str, target: str) -> list[tuple[int, Record, int]]:
    """Return what was on a line: when it came, what, and its length."""
    with (folder / "captures/1" / f"{source}-to-{target}.line.pcapng").open("rb") as file:
        return [(one.t_ns or 0, record.parse(one.octets), one.length) for one in frames(file)]


def test_a_capture_has_what_was_on_a_line_with_llr_and_changes_nothing(
    ready: PreparedEngine, tmp_path: Path, run: Runner
) -> None:
    seen = lab.run(disturbed, on=ready, out=tmp_path, capture_octets=WHOLE_FRAMES).check()
    without = run(disturbed).check()
    assert seen.folder is not None and without.folder is not None
    assert (seen.figures, seen.claims) == (without.figures, without.claims)
    log = (seen.folder / "events.jsonl").read_text()
    assert log == (without.folder / "events.jsonl").read_text()
    replays = [line for line in map(json.loads, log.splitlines()) if line["event"] == "llr_replay"]
    assert [(one["port"], one["sequence"]) for one in replays] == [("h1-eth0", 49), ("h1-eth0", 67)]

    there, back = records(seen.folder, "h1-eth0", "s1-eth1"), records(seen.folder, "s1-eth1", "h1-eth0")
    assert [t_ns for t_ns, _, _ in there] == sorted(t_ns for t_ns, _, _ in there)
    sent = [one for _, one, _ in there if isinstance(one.content, int)]
    assert len(sent) == seen.figure("sent")
    assert [one.content for one in sent if one.fate is Fate.LOST] == [49]
    assert [one.content for one in sent if one.fate is Fate.DAMAGED] == [67]
    again = [one.content for one in sent if one.is_replay]
    assert len(again) == len(sent) - 100 and again[0] == 49 and 67 in again
    assert {length for _, one, length in there if isinstance(one.content, int)} == {record.HEADER + 1514}
    assert all(one.frame[12:14] == b"\x08\x00" and len(one.frame) == record.KEPT for one in sent)

    sets = [one for _, one, _ in back if isinstance(one.content, OrderedSet)]
    asked = [
        one.content.sequence for one in sets if isinstance(one.content, OrderedSet) and one.content.kind is Kind.NACK
    ]
    assert asked == [49, 67]
    acks = [one for one in sets if isinstance(one.content, OrderedSet) and one.content.kind is Kind.ACK]
    assert len(acks) == seen.figure("acknowledgements")
    assert [place for place, one in enumerate(acks, 1) if one.fate is Fate.LOST] == [3]

    plain = seen.folder / "captures/1/h1-eth0-to-s1-eth1.pcapng"
    with plain.open("rb") as file:
        assert sum(1 for _ in frames(file)) == 100, "the file of frames has what was passed on"
