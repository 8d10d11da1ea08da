"""Trimming that cannot have an effect is warned of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.lab import Run, experiment

if TYPE_CHECKING:
    from tests.lab.conftest import Runner


@experiment
def trimming_at(run: Run, hosts: bool = True, switch: bool = False) -> None:
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.port import Port

    trims = Port().with_trimming(1)

    class Pair(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1", port=trims if switch else Port())
            for name in ("h1", "h2"):
                self.addLink(self.addHost(name, port=trims if hosts else Port()), "s1")

    with network(Pair(), run):
        pass


CASES = ((True, False, 1), (True, True, 0), (False, True, 0), (False, False, 0))
"""Whether hosts have it, whether the switch has it, and the warnings."""


def test_trimming_of_hosts_alone_is_warned_of(run: Runner) -> None:
    text = "warning: trimming of h1-eth0, h2-eth0 has no effect, as hosts drop nothing; give it to ports of switches"
    for hosts, switch, warned in CASES:
        result = run(trimming_at, hosts=hosts, switch=switch)
        assert result.passed and result.folder is not None
        log = result.folder / "output.log"
        said = log.read_text() if log.exists() else ""
        assert said.count(text) == warned, (hosts, switch, said)
