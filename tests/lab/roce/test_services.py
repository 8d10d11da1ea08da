"""Unreliable connections, datagrams and shared receive queues as flows, in the kernel and in a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.errors import UsageError
from testbed.lab import Run, experiment
from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.port import Port
from testbed.net.traffic import Flow
from testbed.net.traffic.roce import Roce, RoceReport
from testbed.roce.nic import Nic
from testbed.roce.settings import Settings
from testbed.switch.ecn.curve import EcnCurve
from testbed.units import Duration, Size

if TYPE_CHECKING:
    from tests.lab.conftest import Runner

MESSAGES = 400
KINDS = (
    ("h1", "UC", "write", 4, "4kB"), ("h1", "UC", "send", 6, "3000B"), ("h2", "UD", "send", 4, "1000B"),
    ("h2", "UD", "send", 6, "1024B"),
)  # fmt: skip
"""Source, service, operation, version of IP and message of flows."""
OCTETS = (4000, 3000, 1000, 1024)
"""Those of the messages."""


class Lossy(LosslessTopo):
    """Two senders and a target, whose cable may lose one frame in fifty."""

    def build(self, loss: float = 2) -> None:
        self.addSwitch("s1")
        for name in ("h1", "h2"):
            self.addLink(self.addHost(name), "s1")
        self.addLink(self.addHost("r"), "s1", loss=loss)


@experiment
def test_messages_come_whole_or_not_at_all_over_both_versions_in_the_kernel_and_in_a_process(run: Run) -> None:
    from testbed.net.build.network import network

    for loss in (0, 2):
        for by in ("kernel", "python"):
            case = f"{by}, loss {loss} %"
            with network(Lossy(loss=loss, ipv6=True), run, case=case) as net:
                flows = net.run(*(
                    Flow(source, "r", count=MESSAGES, transport=Roce(
                        operation, message=Size(message), service=service, ip_version=version, served_by=by,
                        immediate=7,
                    ))
                    for source, service, operation, version, message in KINDS
                ))  # fmt: skip
            reports = flows.reports_of(RoceReport)
            run.claim(f"{case}: served by the kernel", [one.in_kernel for one in reports],
                      equals=[by == "kernel"] * 4)  # fmt: skip
            run.claim(f"{case}: what came is as it was sent", [one.intact for one in reports], equals=[True] * 4)
            run.claim(
                f"{case}: each message came or is lost",
                [one.messages + one.lost_messages for one in reports],
                equals=[MESSAGES] * 4,
            )
            whole = [one.messages * octets for one, octets in zip(reports, OCTETS, strict=True)]
            run.claim(f"{case}: octets", [one.size.bytes for one in reports], equals=whole)
            run.claim(f"{case}: lost packets and messages", [bool(one.lost_messages) for one in reports],
                      equals=[bool(loss)] * 4)  # fmt: skip
            run.claim(f"{case}: sent again", sum(one.retransmitted + one.timeouts for one in reports), equals=0)
            dropped = [one.drops.get("incomplete", 0) for one in reports]
            run.claim(f"{case}: incomplete messages of UC, and of UD", [bool(sum(dropped[:2])), sum(dropped[2:])],
                      equals=[bool(loss), 0])  # fmt: skip


@experiment
def test_dcqcn_slows_down_unreliable_flows_by_marks(run: Run) -> None:
    from testbed.net.build.network import network
    from topologies.incast import Incast

    marking = Port(ecn={3: EcnCurve("40kB", "160kB", "20%")})
    for by in ("kernel", "python"):
        with network(Incast(2, port=marking), run, case=by) as net:
            flows = net.run(*(
                Flow(source, "r", size="1MB", rate_control="dcqcn", transport=Roce(service=service, served_by=by))
                for source, service in (("h1", "UC"), ("h2", "UD"))
            ))  # fmt: skip
        reports = flows.reports_of(RoceReport)
        run.claim(f"{by}: CNPs", min(one.cnps_received for one in reports), at_least=1)
        run.claim(f"{by}: CNPs that came", [one.cnps_sent - one.cnps_received for one in reports], equals=[0, 0])
        run.claim(f"{by}: octets", [one.size.bytes for one in reports], equals=[10**6] * 2)
        run.claim(f"{by}: intact", [one.intact for one in reports], equals=[True] * 2)


@experiment
def test_queue_pairs_share_receives_and_wait_or_drop_when_none_is_left(run: Run) -> None:
    from testbed.net.build.network import network
    from topologies.incast import Incast

    nic = Nic(
        receives=4, receive_takes=Duration("3us"), shares_receives=True, receive_limit=2, rnr_timer=Duration("10us")
    )
    for by in ("kernel", "python"):
        for service in ("RC", "UC", "UD"):
            case = f"{by}, {service}"
            settings = Settings(retransmit_after=Duration("10ms")) if service == "RC" else Settings()
            with network(Incast(3), run, case=case) as net:
                flows = net.run(*(
                    Flow(f"h{at}", "r", count=60, transport=Roce(
                        "send", message=Size("1000B"), service=service, served_by=by, nic=nic, settings=settings,
                    ))
                    for at in (1, 2, 3)
                ))  # fmt: skip
            reports = flows.reports_of(RoceReport)
            dropped, waited = (
                sum(one.drops.get("no_receive", 0) for one in reports), sum(one.rnr_naks for one in reports),
            )  # fmt: skip
            came = sum(one.messages for one in reports)
            run.figure(f"{case}: came, dropped, waited", [came, dropped, waited])
            run.claim(f"{case}: each message came, or was dropped", came + dropped, equals=180)
            run.claim(f"{case}: waited, or dropped", [waited > 0, dropped > 0],
                      equals=[service == "RC", service != "RC"])  # fmt: skip
            run.claim(f"{case}: events of the limit", sum(one.limit_events for one in reports), at_least=1)
            run.claim(f"{case}: lost in the network", sum(one.lost for one in reports), equals=0)


@experiment
def odd_options(run: Run) -> None:
    from testbed.net.build.network import network
    from topologies.incast import Incast

    settings, nic = Settings(window=256, retries=3), Nic(ack_delay=Duration("1us"), reads=2)
    transport = Roce(service="UC", settings=settings, nic=nic, recovery="selective repeat", ack_dscp=9)
    with network(Incast(2), run) as net:
        net.run(Flow("h1", "r", size="10kB", transport=transport))
        said = ""
        try:
            net.run(Flow("h1", "r", size="10kB", transport=Roce(service="UC"), rate_control="swift"))
        except UsageError as error:
            said = str(error)
    run.claim("a rate control without its round trips", said, equals=(
        "flow 0 from h1 has service UC, whose packets are not acknowledged, and its rate control Swift goes by "
        "acknowledgements; use service='RC', or a rate control that goes by CNPs, such as 'dcqcn'"
    ))  # fmt: skip


def test_options_without_effect_over_an_unreliable_service_are_warned_of(run: Runner) -> None:
    result = run(odd_options).check()
    assert result.folder is not None
    warned = (result.folder / "output.log").read_text()
    for name in ("Settings.window", "Settings.retries", "Nic.ack_delay", "Nic.reads", "Roce.recovery", "Roce.ack_dscp"):
        assert f"{name}: service is UC, which answers nothing and sends nothing again (flows: h1 to r)" in warned
