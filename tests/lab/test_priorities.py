"""The port program finds the priorities that the reference finds, in real frames, and makes the same of these."""

from __future__ import annotations

from .conftest import Runner


def test_forwarded_frames_have_the_group_the_queue_and_the_octets_of_the_reference(run: Runner) -> None:
    result = run("priorities:forwards_as_the_reference").check()
    kinds = result.figure("kinds")
    sources = ["dscp, by dscp", "dscp, by pcp", "dscp, by port", "dot1p, by pcp", "dot1p, by port", "none, by port"]
    assert all(kinds[kind] > 300 for kind in [*sources, "rewritten pcp", "rewritten dscp"]), kinds


def test_a_hosts_own_frames_are_marked_as_by_the_reference(run: Runner) -> None:
    kinds = run("priorities:marks_as_the_reference").check().figure("kinds")
    changes = ["dot1p: pcp", "dot1p: tag added", "dscp: dscp"]
    assert all(kinds[kind] > 100 for kind in [*changes, "dscp: carried", "dscp: not carried", "by application"]), kinds


def test_a_table_of_vls_gives_frames_the_tag_and_the_queue_of_the_reference_or_drops_them(run: Runner) -> None:
    kinds = run("priorities:chooses_lanes_as_the_reference").check().figure("kinds")
    for way in ("forwarded", "own"):
        assert all(kinds[f"{way}: {what}"] > 100 for what in ("pcp", "tag added", "dropped", "unchanged")), kinds
