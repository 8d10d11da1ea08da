"""Xoff inside Mininet's own command, as the docs show it."""

from __future__ import annotations

import re

from tests.lab.conftest import Runner

_NUMBERS = re.compile(r"(\d+) senders, (\d+) frames sent, (\d+) received, (\d+) dropped")


def test_the_lossless_test_pauses_senders_and_loses_nothing(run: Runner) -> None:
    result = run("mininet_command:lossless_test")
    said = result.figure("said")
    assert result.figure("code") == 0, said
    found = _NUMBERS.search(said)
    assert found, said
    senders, sent, received, dropped = map(int, found.groups())
    assert (senders, sent, received, dropped) == (4, 2400, 2400, 0)
    first = next(line.split() for line in said.splitlines() if line.startswith("h1-eth0"))
    assert int(first[5]) >= 1, "the senders were paused"


def test_the_command_line_shows_pauses_buffers_ecn_and_settings(run: Runner) -> None:
    result = run("mininet_command:commands", typed="h1 ping -c 1 r;pfc h1;buffers s1;ecn;dcbx s1-eth1;pfc s9;help pfc")
    said = result.figure("said")
    assert result.figure("code") == 0
    assert "1 received, 0% packet loss" in said
    assert re.search(r"^h1-eth0 +3 +on ", said.replace("mininet> ", ""), re.MULTILINE)
    assert "s1: cells of 208 B" in said and re.search(r"s1-eth2 +3 +lossless", said)
    assert "no queue has ECN" in said
    assert re.search(r"s1-eth1 +h1-eth0 +10Mb/s +3 +same +dscp +equal", said)
    assert "*** there is no lossless port s9; there are h1-eth0" in said
    assert "pfc [NODE|PORT]" in said


def test_an_unknown_option_of_a_topology_is_one_clear_line_and_leaves_nothing(run: Runner) -> None:
    result = run("mininet_command:commands", topo="incast,2,rate=10Gbs")
    assert result.figure("code") != 0 or "10Gbs" in result.figure("said")
    assert "10Gbs" in result.figure("said")
    assert result.figure("namespaces left") == 0
