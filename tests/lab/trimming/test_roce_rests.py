"""RoCE receivers count the rests of their packets, in the kernel and in Python, and know them by the DSCP alone."""

from __future__ import annotations

from testbed.lab import Run, experiment
from testbed.net.build.network import network
from testbed.net.fabric.port import Port
from testbed.net.traffic.flow import Flow
from testbed.net.traffic.roce import Roce, RoceReport
from testbed.units import Size
from topologies.incast import Incast

REST_QUEUE = 6
CASES = {
    "test_receivers_count_the_rests_of_their_packets": [
        {"ip_version": 4, "served_by": "kernel"},
        {"ip_version": 6, "served_by": "kernel"},
        {"ip_version": 4, "served_by": "python"},
    ]
}


@experiment(timeout="120s")
def test_receivers_count_the_rests_of_their_packets(run: Run, ip_version: int = 4, served_by: str = "kernel") -> None:
    """Three senders without PFC and without a rate control: each rest that the switch sends is one that came."""
    port = Port(strict=frozenset({REST_QUEUE})).without_pfc().with_trimming(3, size=128, dscp=40, queue=REST_QUEUE)
    transport = Roce(message=Size("16kB"), ip_version=ip_version, served_by=served_by)
    with network(Incast(n=3, port=port, total=300, ipv6=ip_version == 6)) as net:
        *hosts, target = net.hosts
        flows = net.run(*(Flow(host, target, 3, size="64kB", transport=transport) for host in hosts))
        reports = [one for one in flows.reports if isinstance(one, RoceReport)]
        switch = net.fabric.trimmed("s1-eth4")
    run.claim("rests that came, and that the switch sent", [sum(one.trimmed for one in reports), switch.frames],
              equals=[switch.sent_frames, switch.sent_frames])  # fmt: skip
    run.claim("rests", switch.sent_frames, at_least=10)
    run.claim("flows whose data are intact", sum(one.intact for one in reports), equals=3)
