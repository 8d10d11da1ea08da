"""Experiments on DCBX with one fault in how ports do what was negotiated, so that a claim has to fail."""

from __future__ import annotations

from experiments import dcbx_negotiation
from testbed.agent.speaker import Speaker
from testbed.lab import Run, experiment


@experiment(timeout="120s")
def pfc_that_is_not_put_on_the_port(run: Run) -> None:
    Speaker._put_pfc = lambda *_: None  # type: ignore[method-assign]
    dcbx_negotiation.dcbx_negotiation.body(run)
