"""What a node's speaker puts on its ports, also after it was killed and started again."""

from __future__ import annotations

from .conftest import Runner


def test_ets_on_a_host_port_without_a_scheduler_is_refused(run: Runner) -> None:
    result = run("dcbx_ports:ets_where_it_cannot_be").check()
    assert result.figure("said") == {
        "h1-eth0": "h1-eth0 cannot run ETS: as it was made each of its queues has line rate; "
        "give it ETS from the start, Port().with_dcbx(ets=True)",
        "s1-eth1": "done",
    }


def test_a_speaker_killed_while_queues_drain_leaves_no_priority_in_a_class_that_it_left(run: Runner) -> None:
    assert run("dcbx_ports:die_while_queues_drain").check().passed
