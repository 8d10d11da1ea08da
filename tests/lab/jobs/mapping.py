"""Ports of a path that map priorities differently."""

import io
from contextlib import redirect_stderr

from testbed.errors import UsageError
from testbed.lab import Run, experiment
from testbed.net.port import Port
from testbed.priority.settings import PriorityMap, Trust


@experiment(timeout="60s")
def mismatched(run: Run, what: str = "dscp", mismatch: str = "refuse") -> None:
    """One of three ports of a switch has another table than the others; what starting the network says."""
    from testbed.net.network import network
    from testbed.net.topo import LosslessTopo

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
