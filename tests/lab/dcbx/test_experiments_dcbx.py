"""Real ports have the settings that DCBX agrees on, and a fault in how they get there would be seen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.lab.engines.engine import PreparedEngine
from tests.lab.conftest import Runner, failed_claims, kept

EXPERIMENTS = ("dcbx_negotiation", "dcbx_mismatch", "dcbx_willing", "dcbx_ets", "dcbx_applications")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_claim_holds_and_the_lab_kept_its_promises(
    ready: PreparedEngine, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = kept(name, ready, tmp_path)
    if name == "dcbx_negotiation":
        assert result.folder is not None
        shows_both_ladders(result.folder, capsys)


def shows_both_ladders(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The host is new to a bridge that has been up, as in the draft: three arrows, whichever machine it is."""
    symmetric = ladder_from_the_goodbye_on(result, "n1-eth0", "s1-eth1", capsys)
    assert [line for line in symmetric if "▶" in line or "◀" in line][:3] == [
        "─── PFC none, willing ▶",
        "◀ as before ───",
        "─── PFC 3,4, willing ▶",
    ]
    assert "├ PFC 3,4, the peer's: this port is willing and the peer is not" in symmetric
    asymmetric = ladder_from_the_goodbye_on(result, "n4-eth0", "s1-eth4", capsys)
    assert [line for line in asymmetric if "▶" in line or "◀" in line][:4] == [
        "◀ TC 8; ETS 0:12 1:12 2:12 3:12 4:12 5:12 6:12 7:16 / 01234567, not willing ───",  # and again RV 0
        "─── TC 8; ETS 0:40 1:30 2:30 / 0001222S, willing ▶",
        "◀ recommends ETS 0:15 1:55 2:30 (RV 1) ───",
        "─── ETS 0:15 1:55 2:30 / 0001222S, willing ▶",
    ]
    assert "├ ETS 0:15 1:55 2:30 / 0001222S, the peer's recommendation: this port is willing" in asymmetric


def ladder_from_the_goodbye_on(result: Path, left: str, right: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the output of `xoff export --ladder` after the host's goodbye, without times and lines of the drawing."""
    assert main(["export", str(result), "--ladder", left, right]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == [left, right]
    goodbye = next(number for number, line in enumerate(lines) if "shutdown (TTL 0)" in line)
    plain = (re.sub(r"^ *[0-9.]* │?|│$|; arrives at [0-9.]+", "", line) for line in lines[goodbye + 1 :])
    return [re.sub(r"─{3,}", "───", line).replace(" ───▶", " ▶").replace("◀─── ", "◀ ").strip(" │") for line in plain]


def failing(run: Runner, fault: str) -> set[str]:
    return failed_claims(run(f"dcbx_faults:{fault}"))


def test_an_agent_that_does_not_do_what_is_negotiated_is_seen(run: Runner) -> None:
    found = failing(run, "pfc_that_is_not_put_on_the_port")
    assert {"adopted: PFC of the hosts' agents", "adopted: lost"} <= found
    assert not any("settled" in name for name in found)


def test_a_defense_that_never_ends_is_seen(run: Runner) -> None:
    found = failing(run, "defense_that_never_ends")
    assert {f"{version}, defense: discarded while they agree" for version in ("published", "draft")} <= found
    assert not any("no defense" in name for name in found)


def test_a_defense_of_other_priorities_is_seen(run: Runner) -> None:
    found = failing(run, "defense_of_everything")
    assert "draft, defense: of the other priority lost" in found
    assert not any("no defense" in name for name in found)


def test_a_tie_that_is_broken_the_other_way_round_is_seen_on_the_wire(run: Runner) -> None:
    found = failing(run, "tie_breaks_the_other_way_round")
    assert "draft, tie-break lower, willing: both, higher address: a, PFC: b: paused on the wire" in found
    assert all("willing: both" in name and "tie-break none" not in name for name in found)


def test_a_strict_class_that_waits_for_its_turn_is_seen(run: Runner) -> None:
    found = failing(run, "strict_classes_where_they_were")
    assert found == {"published, 1 is strict: percent of 1"}


def test_an_application_entry_that_stays_is_seen(run: Runner) -> None:
    found = failing(run, "an_entry_that_stays")
    assert "published, UDP port, in the DSCP, without it again, host willing: frames by queue" in found
    assert "draft, EtherType, without it again, host willing: frames by priority on the wire" in found
    assert not any("with the entry" in name or "not willing" in name for name in found)
