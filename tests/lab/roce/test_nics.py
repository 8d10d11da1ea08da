"""NICs of RoCE flows in the lab: spraying with selective repeat, receives that are posted too late, and warnings."""

from __future__ import annotations

import pytest

from ..conftest import Runner, failed_claims


@pytest.mark.engines("um")
def test_sprayed_flows_are_as_they_were_sent_with_pauses_losses_and_jitter(run: Runner) -> None:
    assert failed_claims(run("nics:spraying")) == set()


@pytest.mark.engines("um")
def test_a_sender_waits_for_receives_and_settings_without_effect_are_warned_of(run: Runner) -> None:
    result = run("nics:not_ready")
    assert failed_claims(result) == set()
    assert result.folder is not None
    said = (result.folder / "output.log").read_text()
    assert "Nic.receives: operation is write, which needs no receives (flows: h1 to h2); it has no effect" in said
