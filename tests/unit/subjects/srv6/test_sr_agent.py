"""A router's SR agent and a controller over a real Unix socket: requests are carried out, answered, and kept.

The agent is R1's. The other routers of the draft's Figure 3 are made up, the controller is the real one, and the kernel
is the one of `srv6_kernel`. Time is set by hand.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.agent.events import SR_ITEMS, AgentEvent
from testbed.agent.handover import Handover
from testbed.errors import UsageError
from testbed.linux.netlink.messages import Message
from testbed.subjects.srv6.agent import sr_agent, sr_notes
from testbed.subjects.srv6.agent.kernel_sr import KernelSr
from testbed.subjects.srv6.agent.part import WanPartPlan
from testbed.subjects.srv6.agent.plan import ControlPlan
from testbed.subjects.srv6.agent.sr_agent import SrAgent, SrServices
from testbed.subjects.srv6.agent.sr_notes import SrNotes
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.session.intents import Candidate, Dynamic, Explicit, Key, PolicyIntent
from testbed.subjects.srv6.session.messages import Install, OwnTunnel, Pause, PolicyItem, TunnelItem
from testbed.subjects.srv6.session.router_side import RECONNECT_NS
from testbed.subjects.srv6.session.session import SessionSettings
from testbed.typed_json.codec import CODEC
from tests.unit.subjects.srv6.srv6_control import FIGURE_3, MS, SHARED_KEY, S, World, report
from tests.unit.subjects.srv6.srv6_kernel import Encap, Kernel, wanted

INTERFACES = {"red0": 11, "blue0": 12, "to2": 13}
R1_TO_R3 = Key("R1", 100, "R3")
BINDING = IPv6Address("fd00:a:1:b::")
FORTH = "R1 to R3 (fd00:a:1:1::, fd00:a:2:1::, fd00:a:3:f02::)"


class Controller(World):
    """The controller, with R2 and R3 in memory and a Unix socket for R1."""

    def __init__(self, path: Path, clock: SimpleNamespace) -> None:
        self.path, self.clock = path, clock
        self.agents: list[SrAgent] = []
        self.door: socket.socket | None = None
        self.lines: dict[int, socket.socket] = {}
        self.unsent: dict[int, bytearray] = {}
        self.ending = set[int]()
        self.reads = True
        super().__init__()
        self.open()

    def open(self) -> None:
        """Start, with an empty memory."""
        self.door = socket.socket(socket.AF_UNIX)
        self.door.bind(str(self.path))
        self.door.listen()
        self.door.setblocking(False)

    def crash(self) -> None:
        for line in (*self.lines.values(), self.door):
            if line is not None:
                line.close()
        self.lines.clear()
        self.door = None
        self.path.unlink()
        self.restart()
        self._deliver()

    def _carry(self) -> None:
        self.clock.now_ns = self.now_ns
        while self._deliver():
            pass

    def _deliver(self) -> bool:
        """Have all sides read what has come, and return True if there was anything."""
        busy = False
        while self.door is not None:
            try:
                line, _ = self.door.accept()
            except BlockingIOError:
                break
            line.setblocking(False)
            number = self.south.connect(self.now_ns)
            assert number is not None
            self.lines[number], busy = line, True
        for number, line in list(self.lines.items()) if self.reads else ():
            with suppress(BlockingIOError):
                while True:
                    data, busy = line.recv(1 << 16), True
                    if not data:
                        self.south.disconnected(number, self.now_ns)
                        self.lines.pop(number).close()
                        break
                    self.south.receive(number, data, self.now_ns)
                    while self.south.has_more(number):
                        self.south.receive(number, b"", self.now_ns)
        for number, fake in list(self._at.items()):
            if data := fake.router.data_to_send():
                self.south.receive(number, data, self.now_ns)
                busy = True
        self.south.advance(self.now_ns)
        for number, data, is_over in self.south.output():
            busy = True
            if number in self.lines:
                self.unsent.setdefault(number, bytearray()).extend(data)
                if is_over:
                    self.ending.add(number)
            elif number in self._at:
                self._at[number].obey(self._at[number].router.receive(data, self.now_ns), self.now_ns)
        for number, unsent in list(self.unsent.items()):
            with suppress(BlockingIOError):
                while unsent and number in self.lines:
                    del unsent[: self.lines[number].send(unsent)]
            if not unsent or number not in self.lines:
                del self.unsent[number]
                if number in self.ending & self.lines.keys():
                    self.lines.pop(number).close()
        for agent in self.agents:
            while select.select([agent.fd], [], [], 0)[0]:
                agent.read(self.now_ns)
                busy = True
            if agent.deadline_ns <= self.now_ns:
                agent.expire(self.now_ns)
                assert agent.deadline_ns > self.now_ns, "it would be called again at once, and for ever"
                busy = True
        return busy


@dataclass
class R1:
    """A router: its kernel, and the requests of its agent to others."""

    controller: Controller
    kernel: Kernel = field(default_factory=lambda: Kernel(INTERFACES))
    tunnels: list[str] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    changes: int = 0
    refuses: str = ""
    """The reason for which tunnels are refused; empty if they are not."""
    key: bytes = SHARED_KEY
    notes: Handover = field(default_factory=lambda: Handover(1 + WanPartPlan.handover_ports))

    def start(self, left: SrNotes | None = None) -> SrAgent:
        """Start an agent in place of the one before."""
        plan = ControlPlan(str(self.controller.path), self.key, report("R1", FIGURE_3, ("R1", "R3")), "to2")
        kernel = KernelSr("R1", INTERFACES, (INTERFACES["to2"],), self.kernel.send, left.tables if left else {})
        means = SrServices(kernel, self.add, self.drop, lambda: {"fd00:a:1:f02:: paused": 7}, self.record, self.change)
        self.agent = SrAgent("R1", plan, means, left)
        self.controller.agents = [self.agent]
        return self.agent

    def add(self, tunnel: ReverseTunnel, now_ns: int) -> None:
        if self.refuses:
            raise UsageError(self.refuses)
        self.tunnels.append(f"+ {tunnel.pauses}")

    def drop(self, tunnel: ReverseTunnel, now_ns: int) -> None:
        self.tunnels.append(f"- {tunnel.pauses}")

    def record(self, now_ns: int, kind: AgentEvent, value: int) -> None:
        self.records.append(f"{kind.name} {SR_ITEMS[value]}")

    def change(self) -> None:
        self.changes += 1
        self.notes.write(self.agent.notes)

    def check(self) -> None:
        assert self.kernel.state() == wanted("R1", INTERFACES, (INTERFACES["to2"],), self.agent.installed)


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Controller]:
    clock = SimpleNamespace(now_ns=S)
    monkeypatch.setattr(sr_agent, "time", SimpleNamespace(monotonic_ns=lambda: clock.now_ns))
    made = Controller(tmp_path / "agents", clock)
    made.now_ns = S
    yield made
    for line in (*made.lines.values(), made.door):
        if line is not None:
            line.close()


@pytest.fixture
def r1(controller: Controller) -> R1:
    """Return R1 with a session, beside the other routers."""
    router = R1(controller)
    router.start()
    controller.connect("R2", "R3")
    return router


@pytest.fixture
def red(r1: R1) -> R1:
    """Return R1 with a VPN, and a policy from R1 to R3."""
    r1.controller.vpn()
    r1.controller.policy("R1", "R3")
    return r1


def segments(r1: R1) -> tuple[str, ...]:
    item = r1.agent.installed.get(("policy", R1_TO_R3))
    return tuple(map(str, item.segments)) if isinstance(item, PolicyItem) else ()


def bind(r1: R1, *candidates: Candidate, sid: IPv6Address = BINDING) -> None:
    """Give the policy from R1 to R3 a binding SID."""
    intent = PolicyIntent(R1_TO_R3, candidates or (Dynamic(pfc_ends=True),), "red", binding_sid=sid)
    r1.controller.manager.intents.put_policy(intent, r1.controller.now_ns)
    r1.controller.run(S)


def test_it_connects_at_once_and_the_controller_has_its_router(r1: R1) -> None:
    known = r1.controller.manager.reports["R1"]
    assert known == report("R1", FIGURE_3, ("R1", "R3"))
    assert r1.agent.snapshot() == {"connected": True, "sessions": 1, "installed": [], "binding_sids": {}}
    assert r1.agent.deadline_ns <= r1.controller.now_ns + 1 * S


def test_end_x_pfc_sids_are_advertised_beside_end_x_to_every_router_that_learns(r1: R1) -> None:
    topology = r1.controller.manager.network.topology
    announced = [(str(sid.address), sid.behaviour) for sid in topology.sids("R1")]
    assert announced == [
        ("fd00:a:1:1::", behaviours.END),
        ("fd00:a:1:e02::", behaviours.END_X),
        ("fd00:a:1:f02::", behaviours.END_X_PFC),
    ]
    revision, told = r1.agent.directory
    assert revision > 0 and {sid.address for sid in told} == {sid.address for sid in topology.sids()}
    assert [str(sid.address) for sid in told if sid.behaviour is behaviours.END_X_PFC and sid.node == "R3"] == [
        "fd00:a:3:f02::"
    ]


def test_a_vpn_a_tunnel_and_a_policy_are_done_noted_and_answered(red: R1) -> None:
    assert segments(red) == ("fd00:a:1:f02::", "fd00:a:2:1::", "fd00:a:3:d000::")
    red.check()
    assert red.kernel.state()["red"]["routes"] == {
        "10.3.100.0/24": Encap(tuple(red.agent.installed["policy", R1_TO_R3].segments), 13)  # type: ignore[union-attr]
    }
    assert red.tunnels == ["+ R3"]
    assert red.records == ["SR_INSTALLED vpn", "SR_INSTALLED tunnel", "SR_INSTALLED policy"]
    assert red.changes == 3
    assert red.controller.manager.deployment.pending == 0
    assert red.agent.snapshot()["installed"] == ["VPN red at R1", f"tunnel {FORTH}", "policy R1:100:R3"]


def test_a_vpns_sid_is_advertised_while_it_is_there(red: R1) -> None:
    site = red.controller.manager.vpns["red"].site("R1")
    assert site is not None and site.sid is not None
    assert site.sid in [sid.address for sid in red.controller.manager.reports["R1"].sids]
    red.controller.manager.intents.remove_policy(R1_TO_R3, red.controller.now_ns)
    red.controller.run()
    red.controller.manager.intents.remove_vpn("red", red.controller.now_ns)
    red.controller.run(2 * S)
    assert site.sid not in [sid.address for sid in red.controller.manager.reports["R1"].sids]
    assert red.kernel.state() == {} and red.kernel.routes == {}
    assert red.records[3:] == ["SR_REMOVED policy", "SR_REMOVED tunnel", "SR_REMOVED vpn"]
    assert red.tunnels == ["+ R3", "- R3"]
    assert red.agent.notes == SrNotes((), {})


def test_a_binding_sid_follows_its_policys_list_and_is_advertised(red: R1) -> None:
    loose, strict = Dynamic(), Explicit((IPv6Address("fd00:a:1:e02::"), IPv6Address("fd00:a:2:1::")), preference=200)
    lists = []
    for candidates in ((loose,), (loose, strict), (replace(loose, preference=300), strict)):
        bind(red, *candidates)
        red.check()
        bound = red.agent.snapshot()["binding_sids"]
        assert bound == {str(BINDING): list(segments(red))}
        lists.append(segments(red)[0])
    assert lists == ["fd00:a:1:f02::", "fd00:a:1:e02::", "fd00:a:1:f02::"]
    advertised = red.controller.manager.network.topology.sid(BINDING)
    assert advertised is not None and (advertised.node, advertised.behaviour) == ("R1", behaviours.END_B6_ENCAPS)


def test_the_binding_sid_of_a_policy_that_has_no_path_drops_until_it_has_one(red: R1) -> None:
    bind(red)
    for is_up in (False, True):
        red.agent.link("to2", is_up, red.controller.now_ns)
        red.controller.run()
        assert (red.kernel.state()[str(BINDING)] == {1024: None}) == (not is_up)
        assert red.controller.manager.network.topology.sid(BINDING) is not None, "it stays a SID of the router"
        red.check()


def test_a_binding_sid_that_changes_or_goes_is_advertised_no_more(red: R1) -> None:
    bind(red)
    bind(red, sid=IPv6Address("fd00:a:1:b1::"))
    red.check()
    assert red.controller.manager.network.topology.sid(BINDING) is None
    red.controller.manager.intents.remove_policy(R1_TO_R3, red.controller.now_ns)
    red.controller.run(S)
    red.check()
    assert red.controller.manager.reports["R1"].sids[3:] == red.controller.manager.reports["R1"].sids[-1:]


def test_a_binding_sid_that_the_kernel_refuses_is_reported_and_the_state_before_stays(red: R1) -> None:
    before, advertised = red.kernel.state(), red.controller.manager.reports["R1"].sids
    red.kernel.refuses = lambda message: message.what.startswith("End.B6.Encaps")
    bind(red)
    assert (red.kernel.state(), red.controller.manager.reports["R1"].sids) == (before, advertised)
    (said,) = red.controller.events("policy_refused")
    assert said == (
        "R1 has not installed policy R1:100:R3: End.B6.Encaps at fd00:a:1:b:: by 3 segments: Operation not permitted"
    )


def test_a_routers_own_sid_is_not_given_to_a_policy_or_vpn(red: R1) -> None:
    """The controller sees to it too; an agent may meet another."""
    end = red.agent.installed["policy", R1_TO_R3]
    assert isinstance(end, PolicyItem)
    taken = replace(end, intent=replace(end.intent, binding_sid=IPv6Address("fd00:a:1:1::")))
    said = len(red.kernel.said)
    red.agent._obey([Install(1, taken)])
    assert len(red.kernel.said) == said and red.agent.installed["policy", R1_TO_R3] == end


def test_a_binding_sid_outlives_agent_and_controller(red: R1) -> None:
    bind(red)
    before, said, sids = red.kernel.state(), len(red.kernel.said), red.controller.manager.reports["R1"].sids
    red.start(red.agent.notes)
    red.controller.run(S)
    red.controller.crash()
    red.controller.open()
    red.controller.run(S)
    red.controller.connect("R2", "R3")
    red.controller.run(10 * S)
    assert (red.kernel.state(), len(red.kernel.said)) == (before, said)
    assert red.controller.manager.policies[R1_TO_R3].binding_sid == BINDING
    assert red.controller.manager.reports["R1"].sids == sids
    bind(red, replace(Dynamic(), preference=7))  # and it is not taken by itself
    red.check()


def test_a_refusal_of_the_kernel_is_reported_in_its_words_and_changes_nothing(red: R1) -> None:
    before, noted = red.kernel.state(), red.changes
    red.kernel.refuses = lambda message: message.what.startswith("making the VRF")
    red.controller.vpn("blue", colour=200)
    assert red.kernel.state() == before and red.agent.notes.tables.keys() == {"red"}
    refused = red.controller.manager.deployment
    assert refused.has_refused("R1", ("vpn", "blue"))
    (said,) = red.controller.events("vpn_refused")
    assert said == "R1 has not installed VPN blue at R1: making the VRF blue: Operation not permitted"
    assert red.changes == noted


def test_an_invalid_tunnel_is_refused(r1: R1) -> None:
    r1.refuses = "there is no interface to9"
    r1.controller.vpn()
    r1.controller.policy("R1", "R3")
    said = r1.controller.events("tunnel_refused")
    assert said == [f"R1 has not installed tunnel {FORTH}: there is no interface to9"]
    assert not [item for item in r1.agent.installed.values() if isinstance(item, TunnelItem)]


def test_a_link_between_routers_does_not_become_a_tenants(r1: R1) -> None:
    intent = r1.controller.vpn()
    moved = CODEC.encode(intent)
    moved["sites"][0]["interfaces"] = ["red0", "to2"]
    before = r1.kernel.state()
    r1.controller.manager.intents.put_vpn(CODEC.decode(type(intent), moved), r1.controller.now_ns)
    r1.controller.run()
    assert r1.kernel.state() == before
    (said,) = r1.controller.events("vpn_refused")
    assert said.endswith(": VPN red: to2 leads to R2; a VPN has interfaces towards its tenant")


def test_a_session_lasts_and_counters_are_reported_while_nothing_happens(red: R1) -> None:
    said = len(red.kernel.said)
    red.controller.run(60 * S)
    assert red.agent.sessions == 1 and red.agent.snapshot()["connected"]
    assert red.controller.manager.reports["R1"].counters == (("fd00:a:1:f02:: paused", 7),)
    assert len(red.kernel.said) == said


def test_without_a_controller_it_tries_again_and_everything_stays(red: R1) -> None:
    before, said = red.kernel.state(), len(red.kernel.said)
    installed = dict(red.agent.installed)
    red.controller.crash()
    assert not red.agent.snapshot()["connected"]
    for _ in range(5):
        assert red.agent.deadline_ns == red.controller.now_ns + RECONNECT_NS
        red.controller.run(RECONNECT_NS)
    red.controller.open()
    red.controller.run(RECONNECT_NS)
    assert red.agent.snapshot()["connected"] and red.agent.sessions == 2
    assert red.controller.manager.policies.keys() == {R1_TO_R3}, "the intents are learned from the network"
    red.controller.connect("R2", "R3")
    red.controller.run(10 * S)
    assert (red.kernel.state(), len(red.kernel.said), dict(red.agent.installed)) == (before, said, installed)
    assert red.tunnels == ["+ R3"]


def test_an_agent_may_be_there_before_any_controller(tmp_path: Path, controller: Controller) -> None:
    controller.crash()
    router = R1(controller)
    agent = router.start()
    agent.expire(controller.now_ns)
    assert agent.deadline_ns == controller.now_ns + RECONNECT_NS
    controller.open()
    controller.run(S)
    assert agent.snapshot()["connected"]


def test_a_successor_reports_what_is_installed_and_does_nothing_again(red: R1) -> None:
    notes, said = red.agent.notes, len(red.kernel.said)
    successor = red.start(notes)
    assert successor.notes == notes
    red.controller.run(10 * S)
    assert successor.snapshot() == {
        "connected": True, "sessions": 1, "installed": ["VPN red at R1", f"tunnel {FORTH}", "policy R1:100:R3"],
        "binding_sids": {},
    }  # fmt: skip
    assert (len(red.kernel.said), red.tunnels) == (said, ["+ R3"])
    red.controller.policy("R1", "R3", *red.controller.manager.policies[R1_TO_R3].candidates)
    red.controller.vpn("blue", colour=200)
    red.check()


def test_a_link_that_fails_and_comes_back_is_reported(red: R1) -> None:
    red.agent.link("to2", False, red.controller.now_ns)
    red.controller.run()
    assert [end.up for end in red.controller.manager.reports["R1"].links] == [False]
    assert segments(red) == ()
    assert red.kernel.state()["red"]["routes"] == {"10.3.100.0/24": None}, "nothing goes without back-pressure"
    red.agent.link("to2", True, red.controller.now_ns)
    red.controller.run()
    assert segments(red) != ()
    red.check()


def test_a_link_to_no_router_is_not_reported(red: R1) -> None:
    before = red.controller.manager.reports["R1"]
    red.agent.link("red0", False, red.controller.now_ns)
    red.controller.run()
    assert red.controller.manager.reports["R1"] == before


def test_pauses_and_own_tunnels_are_passed_on(red: R1) -> None:
    sid = report("R1", FIGURE_3, ("R1",)).sids[2].address
    red.agent.report(Pause(sid, "to2", 3, None, True), red.controller.now_ns)
    item = next(item for item in red.agent.installed.values() if isinstance(item, TunnelItem))
    red.agent.report(OwnTunnel(item.tunnel, True, "a data packet has come by it"), red.controller.now_ns)
    red.controller.run()
    assert len(red.controller.events("pause")) == 1
    assert red.agent.snapshot()["connected"]


def test_a_controller_that_falls_silent_is_given_up(red: R1) -> None:
    red.controller.reads = False
    red.controller.south.advance = lambda now_ns: None  # type: ignore[method-assign]
    start = red.controller.now_ns
    timeout = SessionSettings().timeout_ns
    while red.agent.snapshot()["connected"]:
        red.controller.now_ns = red.controller.clock.now_ns = red.agent.deadline_ns
        red.agent.expire(red.controller.now_ns)
        assert red.agent.deadline_ns > red.controller.now_ns
        assert red.controller.now_ns <= start + timeout
    assert red.controller.now_ns == start + timeout
    red.check()


def test_who_has_another_key_is_no_controller(controller: Controller) -> None:
    router = R1(controller, key=b"another key, which does not fit")
    agent = router.start()
    controller.run(3 * S)
    assert agent.sessions > 2 and not agent.snapshot()["connected"]
    assert controller.manager.reports == {}


def test_a_socket_that_takes_nothing_is_tried_again_later_and_nothing_is_lost(red: R1) -> None:
    red.controller.reads = False
    sid = report("R1", FIGURE_3, ("R1",)).sids[2].address
    now_ns = red.controller.now_ns
    count = 0
    while red.agent.deadline_ns > now_ns + 5 * MS:
        red.agent.report(Pause(sid, "to2", count % 8, None, True), now_ns)
        count += 1
        assert count < 100_000
    for _ in range(5000):  # more than the socket takes at once
        red.agent.report(Pause(sid, "to2", count % 8, None, True), now_ns)
        count += 1
    for _ in range(20):
        assert now_ns < red.agent.deadline_ns <= now_ns + 5 * MS
        now_ns = red.agent.deadline_ns
        red.agent.expire(now_ns)
    heard: list[object] = []
    hear = red.controller.manager.receive

    def listen(node: str, message: Any, now_ns: int) -> None:
        heard.append(message)
        hear(node, message, now_ns)

    red.controller.manager.receive = listen  # type: ignore[method-assign]
    red.controller.reads, red.controller.now_ns = True, now_ns
    for _ in range(10):
        red.controller.run(5 * MS)
    said = [message.priority for message in heard if isinstance(message, Pause)]
    assert said == [number % 8 for number in range(count)]
    assert red.agent.deadline_ns > red.controller.now_ns + 5 * MS
    assert red.agent.sessions == 1


def test_a_controller_that_reads_nothing_is_given_up_when_too_much_waits_and_told_all_later(
    red: R1, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sr_agent, "MOST_UNSENT", 100_000)
    red.controller.reads = False
    sid = report("R1", FIGURE_3, ("R1",)).sids[2].address
    now_ns, said = red.controller.now_ns, 0
    while red.agent.snapshot()["connected"]:
        red.agent.report(Pause(sid, "to2", said % 8, None, True), now_ns)
        said += 1
        assert said < 100_000
        assert len(red.agent._unsent) <= 100_000
    assert red.agent.deadline_ns == now_ns + RECONNECT_NS
    assert len(red.agent._unsent) == 0
    red.controller.reads = True
    red.controller.run(S)
    assert red.agent.snapshot()["connected"] and red.agent.sessions == 2
    red.check()


@pytest.mark.slow
def test_500_policies_are_installed_noted_and_taken_over_and_what_is_too_much_is_refused(
    red: R1, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, before = red.controller.manager, red.changes
    reports = manager.counters["reports_received"]
    monkeypatch.setattr(sr_notes, "MOST_ITEMS", 502)  # beside VPN and tunnel there is one place less than is requested
    service = manager.vpns["red"].site("R3")
    assert service is not None
    for colour in range(1000, 1500):
        binding = IPv6Address(f"fd00:a:1:{colour:x}::")
        candidates = (Dynamic(preference=200), Explicit((binding,) * 40))
        intent = PolicyIntent(Key("R1", colour, "R3"), candidates, service=service.sid, binding_sid=binding)
        manager.intents.put_policy(intent, red.controller.now_ns)
    red.controller.run(S)
    policies = [item for item in red.agent.installed.values() if isinstance(item, PolicyItem)]
    assert len(policies) == 500 and red.agent.sessions == 1 and red.agent.snapshot()["connected"]
    refused = red.controller.events("policy_refused")
    assert len(refused) <= 2, "it is tried again when the router has reported anew"
    assert set(refused) == {
        "R1 has not installed policy R1:1499:R3: R1 has 502 items, and there is room for 502; remove some"
    }
    assert red.controller.manager.counters["reports_received"] - reports < 5, "a report has all 500"
    assert red.changes - before < 10, "what comes at once is noted at once"
    assert len(manager.reports["R1"].sids) == 4 + 499
    red.check()
    assert red.notes.read() == red.agent.notes
    red.start(red.notes.read())
    red.controller.run(S)
    assert len(red.agent.installed) == 502 and red.agent.snapshot()["connected"]
    red.check()


def test_a_command_that_comes_with_the_end_of_the_session_is_done_and_reported_in_the_next(red: R1) -> None:
    """Octets of the last moment: the router has done it, and the next controller learns so."""
    line = next(iter(red.controller.lines.values()))
    red.controller.agents = []
    red.controller.vpn("blue", colour=200)
    line.shutdown(socket.SHUT_RDWR)
    red.controller.agents = [red.agent]
    red.controller.run(2 * S)
    assert ("vpn", "blue") in red.agent.installed
    red.check()
    assert red.controller.manager.deployment.installed("R1", ("vpn", "blue")) is not None


def test_a_policy_whose_route_is_refused_leaves_the_route_before(red: R1) -> None:
    before = red.kernel.state()
    tries = 0

    def refuses(message: Message) -> bool:
        nonlocal tries
        tries += 1
        return tries == 1

    red.kernel.refuses = refuses
    red.agent.link("to2", False, red.controller.now_ns)
    red.controller.run()
    assert red.kernel.state() == before
    (said,) = red.controller.events("policy_refused")
    assert "the unreachable route to 10.3.100.0/24: Operation not permitted" in said
    red.check()
