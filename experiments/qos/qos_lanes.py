"""Virtual lanes do not block each other, and VL 15 drops: SL2VL decides both."""

from typing import Any

from experiments.qos._qos import STEADY, flow, policy, setup_of
from testbed.subjects.qos.model import QosLevel
from testbed.subjects.qos.records import Found, PathRecordRequest, PathRecords
from testbed.subjects.qos.setup import FindingKind
from xoff import (
    Cable,
    Duration,
    Flows,
    Incast,
    LosslessTopo,
    Policy,
    Port,
    Run,
    SubnetManager,
    experiment,
    network,
    steady_rates,
)

SLOW = "1Gb/s"
FRAMES = 200
FULL = Duration("1400us")
"""After this time all buffers on the way to the slow receiver are full."""


@experiment(timeout="120s")
def qos_lanes(run: Run) -> None:
    """A slow receiver holds up its virtual lane and no other; an SL without a lane delivers nothing and has no path.

    h1 sends SL 0 to a slow receiver and SL 1 to a fast one, over one cable between two switches. On VLs of their own
    SL 1 has all that the slow receiver leaves. In the control case both are on VL 0, and the fast receiver waits for
    the slow one. Then SL 1 is mapped to VL 15, or to VL 9, which the ports lack: its frames are dropped and counted
    where they meet that table, SL 0 is not touched, and a path with SL 1 is not found.
    """
    apart, together = _rates(run, "VLs 0 and 1", {0: 0, 1: 1}), _rates(run, "both on VL 0", {0: 0, 1: 0})
    run.claim("VLs 0 and 1: goodput of SL 1 in Mb/s", apart[1], at_least=8800)
    run.claim("both on VL 0: goodput of SL 1 in Mb/s", together[1], at_most=1500)
    for case, rates in (("VLs 0 and 1", apart), ("both on VL 0", together)):
        run.claim(f"{case}: goodput of SL 0 in Mb/s", rates[0], at_least=950, at_most=1010)

    own = {sl: sl for sl in range(8)}
    _drop(run, "SL 1 on VL 15", policy(setup_of(own | {1: 15})), 15, FRAMES)
    _drop(run, "SL 1 on VL 9, which is not there", policy(setup_of(own | {1: 9})), 9, FRAMES)
    _drop(run, "SL 1 on VL 1", policy(setup_of(own)), 1, 0)


def _rates(run: Run, case: str, sl2vl: dict[int, int]) -> list[float]:
    """Return the goodput of both flows."""

    class Trunk(LosslessTopo):
        """h1 - s1 - s2, at which are the slow receiver and the fast one."""

        def build(self) -> None:
            for switch in ("s1", "s2"):
                self.addSwitch(switch)
            self.addLink(self.addHost("h1"), "s1")
            self.addLink("s1", "s2")
            self.addLink(self.addHost("slow"), "s2", cable=Cable(SLOW))
            self.addLink(self.addHost("fast"), "s2")

    topology = Trunk(port=Port().with_vls(2), total=1500)
    chosen = policy(setup_of(sl2vl))
    with (
        network(topology) as net,
        SubnetManager(net.fabric, chosen),
        Flows(
            [flow("h1", target, sl, duration=FULL + STEADY) for sl, target in enumerate(("slow", "fast"))]
        ) as running,
    ):
        running.wait()
    rates = [round(rate.bps / 10**6, 2) for rate in steady_rates(running.reports, FULL, STEADY)]
    run.figure(f"{case}: goodput of SL 0 and SL 1 in Mb/s", rates)
    run.claim(f"{case}: frames lost", running.lost, equals=0)
    return rates


def _drop(run: Run, case: str, policy: Policy, vl: int, dropped: int) -> None:
    """Send SL 0 and SL 1 from h1 to h2, with SL 1 mapped to a lane that drops."""
    with network(Incast(n=1, port=Port().with_vls())) as net:
        sender, target = net.hosts
        with SubnetManager(net.fabric, policy) as manager:
            flows = [flow(sender, target, sl, count=FRAMES, duration=None, rate="2Gb/s") for sl in (0, 1)]
            running = net.run(*flows, settle="200us")
            counted = net.fabric.sent(f"{sender.name}-eth0").vl15_frames
            unsupported = [one.message for one in manager.findings if one.kind is FindingKind.UNSUPPORTED_VL]
            answers = [_ask(manager, sender, target, QosLevel("L", sl)) for sl in (0, 1)]
    received = [report.received for report in running.reports]
    run.claim(f"{case}: frames received of SL 0 and SL 1", received, equals=[FRAMES, FRAMES - dropped])
    run.claim(f"{case}: frames that h1 dropped", counted[1], equals=dropped)
    run.claim(f"{case}: frames of SL 0 that h1 dropped", counted[0], equals=0)
    run.claim(f"{case}: errors of the policy on this network", len(unsupported), equals=3 if vl == 9 else 0)
    run.claim(f"{case}: path with SL 0", answers[0], equals="found")
    expected = "SL 1 of level L is mapped to VL 15 at h1, port 1" if dropped else "found"
    run.claim(f"{case}: path with SL 1", answers[1], equals=expected)


def _ask(manager: Any, source: Any, target: Any, level: Any) -> str:
    """Return the answer to a request if the policy gives it this level."""
    policy = Policy(levels=(level,), default_level=level.name)
    records = PathRecords(policy, manager.subnet, manager.plan.tables)
    gids = {port.key.node: port.gid for port in manager.subnet.end_ports}
    answer = records.query(PathRecordRequest(sgid=gids[source.name], dgid=gids[target.name]))
    return "found" if isinstance(answer, Found) else answer.message
