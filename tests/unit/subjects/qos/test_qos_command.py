"""`xoff controller qos` where no controller is needed: what is asked, what is shown, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.errors import UsageError
from testbed.rest import client as rest
from tests.unit.subjects.qos.policy_samples import EXAMPLE, RFC_SAMPLE
from tests.unit.subjects.qos.test_rest import POLICY, Controller


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Controller:
    """A controller in memory that the command connects to, with a fabric."""
    made = Controller()
    made.put_fabric()

    def ask(_: rest.Client, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        status, answer = made.ask(method, path, body, content_type)
        if status >= 400:
            raise UsageError(f"the controller refuses: {answer['detail']}")
        return answer

    monkeypatch.setattr(rest.Client, "ask", ask)
    monkeypatch.setenv("XOFF_SR_TOKEN", "a-token-for-tests-only")
    monkeypatch.setenv("COLUMNS", "220")
    return made


def test_a_policy_that_is_put_decides_the_path_that_is_shown(
    controller: Controller, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policy.conf"
    file.write_text(POLICY)
    assert main(["controller", "qos", "put", str(file)]) == 0
    assert "revision    1" in capsys.readouterr().out
    assert main(["controller", "qos", "path", "--from", "h1", "--to", "h3", "--service-id", "22"]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert (shown["sl"], shown["dscp"], shown["mtu"], shown["rate"], shown["level"]) == (
        "9", "12", "1024B", "40Gb/s", "fast"
    )  # fmt: skip
    assert main(["controller", "qos", "policy"]) == 0
    assert capsys.readouterr().out == POLICY


def test_no_path_is_a_failure_with_its_reason(controller: Controller, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["controller", "qos", "path", "--from", "h1", "--to", "h3", "--sl", "4"]) == 1
    assert "no path: SL 4 is asked for, and level DEFAULT has SL 0" in capsys.readouterr().err
    assert main(["controller", "qos", "path", "--from", "h1", "--to", "h3", "--sl", "4", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["reason"] == "sl"


def test_a_policy_with_errors_is_refused_and_status_shows_the_old_one(
    controller: Controller, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["controller", "qos", "put", str(EXAMPLE)]) == 0
    assert main(["controller", "qos", "put", str(RFC_SAMPLE)]) == 2
    assert "the controller refuses: the policy has" in capsys.readouterr().err
    controller.ask("PUT", "/qos/report", {"revision": 1, "drift": ["s1/2: shares"], "dropped": {}})
    assert main(["controller", "qos", "status"]) == 0
    out = capsys.readouterr().out
    assert "revision    1" in out and "drift       s1/2: shares" in out and "warning: node s1 is in the fabric" in out


def test_mistyped_values_are_named(controller: Controller, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["controller", "qos", "path", "--from", "h1", "--to", "h3", "--sl", "16"]) == 2
    assert "--sl 16: a number from 0 to 15 is expected" in capsys.readouterr().err
    assert main(["controller", "qos", "path", "--from", "h1", "--to", "nowhere"]) == 2
    assert "there is no port nowhere" in capsys.readouterr().err
