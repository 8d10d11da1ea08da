"""Frames that a report follows over cables: each has an end, and PFC frames arrive when the log of events has them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed import lab
from testbed.lab import Run, experiment

if TYPE_CHECKING:
    from testbed.lab.engines.engine import PreparedEngine
    from testbed.report.replay.window import Replay

WHOLE_FRAMES = 1 << 16


@experiment(timeout="60s")
def two_to_one(run: Run, forwarding: str = "") -> None:
    """Two senders and one receiver over cables of 5 us, with nodes that have frames by their first or last bits."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    options: dict[str, Any] = {"forwarding": forwarding} if forwarding else {}
    topo = Incast(2, delay="5us", buffer=Buffer(total=800), **options)
    with network(topo, run, autoStaticArp=True) as net:
        *senders, target = net.hosts
        with Flows([Flow(sender, target, 3, count=300) for sender in senders]) as running:
            running.wait()
    run.claim("lost", sum(report.lost for report in running.reports), equals=0)


def followed(result: lab.Result) -> list[Replay]:
    from testbed.lab.results.folder import read
    from testbed.report.replay.window import replays
    from testbed.report.timeline.tracks import tracks

    assert result.folder is not None
    folder = read(result.folder)
    found = replays(folder, tracks(folder))
    assert found.problem == "" and found.notes == []
    return found.found


def received(result: lab.Result, kind: str) -> Counter[tuple[str, int]]:
    """Return the times of events of the log, by port."""
    assert result.folder is not None
    lines = (result.folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return Counter((one["port"], one["t"]) for one in map(json.loads, lines) if one["event"] == kind)


def pfc(replay: Replay, kind: str) -> Counter[tuple[str, int]]:
    """Return the times at which PFC frames have arrived with their last bits, by port."""
    return Counter(
        (replay.directions[hop.direction].target, hop.done_ns) for hop in replay.hops if hop.identity.kind.name == kind
    )


def lines_are_free(replay: Replay) -> None:
    free: dict[int, int] = {}
    for hop in replay.hops:
        line_ns = replay.directions[hop.direction].line_ns(hop.octets)
        assert hop.leaves_ns >= free.get(hop.direction, 0), "a port begins to send before its last frame has left"
        free[hop.direction] = hop.leaves_ns + line_ns


def fates(replay: Replay) -> Counter[str]:
    return Counter(hop.fate.name for hop in replay.hops if replay.flow_of(hop))


def test_each_frame_of_incast_goes_on_arrives_or_is_dropped(ready: PreparedEngine, tmp_path: Path) -> None:
    from tests.lab import once

    result = once.run("incast", {"frames": 200}, on=ready, out=tmp_path, capture_octets=WHOLE_FRAMES).check()
    with_pfc, without = followed(result)
    assert with_pfc.left_out == without.left_out == 0
    assert with_pfc.flows == without.flows == [("h1", "r", 3), ("h2", "r", 3)]
    assert fates(with_pfc) == {"GOES_ON": 400, "ARRIVED": 400}
    _, arrived, lost = result.figure("without PFC: frames sent, received, lost")
    ends = fates(without)
    assert ends == {"GOES_ON": arrived, "ARRIVED": arrived, "DROPPED": lost} and lost > 50
    assert sum(received(result, "drop").values()) == lost, "the last drops too, which wake no agent"
    lines_are_free(with_pfc)
    assert pfc(with_pfc, "XOFF").keys() == received(result, "xoff_received").keys(), "to the nanosecond"
    assert pfc(with_pfc, "XON").keys() == received(result, "xon_received").keys()


def test_a_pfc_frame_arrives_when_the_log_has_it_however_nodes_have_frames(
    ready: PreparedEngine, tmp_path: Path
) -> None:
    for forwarding in ("", "cut-through", "store-and-forward"):
        result = lab.run(
            two_to_one, parameters={"forwarding": forwarding}, on=ready, out=tmp_path, capture_octets=WHOLE_FRAMES
        ).check()
        (replay,) = followed(result)
        assert {way.forwarding for way in replay.directions} == {forwarding}
        assert fates(replay) == {"GOES_ON": 600, "ARRIVED": 600}, forwarding
        lines_are_free(replay)
        seen, logged = sorted(pfc(replay, "XOFF")), sorted(received(result, "xoff_received"))
        assert [port for port, _ in seen] == [port for port, _ in logged] and len(seen) > 2
        late = [one - other for (_, one), (_, other) in zip(logged, seen, strict=True)]
        assert min(late) >= -1 and max(late) <= 1000, (forwarding, late)
