"""Parts of the stand-alone agent that need no interface: what it says, its lock and socket, what it watches."""

from __future__ import annotations

import json
import os
import struct
import threading
from pathlib import Path

import pytest

from testbed.agent import alone, control
from testbed.agent.told import sentence
from testbed.dcbx.events import (
    CnChanged,
    CrowdChanged,
    Loss,
    NeighbourLost,
    PendingChanged,
    PfcChanged,
    VersionMismatch,
)
from testbed.dcbx.show import record
from testbed.errors import UsageError
from testbed.frames import Mac
from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.lldp import ChassisId, PortId
from testbed.linux.file_watch import FileWatch
from testbed.linux.link_state import Link, _link

MAC = Mac.parse("02:00:00:00:00:0a")


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (PfcChanged(0, 0x18, 0x10, None, None, "so it is"), "PFC 3,4, defended 4: so it is"),
        (CnChanged(0, 0, 0, None, None, "so it is"), "CN none: so it is"),
        (
            NeighbourLost(0, ChassisId.of_mac(MAC), PortId.interface("p1"), Loss.EXPIRED),
            "neighbour 02:00:00:00:00:0a port p1 is gone: its TTL is over",
        ),
        (CrowdChanged(0, True, 3), "DCBX is off: 3 neighbours are on the link"),
        (CrowdChanged(0, False, 1), "DCBX is on again: there are no longer several neighbours"),
        (VersionMismatch(0, DcbxVersion.DRAFT), "the peer speaks the draft format; nothing of its DCBX counts"),
        (VersionMismatch(0, None), None),
        (PendingChanged(0, "pfc", True), None),
    ],
)
def test_events_are_said_in_a_line_or_not_at_all(event, text: str | None) -> None:  # type: ignore[no-untyped-def]
    assert sentence(json.loads(json.dumps(record(event)))) == text


# Lock and socket


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(control, "folders", lambda: [tmp_path])
    return tmp_path


def test_there_is_one_agent_for_an_interface_and_another_when_it_has_ended(place: Path) -> None:
    first = control.Claim("eth0")
    with pytest.raises(control.ControlError) as error:
        control.Claim("eth0")
    assert str(error.value) == (
        f"an agent serves eth0 already, process {os.getpid()}; look at it with `xoff dcbx eth0`, or stop it first"
    )
    control.Claim("eth1").close()
    first.close()
    assert list(place.iterdir()) == []
    control.Claim("eth0").close()


def test_who_asks_is_answered_and_only_the_agents_user_may_ask(place: Path) -> None:
    claims = {name: control.Claim(name) for name in ("eth1", "eth0")}
    modes = {path.stat().st_mode & 0o777 for path in place.iterdir()}
    answered = [{"interface": name, "long": "x" * 300_000} for name in claims]
    waiting = []
    for claim, answer in zip(claims.values(), answered, strict=True):
        waiting.append(threading.Thread(target=_answer_once, args=(claim, answer)))
        waiting[-1].start()
    found = control.ask()
    for thread in waiting:
        thread.join()
    assert list(found) == ["eth0", "eth1"]
    assert list(found.values()) == answered[::-1]
    assert modes == {0o600}
    for claim in claims.values():
        claim.close()


def _answer_once(claim: control.Claim, answer: dict[str, object]) -> None:
    os.set_blocking(claim.fd, True)
    claim.answer(answer)


def test_nobody_to_ask_is_said_with_the_way_out(place: Path) -> None:
    with pytest.raises(control.ControlError) as error:
        control.ask("eth0")
    assert str(error.value) == ("no agent serves eth0 in this network namespace; start one with `xoff agent eth0`")


def test_a_socket_that_a_killed_agent_has_left_is_nobody(place: Path) -> None:
    claim = control.Claim("eth0")
    (socket,) = place.glob("*.sock")
    socket.rename(place / "kept")
    claim.close()
    (place / "kept").rename(socket)
    with pytest.raises(control.ControlError, match="no agent runs"):
        control.ask()
    control.Claim("eth0").close()


def test_without_a_place_for_the_socket_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "folders", lambda: [Path("/proc/none/xoff")])
    with pytest.raises(control.ControlError, match="/proc/none/xoff cannot be written; set XDG_RUNTIME_DIR"):
        control.Claim("eth0")


# Links


def message(name: str, flags: int, hardware: int = 1, family: int = 0, mac: bytes = MAC.octets) -> bytes:
    body = struct.pack("=BxHiII", family, hardware, 7, flags, 0)
    return body + _attribute(3, name.encode() + b"\0") + _attribute(1, mac)


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


@pytest.mark.parametrize(
    ("kind", "flags", "can_talk"),
    [(16, 0x10001, True), (16, 0x1, False), (16, 0x10000, False), (17, 0x10001, False)],
    ids=["up with carrier", "up", "carrier but down", "removed"],
)
def test_an_interface_can_talk_that_is_there_and_up_and_has_a_carrier(kind: int, flags: int, can_talk: bool) -> None:
    link = _link(kind, message("eth0", flags))
    assert link is not None
    assert (link.index, link.name, link.mac, link.can_talk) == (7, "eth0", MAC, can_talk)


def test_what_a_bridge_says_of_its_port_and_other_messages_are_no_links() -> None:
    assert _link(16, message("eth0", 1, family=7)) is None
    assert _link(20, message("eth0", 1)) is None
    assert _link(16, b"short") is None


LINKS = [
    Link(1, "lo", Mac(bytes(6)), True, True, True, False),
    Link(2, "eth0", MAC, True, True, False, True),
    Link(3, "tun0", None, True, True, False, False),
]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("eth1", "there is no interface eth1; did you mean eth0?"),
        ("wlan", "there is no interface wlan; there are eth0"),
        ("lo", "lo is a loopback interface, and has no peer; there are eth0"),
        ("tun0", "tun0 is no Ethernet interface, so nobody speaks LLDP on it; there are eth0"),
    ],
)
def test_an_interface_on_which_lldp_makes_no_sense_is_refused(name: str, text: str) -> None:
    with pytest.raises(UsageError) as error:
        alone._chosen(["eth0", name], LINKS)
    assert str(error.value) == text


# Files


def test_a_file_is_seen_to_change_when_it_is_written_or_replaced_and_no_other_is(tmp_path: Path) -> None:
    file, other = tmp_path / "a.toml", tmp_path / "b.toml"
    file.write_text("1")
    watch = FileWatch(file)
    assert not watch.changed()
    other.write_text("2")
    assert not watch.changed()
    file.write_text("3")
    assert watch.changed()
    assert not watch.changed()
    other.rename(file)
    assert watch.changed()
    file.read_text()
    file.unlink()
    assert not watch.changed()
    watch.close()


def test_a_folder_that_is_not_there_cannot_be_watched(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file or directory"):
        FileWatch(tmp_path / "none" / "a.toml")
