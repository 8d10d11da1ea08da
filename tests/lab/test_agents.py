"""A dead agent freezes no port and loses nothing; a dead network leaves nothing behind."""

from __future__ import annotations

from testbed.lab.engine import Ready

from .conftest import Output, Runner, failed_claims


def test_a_pause_lasts_as_long_as_asked_although_the_agent_is_killed_in_it(run: Runner) -> None:
    assert run("agents:die_while_paused").check().passed


def test_agents_killed_under_congestion_lose_no_frame(run: Runner) -> None:
    assert run("agents:die_while_congested").check().passed


def test_agents_killed_at_random_moments_lose_nothing_where_the_cpu_is_free(run: Runner) -> None:
    assert run("agents:die_at_random").check().passed


def test_agents_killed_at_random_moments_lose_at_most_what_arrives_until_the_supervisor_notices(
    run: Runner, vm: Ready
) -> None:
    # The kernel's work for the end of a process takes milliseconds here, so timers are late and fidelity is degraded.
    result = run("agents:die_at_random", on=vm)
    assert result.claims and failed_claims(result) == set()


def test_an_agent_killed_in_a_storm_leaves_no_queue_shut(run: Runner) -> None:
    assert run("agents:die_in_a_storm").check().passed


def test_an_agent_that_keeps_dying_is_given_up_with_its_queues_open(run: Runner, output: Output) -> None:
    assert run("agents:die_too_often").check().passed
    assert output.err.decode() == "the agent of s1 died 6 times within a second; its PFC agent is disabled\n"


def test_agents_outlive_their_parent_and_end_with_the_network(run: Runner, output: Output) -> None:
    assert run("agents:parent_dies").check().passed
    assert output.err.decode() == (
        "the agent supervisor ended too early (-9): agents that died after that were not restarted\n"
    )


def test_a_killed_or_interrupted_network_leaves_nothing(run: Runner) -> None:
    assert run("agents:network_ends").check().passed


def test_networks_follow_each_other_whatever_became_of_the_one_before(run: Runner, vm: Ready) -> None:
    # Only a stock kernel counts the network namespaces that it has memory for.
    assert run("agents:networks_in_turn", on=vm).check().passed
