"""A new DCBX feature is one class, and nothing else changes: here a port's largest frame, negotiated as PFC is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.lldp_tlvs import Flaw, Organisational
from testbed.lab.results.folder import read as read_folder
from testbed.report.timeline.states import states
from testbed.strict.tables import TomlTable, flag, whole
from testbed.subjects.dcbx import features, log_text
from testbed.subjects.dcbx.config import Config, dump, parse
from testbed.subjects.dcbx.config_values import section
from testbed.subjects.dcbx.features.codec import Codec, Contents, bad_length, layouts, organisational
from testbed.subjects.dcbx.features.feature import (
    CommonSettings,
    Data,
    DcbxSettingsError,
    Event,
    Feature,
    FeatureState,
    View,
    willing_text,
)
from testbed.subjects.dcbx.lab.views import rows_of
from testbed.subjects.dcbx.ladder import ladder
from testbed.subjects.dcbx.ladder.text import as_text
from testbed.subjects.dcbx.settings import DcbxSettings, PfcAdmin
from testbed.subjects.dcbx.show import frame_record, record, snapshot, table
from testbed.subjects.dcbx.tlvs import DcbxTlvs, Pfc, Reading, encode, read
from tests.report_folders import lines, small
from tests.unit.subjects.dcbx.dcbx_ladders import logged
from tests.unit.subjects.dcbx.dcbx_link import S


@dataclass(frozen=True)
class Mtu:
    """The largest frame in octets; it is the content of the TLV and the setting."""

    octets: int
    willing: bool = False


@dataclass(frozen=True, slots=True)
class MtuChanged(Event):
    """Send no larger frames than this."""

    octets: int | None
    why: str


def _encode(mtu: Mtu, _: Contents) -> Organisational:
    return organisational(0x42, mtu.willing << 7, *mtu.octets.to_bytes(2, "big"))


def _read(info: bytes, flaws: list[Flaw]) -> Mtu | None:
    if len(info) != 3:
        flaws.append(bad_length("mtu", info, "7"))
        return None
    return Mtu(int.from_bytes(info[1:], "big"), bool(info[0] & 0x80))


class MtuFeature(Feature[Mtu, int, Mtu]):
    name = "mtu"
    head = "MTU"
    tlv = "MTU TLV"
    event_type = MtuChanged
    event_field = "octets"
    is_symmetric = True
    codecs = layouts(draft=Codec(0x42, "mtu", _read, _encode), published=Codec(0x42, "mtu", _read, _encode))

    def check(self, admin: Mtu, settings: CommonSettings) -> None:
        if admin.octets < 64:
            raise DcbxSettingsError(f"an MTU of {admin.octets} octets is too small: give 64 or more")

    def read_settings(self, top: TomlTable, version: DcbxVersion) -> Mtu | None:
        section = top.table("mtu")
        if section is None:
            return None
        octets, willing = section.need("octets", whole), section.take("willing", flag, False)
        return section.build(lambda: Mtu(octets, willing))

    def settings_lines(self, admin: Mtu) -> list[str]:
        return section("mtu", {"octets": admin.octets, "willing": admin.willing})

    def negotiate(self, view: View) -> FeatureState[int]:
        admin, tlv = self.admin(view.settings), view.remote(self.name)
        remote, remote_willing = (tlv.octets, tlv.willing) if tlv else (None, None)
        if admin is None:
            return FeatureState(None, None, remote, "this port does not negotiate its MTU")
        outcome = view.pass_symmetrically(self, admin.octets, remote, admin.willing, remote_willing)
        state = admin.willing, remote_willing, outcome.pending
        return FeatureState(admin.octets, outcome.oper, remote, outcome.why, *state)

    def sent(self, settings: CommonSettings, state: FeatureState[int]) -> Mtu | None:
        admin = self.admin(settings)
        return None if admin is None or state.oper is None else Mtu(state.oper, admin.willing)

    def event(self, at_ns: int, state: FeatureState[int]) -> Event:
        return MtuChanged(at_ns, state.oper, state.why)

    def event_data(self, event: MtuChanged) -> dict[str, Any]:
        return {"octets": event.octets, "why": event.why}

    def value_data(self, value: int) -> int:
        return value

    def tlv_data(self, content: Mtu) -> dict[str, Any]:
        return {"octets": content.octets, "willing": content.willing}

    def value_text(self, data: Any) -> str:
        return str(data)

    def tlv_text(self, data: Any, version: str) -> str:
        return f"MTU {data['octets']}{willing_text(data)}"

    def event_text(self, line: Data, before: Data) -> list[str]:
        return [] if before.get("octets") == line["octets"] else [f"MTU {line['octets']}, {line['why']}"]

    def sentence(self, line: Data) -> str:
        return f"MTU {line['octets']}: {line['why']}"


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    features.register(MtuFeature())
    yield
    features.unregister("mtu")


BRIDGE, HOST = {"mtu": Mtu(9216)}, {"mtu": Mtu(1500, willing=True)}


@pytest.mark.parametrize("version", DcbxVersion)
def test_two_ports_negotiate_it_and_it_is_shown_in_tables_diagrams_and_events(version: DcbxVersion) -> None:
    link, log = logged(("host", DcbxSettings(version, more=HOST)), ("bridge", DcbxSettings(version, more=BRIDGE)))
    link.a.start(0)
    link.b.start(0)
    link.run_until(10 * S)
    state = link.a.state.states["mtu"]
    assert (state.admin, state.oper, state.remote, state.pending) == (1500, 9216, 9216, False)
    assert link.a.state.sent.get("mtu") == Mtu(9216, willing=True)
    assert link.a.counters["oper_changes.mtu"] == 1

    shown = table({"host": snapshot(link.a), "bridge": snapshot(link.b)}).splitlines()
    rows = [" ".join(line.split()) for line in shown if " MTU " in line]
    assert rows == [
        "host MTU 1500 9216 9216 yes/no no - the peer's: this port is willing and the peer is not",
        "bridge MTU 9216 9216 9216 no/yes no - local setting: the peer is willing and this port is not",
    ]

    told = [event for event in link.events["a"] if isinstance(event, MtuChanged)]
    assert [event.octets for event in told] == [1500, 9216]
    line = record(told[-1])
    why = "the peer's: this port is willing and the peer is not"
    assert line == {"t_ns": told[-1].at_ns, "what": "mtu_changed", "octets": 9216, "why": why}
    assert features.named("mtu").sentence(line) == f"MTU 9216: {why}"
    assert log_text.event(line, record(told[0])) == [f"MTU 9216, {why}"]

    drawn = as_text(ladder(log, "host", "bridge"))
    assert "MTU 1500, willing" in drawn
    assert "MTU 9216, not willing" in drawn
    assert f"MTU 9216, {why}" in drawn


def test_live_views_and_reports_show_its_state(tmp_path: Path) -> None:
    link, log = logged(("host", DcbxSettings(more=HOST)), ("bridge", DcbxSettings(more=BRIDGE)))
    link.a.start(0)
    link.b.start(0)
    link.run_until(10 * S)
    why = "the peer's: this port is willing and the peer is not"
    live = rows_of({"host": snapshot(link.a) | {"refused": None}})
    assert live["host MTU"] == f"oper 9216; local 1500, willing; peer 9216. {why}"
    lines(small(tmp_path / "one") / "dcbx.jsonl", [dict(line) for line in log])
    seen = [words for _, subject, words in states(read_folder(tmp_path / "one"), []) if subject == "host MTU"]
    assert seen[-1] == f"oper 9216. {why}"


@pytest.mark.parametrize("version", DcbxVersion)
def test_a_frame_has_it_beside_the_others(version: DcbxVersion) -> None:
    tlvs = DcbxTlvs(pfc=Pfc(0x08, cap=1), more={"mtu": Mtu(9000, willing=True)})
    made = encode(version, tlvs)
    assert [(tlv.subtype, tlv.info.hex()) for tlv in made][-1] == (0x42, "802328")
    assert read(version, made) == Reading(tlvs)
    wrong = read(version, [Organisational(made[0].oui, 0x42, b"\0")])
    assert [flaw.counter for flaw in wrong.flaws] == ["mtu.bad_length"]


def test_its_settings_are_checked_and_have_a_section_in_the_file() -> None:
    with pytest.raises(DcbxSettingsError, match=r"^an MTU of 1 octets is too small: give 64 or more$"):
        DcbxSettings(more={"mtu": Mtu(1)})
    settings = DcbxSettings(pfc=PfcAdmin(0x08), more=HOST)
    assert dump(settings).endswith("\n[mtu]\noctets = 1500\nwilling = true\n")
    assert parse(dump(settings), "f") == Config(settings)


def test_a_port_without_it_shows_what_its_peer_announces() -> None:
    link, _ = logged(("host", DcbxSettings()), ("bridge", DcbxSettings(more=BRIDGE)))
    link.a.start(0)
    link.b.start(0)
    link.run_until(5 * S)
    state = link.a.state.states["mtu"]
    assert (state.oper, state.remote, state.why) == (None, 9216, "this port does not negotiate its MTU")
    assert link.a.state.sent.get("mtu") is None


def test_a_name_belongs_to_one_feature() -> None:
    with pytest.raises(ValueError, match="there is a DCBX feature mtu already"):
        features.register(MtuFeature())


def test_a_receiver_that_does_not_know_it_ignores_it() -> None:
    octets = _frame()
    features.unregister("mtu")
    line = frame_record(octets, DcbxVersion.PUBLISHED, "received", 0)
    features.register(MtuFeature())
    assert "flaws" not in line
    assert line["tlvs"] == {}


def _frame() -> bytes:
    link, _ = logged(("host", DcbxSettings(more=HOST)), ("bridge", DcbxSettings()))
    link.a.start(0)
    return link.a.take_frames()[0]
