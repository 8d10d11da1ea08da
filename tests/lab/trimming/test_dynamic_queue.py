"""SONiC's queue_index `dynamic`: a rest goes into the queue of its new DSCP's class, and follows when that changes."""

from __future__ import annotations

from dataclasses import replace

from experiments.conformance._tables import default_tables
from experiments.conformance._trimming import trims
from testbed.lab import Run, experiment
from testbed.net.build.network import network
from testbed.net.traffic.flow import Flow
from testbed.subjects.sonic.lab.trimming_views import configure
from testbed.subjects.sonic.tables import TrimmingRow
from xoff import SonicSwitch, SonicTopo

STEPS = (("", 6), ("--dscp 5", 5), ("--queue 7", 7), ("--queue dynamic --dscp 6", 6))
"""Commands one after the other, and the queue that rests are in afterwards: by the usual map DSCP n is of class n."""


@experiment(timeout="120s")
def test_rests_follow_the_class_of_their_dscp(run: Run, frames: int = 400) -> None:
    """Two hosts send to one; rests are in the queue of their DSCP's class, or in a fixed one, as commands say."""
    tables = trims(default_tables("100G", "dynamic"))
    tables = replace(tables, trimming=TrimmingRow(128, 6, None, "dynamic"))
    found, expected = {}, {}
    with network(SonicTopo(SonicSwitch.of(tables), hosts=3)) as net:
        h1, h2, target = net.hosts
        out = net.fabric.between("dut1", target.name).name
        for number, (command, queue) in enumerate(STEPS):
            if command:
                configure(["switch-trimming", "global", *command.split()])
            sent, trimmed = net.fabric.sent(out).sent_frames, net.fabric.trimmed(out)
            net.run(*(Flow(host, target, 0, "1514B", count=frames) for host in (h1, h2)))
            after, rests = net.fabric.sent(out).sent_frames, net.fabric.trimmed(out)
            found[number] = {other: after[other] - sent[other] for other in range(1, 8) if after[other] != sent[other]}
            expected[number] = {queue: rests.sent_frames - trimmed.sent_frames}
    run.claim("rests by queue", found, equals=expected)
    run.claim("rests that were sent", min(sum(one.values()) for one in expected.values()), at_least=10)
