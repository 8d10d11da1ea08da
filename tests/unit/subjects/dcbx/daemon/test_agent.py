"""Parts of the DCBX agent that need no interface: its lines, its log, its settings, the files that it watches."""

from __future__ import annotations

import json
import os
import re
import struct
from pathlib import Path

import pytest

from testbed.errors import UsageError
from testbed.frames import Mac
from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.lldp import ChassisId, PortId
from testbed.linux.netlink.link_state import Link, _link
from testbed.linux.process.file_watch import FileWatch
from testbed.subjects.dcbx.config import WILLING, ConfigError
from testbed.subjects.dcbx.daemon import agent, config_sources
from testbed.subjects.dcbx.daemon.log_file import LogFile
from testbed.subjects.dcbx.events import (
    CnChanged,
    CrowdChanged,
    Loss,
    NeighbourLost,
    PendingChanged,
    PfcChanged,
    VersionMismatch,
)
from testbed.subjects.dcbx.log_text import sentence
from testbed.subjects.dcbx.show import record

MAC = Mac.parse("02:00:00:00:00:0a")


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (PfcChanged(0, 0x18, 0x10, None, None, "so it is"), "PFC 3,4, defended 4: so it is"),
        (CnChanged(0, 0, 0, None, None, "so it is"), "CN none: so it is"),
        (
            NeighbourLost(0, ChassisId.of_mac(MAC), PortId.interface("p1"), Loss.EXPIRED),
            "neighbour 02:00:00:00:00:0a port p1 lost: its TTL is over",
        ),
        (CrowdChanged(0, True, 3), "DCBX is off: 3 neighbours are on the link"),
        (CrowdChanged(0, False, 1), "DCBX is on again: one neighbour is left on the link"),
        (VersionMismatch(0, DcbxVersion.DRAFT), "the peer speaks the draft format; its DCBX TLVs are ignored"),
        (VersionMismatch(0, None), None),
        (PendingChanged(0, "pfc", True), None),
    ],
)
def test_events_are_one_line_or_none(event, text: str | None) -> None:  # type: ignore[no-untyped-def]
    assert sentence(json.loads(json.dumps(record(event)))) == text


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
def test_an_interface_that_is_there_and_up_and_has_a_carrier_can_send(kind: int, flags: int, can_talk: bool) -> None:
    link = _link(kind, message("eth0", flags))
    assert link is not None
    assert (link.index, link.name, link.mac, link.can_talk) == (7, "eth0", MAC, can_talk)


def test_messages_of_a_bridge_about_its_port_and_others_are_not_links() -> None:
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
        ("tun0", "tun0 is not an Ethernet interface, so LLDP does not run on it; there are eth0"),
    ],
)
def test_an_interface_on_which_lldp_makes_no_sense_is_refused(name: str, text: str) -> None:
    with pytest.raises(UsageError) as error:
        agent._chosen(["eth0", name], LINKS)
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


def test_settings_are_those_of_the_interface_else_those_of_all_else_willing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_sources, "DEFAULTS", tmp_path)
    (tmp_path / "dcbx").mkdir()
    assert config_sources.sources_of(["p1.1"], None)["p1.1"].config == WILLING
    (tmp_path / "dcbx.toml").write_text("[pfc]\nenabled = [3]")
    (tmp_path / "dcbx" / "p1.1.toml").write_text("[pfc]\nenabled = [4]")
    own = tmp_path / "own.toml"
    own.write_text("[pfc]\nenabled = [5]")
    found = config_sources.sources_of(["p1", "p1.1", "q[1]"], None)
    enabled = [source.config.settings.pfc and source.config.settings.pfc.enabled for source in found.values()]
    assert enabled == [8, 16, 8]
    assert found["p1"] is found["q[1]"], "a file that several have is read once"
    named = config_sources.sources_of(["p1", "p1.1"], own)
    assert named["p1"] is named["p1.1"]
    assert named["p1"].file == own


def test_a_file_that_is_read_again_changes_settings_and_not_timers(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[pfc]\nenabled = [3]")
    source = config_sources.ConfigSource(file)
    assert source.read_again() == config_sources.Changes(False, False, False)
    file.write_text("[pfc]\nenabled = [4]\n[lldp]\nhold = 2")
    assert source.read_again() == config_sources.Changes(True, True, True)
    assert source.config.timers == WILLING.timers
    for wrong in ("x", f"a = {'[' * 5000}", "\N{REPLACEMENT CHARACTER}", " " * 2_000_000):
        file.write_text(wrong)
        before = source.config
        with pytest.raises(ConfigError):
            source.read_again()
        assert source.config == before


# The log


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_full_disk_ends_nothing_and_what_is_not_written_is_counted() -> None:
    said: list[str] = []
    log = LogFile(Path("/dev/full"), said.append)
    for number in range(3):
        log.write({"port": "eth0", "number": number})
    assert log.lost == 3
    assert said == ["the log /dev/full cannot be written: No space left on device; lost lines are counted"]
    log.close()


def test_a_log_that_can_be_written_again_has_the_number_of_lost_lines(tmp_path: Path) -> None:
    """A pipe without a reader is full after a while, and takes only a part of a line; the agent does not wait."""
    path, said = tmp_path / "pipe", list[str]()
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    log = LogFile(path, said.append)
    while not log.lost:
        log.write({"port": "eth0", "t_ns": 1, "text": "x" * 5000})
    log.write({"port": "eth0", "t_ns": 2})
    lost = log.lost
    os.set_blocking(reader, True)
    read = os.read(reader, 1 << 20)
    log.write({"port": "eth0", "t_ns": 3})
    read += os.read(reader, 1 << 20)
    torn, missing, last = read.decode().splitlines()[-3:]
    assert "xxx" in torn
    assert {name: json.loads(missing)[name] for name in ("what", "lines", "port")} == {
        "what": "lines_lost",
        "lines": lost,
        "port": "eth0",
    }
    assert json.loads(last)["t_ns"] == 3
    assert log.lost == lost
    assert said[-1] == f"the log {path} is written again; {lost} lines were lost"
    log.close()
    os.close(reader)


def test_each_line_of_the_log_has_the_time_of_day(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log", pytest.fail)
    log.write({"what": "frame", "t_ns": 5})
    log.close()
    (line,) = lines(tmp_path / "log")
    assert line["t_ns"] == 5
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", str(line["time"]))
