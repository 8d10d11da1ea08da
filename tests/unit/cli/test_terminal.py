"""Text of jobs, routers and files has no effect on the terminal."""

from __future__ import annotations

import io

import pytest

from testbed.cli.screen import console, progress
from testbed.errors import plain
from testbed.experiment.fidelity import Fidelity, Thresholds, Verdict
from testbed.lab.results.result import Claim, Figure, Provenance, Result, Status, Times

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x7f[red]"


def test_text_is_written_out_where_it_is_not_printable_and_else_stays() -> None:
    assert plain("a\n\tb \u00e9 fd00:a:1::") == "a\n\tb \u00e9 fd00:a:1::"
    assert plain(HOSTILE) == "\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\u202e\\x7f[red]"
    assert plain(7) == "7"


def test_figures_and_claims_of_a_job_are_neutral(capsys: pytest.CaptureFixture[str]) -> None:
    figures = (Figure(HOSTILE, HOSTILE, HOSTILE),)
    claims = (Claim(HOSTILE, {"equals": HOSTILE}, HOSTILE, False),)
    fidelity = Fidelity(Verdict.DEGRADED, (HOSTILE,), 1, 50.0, 0, 0, Thresholds())
    came = Provenance(*[""] * 9)  # type: ignore[arg-type]
    result = Result("mine", Status.OK, HOSTILE, {}, 1, figures, claims, fidelity, came, Times(1, 1.0, 0.1), {})
    progress.show(result)
    console.say(HOSTILE)
    console.print_error(HOSTILE)
    said = capsys.readouterr()
    for stream in (said.out, said.err):
        assert stream.replace("\n", "").isprintable()
        assert "owned" in stream and "[red]" in stream.replace("\n", "").replace(" ", "")


class _Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_jobs_output_is_neutral_in_a_terminal_whose_standard_error_goes_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal, file = _Tty(), io.StringIO()
    for stream, shown in ((terminal, plain(HOSTILE)), (file, HOSTILE)):
        monkeypatch.setattr("sys.stdout", stream)
        progress.Screen(many=False, quiet_stdout=False).print(HOSTILE, is_error=False)
        assert stream.getvalue() == f"{shown}\n"
