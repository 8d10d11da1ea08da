"""Some seconds of `tests.soak_controller`; `bench/controller.py soak` takes ten minutes, and times."""

from __future__ import annotations

import pytest

from tests import soak_controller
from tests.soak_controller import TRICKS, Soak

pytestmark = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize("library", ["alone", "os-ken"])
def test_hostile_clients_keep_no_operator_and_no_router_out(library: str) -> None:
    with Soak(library, hostile=len(TRICKS) * 4) as soak:
        soak.run(6)
    assert soak.held(), soak.text() + soak.log
    assert soak.answers["given"] >= 5
    doors = {trick[0] for name, trick in TRICKS.items() if soak.attempts[name]}
    assert doors == ({"agents", "rest"} if library == "alone" else {"agents", "rest", "openflow"})


SILENT = "import threading, time\ndef waits_for_switches():\n    time.sleep(600)\n"
SILENT += "threading.Thread(target=waits_for_switches).start()\n"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (SILENT, r"is not ready after 3 s: .*in waits_for_switches"),
        (SILENT + "print('agents 127.0.0.1:5', end='', flush=True)", "is not ready after 3 s: agents 127.0.0.1:5"),
        ("print('agents'); raise SystemExit('no room')", "ends with 1: agents\nno room"),
        ("import nothing_like_it", "ends with 1: .*No module named 'nothing_like_it'"),
    ],
)
def test_a_controller_that_does_not_start_is_ended_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    monkeypatch.setattr(soak_controller, "START_S", 3.0)
    soak = Soak("alone", alone=program)
    with pytest.raises(RuntimeError, match=f"(?s)the controller {why}"), soak:
        pass
    assert soak._process.poll() is not None
