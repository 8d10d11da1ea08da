"""What `xoff verify` refuses."""

from __future__ import annotations

import pytest

from testbed.cli import main
from testbed.lab.results.result import Exit


def test_only_what_reproduces_something_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--published", "incast"]) == Exit.USAGE
    assert "incast reproduces nothing that was published; --published has " in capsys.readouterr().err
