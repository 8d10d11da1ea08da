"""The experiments about End.X.PFC over an SRv6 WAN."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import lab
from testbed.lab import definition
from testbed.lab.engine import Ready
from testbed.lab.fidelity import Verdict

EXPERIMENTS = ("wan_read", "wan_controller", "wan_headroom", "cross_dc")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_claim_holds_and_the_lab_kept_its_promises(ready: Ready, tmp_path: Path, name: str) -> None:
    result = lab.run(definition.find(name), on=ready, out=tmp_path).check()
    assert result.claims
    assert result.fidelity.verdict is Verdict.KEPT
