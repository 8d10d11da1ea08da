"""One interface of a DCBX agent, with a socket and a NIC that only the test has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from testbed.frames import Mac
from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.lldp import Lldpdu, LldpFrame, parse
from testbed.linux.netlink.link_state import Link
from testbed.subjects.dcbx.config import WILLING, Config
from testbed.subjects.dcbx.daemon import interface
from testbed.subjects.dcbx.daemon.agent import DcbxAgent
from testbed.subjects.dcbx.daemon.interface import AgentInterface
from testbed.subjects.dcbx.settings import DcbxSettings, PfcAdmin, PortIdentity
from testbed.subjects.dcbx.tlvs import DcbxTlvs, Pfc, encode
from tests.dcb_driver import Driver
from tests.unit.linux.test_dcb import Kernel

S = 10**9
OWN, OTHER, PEER = (Mac.parse(f"02:00:00:00:00:0{last}") for last in "abc")


class Socket:
    """A socket in place of `LldpSocket`."""

    tagged, fd = 0, 3

    def __init__(self) -> None:
        self.to_receive: list[bytes] = []
        self.sent: list[bytes] = []

    def receive(self) -> list[bytes]:
        taken, self.to_receive = self.to_receive, []
        return taken

    def send(self, frame: bytes) -> None:
        self.sent.append(frame)

    def close(self) -> None: ...


class World:
    """An interface, its NIC, and the lines that were printed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, settings: DcbxSettings = WILLING.settings) -> None:
        self.sockets: list[Socket] = []
        monkeypatch.setattr(interface, "open_socket", self._open)
        self.driver = Driver()
        self.kernel = Kernel(self.driver)
        self.said: list[str] = []
        ask: Any = SimpleNamespace(ask=self.kernel.ask)
        self.port = AgentInterface(link(OWN), Config(settings), ask, self.said.append, None)
        self.port.start(1)

    def _open(self, _: str) -> Socket:
        self.sockets.append(Socket())
        return self.sockets[-1]

    def hear(self, frame: bytes, at_ns: int) -> None:
        self.sockets[-1].to_receive.append(frame)
        self.port.receive(at_ns)


def link(mac: Mac) -> Link:
    return Link(7, "eth0", mac, True, True, False, True)


def frame(enabled: int, ttl: int = 121) -> bytes:
    identity = PortIdentity.of(PEER, "p")
    tlvs = tuple(encode(DcbxVersion.PUBLISHED, DcbxTlvs(pfc=Pfc(enabled))))
    return LldpFrame(PEER, Lldpdu(identity.chassis_id, identity.port_id, ttl, tlvs)).encode()


def test_a_change_of_the_address_does_not_end_the_port_and_leaves_the_nic_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.hear(frame(0x10), 2)
    assert world.driver.pfc_enabled == 0x10
    world.said.clear()
    world.port.link_changed(link(OTHER), 3)
    assert world.said[0] == "its address is 02:00:00:00:00:0b now; a shutdown frame ended the one before"
    assert not any("ended," in text or text.startswith("ended") for text in world.said)
    goodbye = parse(world.sockets[0].sent[-1])
    assert (goodbye.source, goodbye.pdu.ttl) == (OWN, 0)
    assert parse(world.sockets[1].sent[-1]).source == OTHER
    world.port.stop(4)
    assert world.driver.pfc_enabled == 0, "what was there before the agent, not before the change"
    assert world.said[-1] == "ended; a shutdown frame was sent to the peer; the NIC is restored"


def test_a_peer_that_changes_with_every_frame_costs_few_card_writes_and_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    before = world.kernel.asked.count(20)
    for number in range(5000):  # 5 s of a thousand frames a second
        world.hear(frame(number % 255 + 1), number * S // 1000 + 1)
    assert world.kernel.asked.count(20) - before <= 15
    assert len(world.said) < 40
    assert world.port.snapshot()["counters"]["held_back"] > 4900


def test_lines_that_come_too_often_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.said.clear()
    for number in range(1000):
        world.port.link_changed(link((OWN, OTHER)[number % 2]), number)
    left_out = world.port.snapshot()["counters"]["lines_left_out"]
    assert len(world.said) <= 30
    world.port.link_changed(link(PEER), 100 * S)
    assert world.said[-1].endswith("lines before this one were left out)") or f"({left_out} lines" in " ".join(
        world.said
    )


def test_warnings_are_reported_once_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, DcbxSettings(pfc=PfcAdmin(0, willing=True, cap=2)))
    for second in range(3):
        world.hear(frame(0xFF), second * S + 1)
    text = "PFC is on for 8 priorities, and this port can have it in 2 (cap)"
    assert [line for line in world.said if "warning" in line] == [f"warning: {text}"]
    assert world.port.snapshot()["warnings"] == [text]
    world.hear(frame(0x03), 5 * S)
    assert world.port.snapshot()["warnings"] == []


def test_warnings_about_settings_are_reported_before_there_is_a_carrier(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, DcbxSettings(pfc=PfcAdmin(0b111, cap=1)))
    text = "warning: PFC is on for 3 priorities, and this port can have it in 1 (cap)"
    assert world.said[0] == text
    assert world.said.count(text) == 1
    world.port.configure(Config(DcbxSettings(pfc=PfcAdmin(0b1111, cap=1))), 5)
    assert world.said[-1] == text.replace("3", "4")


def test_neighbours_are_forgotten_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.hear(frame(0x10, ttl=65535), 2)
    assert world.port.forget(3) == 1
    assert world.driver.pfc_enabled == 0
    assert world.port.snapshot()["neighbours"] == []


def test_what_goes_wrong_at_the_end_of_one_interface_keeps_no_other_from_its_end() -> None:
    ended: list[str] = []

    class Port:
        def __init__(self, name: str) -> None:
            self._name = name

        def stop(self, _: int) -> None:
            if self._name == "eth0":
                raise OSError("no")
            ended.append(self._name)

        def close(self) -> None:
            ended.append(f"{self._name} closed")

    made: Any = DcbxAgent.__new__(DcbxAgent)
    made.ports = {name: Port(name) for name in ("eth0", "eth1")}
    closing = SimpleNamespace(close=lambda: ended.append("closed"))
    made._watches = [(closing, None)]
    made._claims, made._saved, made._links, made._netlink = {"eth0": closing}, [closing], closing, closing
    with pytest.raises(OSError, match="no"):
        made._end(0)
    assert ended == ["eth0 closed", "eth1", "eth1 closed", *["closed"] * 5]
