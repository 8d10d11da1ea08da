"""The settings of a NIC outlive an agent that is killed: the file, and the NIC that the next agent leaves."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from testbed.errors import XoffError
from testbed.frames import Mac
from testbed.frames.dcbx.values import AppEntry, Ets, Selector
from testbed.linux.netlink.dcb import NicSettings, SavedSettings
from testbed.subjects.dcbx.daemon import saved_settings as module
from testbed.subjects.dcbx.daemon.nic import Nic
from testbed.subjects.dcbx.daemon.saved_settings import SavedSettingsFile, decode, encode
from testbed.subjects.dcbx.negotiation import PortState, negotiate
from testbed.subjects.dcbx.settings import ApplicationAdmin, DcbxSettings, EtsAdmin, PfcAdmin
from tests.dcb_driver import Driver
from tests.unit.linux.test_dcb import Kernel, Modes, everything

TABLE = Ets((0, 0, 0, 1, 0, 0, 0, 2), (60, 40, 0, 0, 0, 0, 0, 0), (2, 2, 0, 2, 2, 2, 2, 2))
FOUND = SavedSettings(0x0A, NicSettings(bytes(59), None, frozenset({AppEntry(1, Selector.TCP, 80)})))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "folders", lambda: [tmp_path / "xoff"])
    return tmp_path / "xoff"


@pytest.fixture
def driver() -> Driver:
    made = Driver()
    made.ets = bytes([1, 8, 0]) + bytes(range(8)) * 7
    made.pfc = bytes([8, 0b1000_0000, 1, 0]) + bytes(range(132))
    made.applications = {(2, 1, 80)}
    return made


def state() -> PortState:
    entries = (AppEntry(3, Selector.ETHERTYPE, 0x8906),)
    settings = DcbxSettings(ets=EtsAdmin(TABLE), pfc=PfcAdmin(8), applications=ApplicationAdmin(entries))
    return negotiate(settings, Mac.parse("02:00:00:00:00:0a"), None)


def killed(driver: Driver, name: str = "eth0", index: int = 7) -> list[str]:
    """Run an agent that changes the NIC and then is killed, and return the lines that it printed."""
    said: list[str] = []
    file = SavedSettingsFile(name)
    Nic("eth0", Kernel(driver).ask, said.append, file, index).apply(state())
    file.close()
    return said


def test_the_agent_after_a_killed_one_leaves_the_card_as_that_one_had_found_it(place: Path, driver: Driver) -> None:
    before = everything(driver)
    assert killed(driver) == []
    assert everything(driver) != before
    said: list[str] = []
    card = Nic("eth0", Kernel(driver).ask, said.append, SavedSettingsFile("eth0"), 7)
    assert everything(driver) == before, "what the new agent does not run is not the dead one's any more"
    assert said == ["an agent that was killed had changed the NIC; its original settings are restored"]
    card.apply(state())
    assert everything(driver) != before
    assert card.restore()
    assert everything(driver) == before
    assert list(place.iterdir()) == []


def test_any_number_of_agents_may_be_killed_one_after_the_other(place: Path, driver: Driver) -> None:
    before = everything(driver)
    for _ in range(3):
        killed(driver)
    assert Nic("eth0", Kernel(driver).ask, lambda _: None, SavedSettingsFile("eth0"), 7).restore()
    assert everything(driver) == before


def test_another_interface_of_the_name_has_settings_of_its_own(place: Path, driver: Driver) -> None:
    killed(driver)
    now = everything(driver)
    card = Nic("eth0", Kernel(driver).ask, pytest.fail, SavedSettingsFile("eth0"), 8)
    assert everything(driver) == now
    assert card.restore()
    assert everything(driver) == now


def test_names_with_dots_have_files_of_their_own(place: Path, driver: Driver) -> None:
    for name in ("p1", "p1.1", "p1.2", "q[1]"):
        killed(driver, name)
    assert len(list(place.iterdir())) == 4


def test_who_ran_dcbx_before_is_known_after_a_kill_too(place: Path, driver: Driver) -> None:
    kernel = Modes(driver, 0x0A, can_be_set=True)
    for _ in range(2):
        card = Nic("eth0", kernel.ask, lambda _: None, SavedSettingsFile("eth0"), 7)
        assert kernel.mode == 0x09
    assert card.restore()
    assert kernel.mode == 0x0A


def test_a_card_that_is_not_ours_leaves_no_file(place: Path, driver: Driver) -> None:
    Nic("eth0", Modes(driver, 0x0A, can_be_set=False).ask, lambda _: None, SavedSettingsFile("eth0"), 7)
    assert list(place.iterdir()) == []


def test_settings_that_could_not_be_restored_are_known_to_the_next_agent(place: Path, driver: Driver) -> None:
    before = everything(driver)
    kernel, said = Kernel(driver), list[str]()
    card = Nic("eth0", kernel.ask, said.append, SavedSettingsFile("eth0"), 7)
    card.apply(state())
    kernel.codes = {20: 22}
    assert not card.restore()
    assert Nic("eth0", Kernel(driver).ask, said.append, SavedSettingsFile("eth0"), 7).restore()
    assert everything(driver) == before


def test_without_a_place_for_the_file_the_agent_works_and_reports_the_effect_of_a_kill(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "folders", lambda: [Path("/proc/none/xoff")])
    said: list[str] = []
    card = Nic("eth0", Kernel(driver).ask, said.append, SavedSettingsFile("eth0"), 7)
    assert said == [
        "the original settings of the NIC cannot be saved, so they are not restored after a kill: "
        "/proc/none/xoff cannot be written"
    ]
    assert card.restore()


def test_an_agent_that_may_not_remove_the_file_empties_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = SavedSettingsFile("eth0")
    file.write(7, FOUND)
    monkeypatch.setattr(Path, "unlink", lambda *_: (_ for _ in ()).throw(PermissionError()))
    file.clear()
    (left,) = place.iterdir()
    assert left.read_bytes() == b""
    assert SavedSettingsFile("eth0").read(7) is None


def test_the_file_is_its_owners_alone_and_no_link_is_followed(place: Path, tmp_path: Path) -> None:
    file = SavedSettingsFile("eth0")
    file.write(7, FOUND)
    (path,) = place.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    file.close()
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert SavedSettingsFile("eth0").read(7) is None


def test_another_users_file_is_ignored(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = SavedSettingsFile("eth0")
    file.write(7, FOUND)
    file.close()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert SavedSettingsFile("eth0").read(7) is None
    with pytest.raises(XoffError, match="cannot be written"):
        SavedSettingsFile("eth0").write(7, FOUND)


def test_firmware_that_took_over_after_a_kill_gets_its_role_back(place: Path, driver: Driver) -> None:
    killed(driver)
    kernel = Modes(driver, 0x0A, can_be_set=True)
    card = Nic("eth0", kernel.ask, lambda _: None, SavedSettingsFile("eth0"), 7)
    assert kernel.mode == 0x09
    assert card.restore()
    assert kernel.mode == 0x0A


def test_what_is_written_is_read_again() -> None:
    assert decode(encode(FOUND, 7), 7) == FOUND
    assert decode(encode(FOUND, 7), 8) is None


@pytest.mark.parametrize(
    "change",
    [
        {"mode": 256}, {"mode": "1"}, {"ets": "00"}, {"ets": "xy"}, {"pfc": 5}, {"applications": 3},
        {"applications": [[2, 80]]}, {"applications": [[2, 80, 8]]}, {"applications": [[6, 80, 1]]},
        {"applications": [[2, 65536, 1]]}, {"applications": [[True, 80, 1]]},
    ],
    ids=str,
)  # fmt: skip
def test_what_was_not_written_by_an_agent_is_refused(change: dict[str, object]) -> None:
    wrong = json.dumps(json.loads(encode(FOUND, 7)) | change).encode()
    for octets in (wrong, b"x", b"[]", b"{}", b"[" * 60_000, encode(FOUND, 7)[:-3]):
        with pytest.raises(XoffError):
            decode(octets, 7)


def test_a_file_that_cannot_be_read_changes_nothing_on_the_nic(place: Path, driver: Driver) -> None:
    file = SavedSettingsFile("eth0")
    file.write(7, FOUND)
    (path,) = place.iterdir()
    os.truncate(path, 20)
    before, said = everything(driver), list[str]()
    card = Nic("eth0", Kernel(driver).ask, said.append, SavedSettingsFile("eth0"), 7)
    assert said == [
        "the original settings of the NIC, saved by an agent that was killed, cannot be read: it is damaged"
    ]
    assert everything(driver) == before
    assert card.restore()
