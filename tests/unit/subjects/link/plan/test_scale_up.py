"""The Scale-Up Test Standard on models: its rows, its record, and that a wrong core does not pass."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.cli import main
from testbed.lab.results.result import Claim, Figure, Status
from testbed.lab.studies.plan_rows import ENDS, FIELDS, MOMENTS, SIZES, PlanRow, as_csv, claim_name, near, rows_of_run
from testbed.subjects.link.commands import scale_up
from testbed.subjects.link.commands.scale_up import CASES
from testbed.subjects.link.llr.end import End
from testbed.subjects.link.plan.credit_link import CreditLink
from testbed.switch.credits.receiver import CreditReceiver
from testbed.switch.credits.sender import CreditSender
from testbed.switch.credits.settings import Credits


def failed(case: str) -> list[PlanRow]:
    return [row for row in CASES[case].run() if row.passed is False]


def test_the_plan_has_the_standards_cases_in_its_order() -> None:
    names = (("LLR", 10), ("CBFC", 12))
    assert list(CASES) == [f"{name}-{number:02d}" for name, most in names for number in range(1, most + 1)]
    near_powers = [size + x for size in (128, 256, 512, 1518, 2048, 4096) for x in (-1, 0, 1)]
    expected = (64, 65, *near_powers, 9215, 9216)
    assert expected == SIZES


@pytest.mark.parametrize("case", list(CASES))
def test_every_row_of_a_case_passes(case: str) -> None:
    rows = CASES[case].run()
    assert rows and all(row.passed for row in rows), [row for row in rows if not row.passed]
    assert all(row.notes.startswith("model: ") for row in rows)


def test_a_sender_that_forgets_a_credit_a_frame_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = CreditSender.sent

    def short(self: CreditSender, vc: int, octets: int, now: int) -> None:
        whole(self, vc, octets, now)
        self.counters[vc].sender_credits_consumed -= 1

    monkeypatch.setattr(CreditSender, "sent", short)
    assert len(failed("CBFC-01")) == 44


def test_a_sender_that_waits_for_nobody_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CreditSender, "may_send", lambda self, vc, octets: True)
    for case in ("CBFC-04", "CBFC-08", "CBFC-10", "CBFC-11"):
        assert any(row.what.endswith("found no cell") or "waited" in row.what for row in failed(case)), case


def test_a_receiver_that_takes_no_cc_update_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CreditReceiver, "receive", lambda self, used: None)
    assert len(failed("CBFC-03")) == 3


def test_a_receiver_that_asks_for_no_frame_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(End, "_ask", lambda self, now_ns: None)
    assert [row.what for row in failed("LLR-02")] == ["LLR_RX_NACK_CTL_OS on the Tx port"]
    assert [row.what for row in failed("LLR-04")] == ["LLR_TX_NACK_CTL_OS on the Rx port"] * 2


def test_the_link_delivers_all_frames_whatever_it_drains_at() -> None:
    for share in (Fraction(1), Fraction(1, 3), Fraction(9, 10)):
        link = CreditLink(Credits({3: 40}), drains={3: share})
        link.offer(3, [1518, 64, 700] * 50)
        link.run(2_000_000)
        assert link.delivered[3] == 150
        assert link.overflows == 0
        assert link.sender.port_credits_used == 0
        assert link.octets[3] == 50 * (1518 + 64 + 700 + 3 * 20)


def test_less_than_5_percent_from_theory_passes_and_5_percent_does_not() -> None:
    assert near(0.951, 1.0) and near(1.049, 1.0) and near(0.0, 0.0)
    assert not near(0.95, 1.0) and not near(1.05, 1.0) and not near(0.001, 0.0)


def read(text: Iterable[str]) -> list[dict[str, str]]:
    return list(csv.DictReader(text))


def test_the_record_has_the_standards_fields() -> None:
    text = as_csv([PlanRow("CBFC-99", "a, counter", "1", "2", False, "x", "64", 7, "n")])
    (row,) = read(text.splitlines())
    assert tuple(row) == FIELDS
    assert list(row.values()) == ["7", "model", "64", "-", "-", "CBFC-99", "x", "a, counter: 1", "2", "FAIL", "n"]


def ran(status: Status, reason: str, claims: tuple[Claim, ...] = (), figures: tuple[Figure, ...] = ()) -> Any:
    return SimpleNamespace(status=status, reason=reason, claims=claims, figures=figures)


def test_a_run_in_the_lab_is_rows_with_its_moments_and_addresses() -> None:
    claims = (
        Claim(claim_name("throughput", 64, "drain 1/2"), {"at_least": 0.475, "at_most": 0.525}, 0.5, True),
        Claim("lost, and in no counter", {"equals": 0}, 0, True),
        Claim(claim_name("state"), {"equals": "FLUSH"}, "INIT", False),
    )
    figures = Figure(MOMENTS, [5, 9], ""), Figure(ENDS, ["10.0.0.1", "10.0.0.2"], "")
    one, other, last = rows_of_run("CBFC-04", ran(Status.OK, "", claims, figures))
    assert (one.what, one.frame, one.settings, one.at_ns, one.scenario) == ("throughput", "64", "drain 1/2", 5, "lab")
    assert (other.what, other.frame, other.at_ns) == ("lost, and in no counter", "-", 0)
    assert (last.what, last.at_ns, last.passed, last.measured) == ("state", 9, False, "INIT")
    assert (last.source, last.destination) == ("10.0.0.1", "10.0.0.2")
    (row,) = rows_of_run("LLR-01", ran(Status.ERROR, "it broke"))
    assert (row.verdict, row.measured) == ("FAIL", "it broke")


def test_the_command_writes_the_record_and_its_code_says_whether_all_passed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["switch", "conformance", "--plan", "scale-up", "--models", "--out", str(tmp_path)]
    assert main([*words, "--case", "cbfc-09"]) == 0
    assert "1 of 1 cases passed, 0 failed, 0 not run or not whole" in capsys.readouterr().out
    assert {row["Pass/Fail"] for row in read((tmp_path / "scale-up.csv").read_text().splitlines())} == {"PASS"}
    assert main([*words, "--case", "CBFC-09,CBFC-05"]) == 0
    assert "2 of 2 cases passed" in capsys.readouterr().out
    assert main(["switch", "conformance", "--models"]) == 2
    assert "--models is for plans that have models: --plan scale-up" in capsys.readouterr().err
    assert main([*words, "--case", "CBFC-13"]) == 2
    assert "there is no case 'CBFC-13' in this plan; did you mean" in capsys.readouterr().err
    assert main([*words, "--speed", "400G"]) == 2
    assert "--speed is for plans that run on switches" in capsys.readouterr().err
    assert scale_up.CASES["CBFC-09"].text
