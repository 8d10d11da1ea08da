"""Settings that drop frames or do nothing have a warning, for nobody sees it otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from testbed.lab import Run, experiment

if TYPE_CHECKING:
    from tests.lab.conftest import Output, Runner

WARNINGS: dict[str, tuple[dict[str, Any], str]] = {
    "mtu": (
        {"longer than the MTU": 5},
        "warning: frames of flow h1 to h2 have up to 9000 octets, and the cable at s1-eth2 has an MTU of 1500: longer "
        "ones are lost there; give both cables one mtu, or the flow a shorter frame\n",
    ),
    "static": (
        {},
        "warning: switch s1: Static(5000) is never passed, since the groups share 440 cells: PAUSE is sent only when "
        "all of them are in use; use a lower threshold or a larger buffer\n",
    ),
    "flow label": (
        {},
        "warning: Ways(fields=('flow label',)): frames of flows h1 to h3, h2 to h4, transport roce, have none of these "
        "fields, so all of them have one hash and take one way; without fields it is the five-tuple\n",
    ),
    "queue pair": (
        {},
        "warning: Ways(fields=('queue pair',)): frames of flow h2 to h4, transport udp, have none of these fields, so "
        "all of them have one hash and take one way; without fields it is the five-tuple\n",
    ),
    "wred": (
        {},
        "warning: frames of flow h1 to r are Not-ECT, and a curve of their lossless priority drops them where it would "
        "mark others, at h1-eth0, s1-eth3; give the flow an ecn, or the curve keep_not_ect=True\n",
    ),
    "dscp": (
        {},
        "warning: frames of flow h1 to r ask for priority 3, which is lossless, but have DSCP 8, by which they are "
        "lossy at h1-eth0, s1-eth3; leave dscp out, or map it in PriorityMap(dscp_to_dot1p=...)\n",
    ),
    "telemetry": (
        {},
        "warning: Port(telemetry=True) had no effect at h1-eth0, s1-eth1, h2-eth0, s1-eth2, r-eth0, s1-eth3: no flow's "
        "rate control reads telemetry, as hpcc does\n",
    ),
}
CASES = {"test_what_was_silent_has_one_warning": [{"case": name} for name in WARNINGS]}


@experiment(timeout="60s")
def silent(run: Run, case: str = "mtu") -> None:
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.port import Buffer, Port
    from testbed.net.traffic import Flow
    from testbed.switch.buffer.settings import Static
    from testbed.switch.ecn.curve import EcnCurve
    from testbed.switch.ways.settings import Ways
    from topologies.incast import Incast
    from topologies.leaf_spine import LeafSpine

    class Mixed(LosslessTopo):
        """A cable for long frames, and one that is not."""

        def build(self) -> None:
            self.addSwitch("s1")
            self.addLink(self.addHost("h1"), "s1", mtu=9216)
            self.addLink(self.addHost("h2"), "s1")

    def roce(source: str, target: str = "r", **others: Any) -> Flow:
        return Flow(source, target, transport="roce", size="50kB", **others)

    steep = EcnCurve("1MB", "2MB", "100%")
    cases: dict[str, tuple[Callable[[], Any], list[Flow]]] = {
        "mtu": (Mixed, [Flow("h1", "h2", frame="9000B", count=5)]),
        "static": (lambda: Incast(2, buffer=Buffer(500, xoff=Static(5000), headroom=20)), [roce("h1")]),
        "flow label": (
            lambda: LeafSpine(2, 4, 2, ways=Ways("hash", fields=("flow label",))),
            [roce("h1", "h3"), roce("h2", "h4")],
        ),
        "queue pair": (
            lambda: LeafSpine(2, 4, 2, ways=Ways("hash", fields=("queue pair",))),
            [roce("h1", "h3"), Flow("h2", "h4", count=20)],
        ),
        "wred": (lambda: Incast(2, port=Port(ecn={3: steep})), [Flow("h1", "r", count=20), roce("h2")]),
        "dscp": (lambda: Incast(2), [roce("h1", dscp=8), roce("h2", priority=1, dscp=8)]),
        "telemetry": (lambda: Incast(2, port=Port(telemetry=True)), [roce("h1")]),
    }
    topo, flows = cases[case]
    with network(topo(), run) as net:
        net.run(*flows)
        run.figure("losses", net.fabric.losses())


def test_what_was_silent_has_one_warning(run: Runner, output: Output, case: Mapping[str, str]) -> None:
    losses, warning = WARNINGS[case["case"]]
    result = run(silent, **case)
    assert (result.status, result.reason) == ("ok", "")
    assert output.err.decode() == warning
    assert result.figure("losses") == losses
