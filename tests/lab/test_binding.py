"""Binding SIDs in the kernels of real routers."""

from __future__ import annotations

from .conftest import Runner


def test_packets_by_a_binding_sid_go_the_policys_way_both_ways_round_and_whatever_dies(run: Runner) -> None:
    run("binding:binding_sids").check()


def test_500_policies_on_one_router_outlive_its_speaker(run: Runner) -> None:
    run("binding:five_hundred").check()
