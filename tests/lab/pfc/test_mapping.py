"""Before a network starts, the mappings along its paths are compared, because PFC would fail without a word."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stderr
from typing import TYPE_CHECKING, Any

from testbed.errors import UsageError
from testbed.lab import Run, experiment
from testbed.net.fabric.port import Port
from testbed.switch.priority.settings import PriorityMap, Trust

if TYPE_CHECKING:
    from tests.lab.conftest import Runner

CASES = {
    "test_a_port_that_maps_otherwise_keeps_the_network_from_starting": [{"what": "dscp"}, {"what": "local"}],
    "test_equal_mappings_and_ignored_mismatches_give_no_warning": [
        {"what": "dscp", "mismatch": "ignore"},
        {"what": "same", "mismatch": "refuse"},
    ],
}
WARNINGS = {"dscp": "s1-eth2 maps dscp 26 to dot1p 4, ", "local": "s1-eth2 puts dot1p 3 into queue 5, "}


@experiment(timeout="60s")
def mismatched(run: Run, what: str = "dscp", mismatch: str = "refuse") -> None:
    """One of three ports of a switch has another table than the others; what starting the network prints."""
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo

    other = {
        "dscp": PriorityMap(Trust.DSCP, dscp_to_dot1p={26: 4}),
        "local": PriorityMap(Trust.DSCP, dot1p_to_local={3: 5}),
        "same": PriorityMap(Trust.DSCP),
    }[what]

    class Odd(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            self.addLink(self.addHost("h1"), "s1")
            self.addLink(self.addHost("h2"), "s1", settings2=Port(priorities=other))

    said, started = io.StringIO(), False
    try:
        with redirect_stderr(said), network(Odd(mismatch=mismatch), run):
            started = True
    except UsageError as error:
        said.write(str(error))
    run.figure("said", said.getvalue())
    run.figure("started", started)


def test_a_port_that_maps_otherwise_keeps_the_network_from_starting(run: Runner, case: Mapping[str, Any]) -> None:
    result = run(mismatched, **case).check()
    assert not result.figure("started")
    assert WARNINGS[case["what"]] in result.figure("said")
    assert "give both the same table" in result.figure("said")


def test_with_mismatch_warn_the_network_starts_with_a_warning(run: Runner) -> None:
    result = run(mismatched, mismatch="warn").check()
    assert result.figure("started")
    assert result.figure("said").startswith("warning: ")


def test_equal_mappings_and_ignored_mismatches_give_no_warning(run: Runner, case: Mapping[str, Any]) -> None:
    result = run(mismatched, **case).check()
    assert (result.figure("started"), result.figure("said")) == (True, "")
