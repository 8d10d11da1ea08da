"""Ultra Ethernet's link layer in LLDP: two TLVs, what both ends have, and where they differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.frames import FieldError
from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.lldp_tlvs import Organisational
from testbed.lab.results.folder import read as read_folder
from testbed.report.timeline.states import states
from testbed.subjects.dcbx import features
from testbed.subjects.dcbx.config import Config, dump, parse
from testbed.subjects.dcbx.features.link_layer import LinkLayerChanged
from testbed.subjects.dcbx.features.virtual_channels import VirtualChannelsChanged
from testbed.subjects.dcbx.ladder import ladder
from testbed.subjects.dcbx.negotiation import warnings
from testbed.subjects.dcbx.settings import DcbxSettings, DcbxSettingsError, LinkLayer, PfcAdmin, VirtualChannels
from testbed.subjects.dcbx.show import record, snapshot, table
from testbed.subjects.dcbx.tlvs import DcbxTlvs, Pfc, Reading, encode, read
from tests.report_folders import lines, small
from tests.unit.subjects.dcbx.dcbx_ladders import logged
from tests.unit.subjects.dcbx.dcbx_link import S

OUI = bytes.fromhex("fa7acb")
BOTH, CHANNELS = LinkLayer(True, True), VirtualChannels(8, 5000, frozenset({3, 4}))


def talked(a: DcbxSettings, b: DcbxSettings) -> Any:
    link, log = logged(("host", a), ("switch", b))
    link.a.start(0)
    link.b.start(0)
    link.run_until(10 * S)
    return link, log


def ours(**more: Any) -> DcbxSettings:
    return DcbxSettings(**more)


@pytest.mark.parametrize("version", DcbxVersion)
def test_the_tlvs_have_the_octets_of_their_layout_in_both_formats(version: DcbxVersion) -> None:
    content = DcbxTlvs(pfc=Pfc(8), more={"link": LinkLayer(True, False), "virtual_channels": CHANNELS})
    made = encode(version, content)
    assert [(one.oui, one.subtype, one.info.hex()) for one in made[1:]] == [
        (OUI, 1, "8001"),
        (OUI, 2, "08" "1388" "00000018" "0000"),
    ]  # fmt: skip
    assert read(version, made) == Reading(content)


@pytest.mark.parametrize(("subtype", "info", "counter"), [
    (1, "80", "ue_link_negotiation.bad_length"), (1, "800100", "ue_link_negotiation.bad_length"),
    (2, "0813880000001800", "ue_cbfc.bad_length"), (2, "001388000000180000", "ue_cbfc.undefined"),
    (2, "210001000000000000", "ue_cbfc.undefined"), (2, "080000000000180000", "ue_cbfc.undefined"),
    (2, "041388000000180000", "ue_cbfc.undefined"),
])  # fmt: skip
def test_a_tlv_that_is_wrong_is_left_out_and_counted(subtype: int, info: str, counter: str) -> None:
    found = read(DcbxVersion.PUBLISHED, [Organisational(OUI, subtype, bytes.fromhex(info))])
    assert not found.tlvs
    assert [flaw.counter for flaw in found.flaws] == [counter]


def test_the_subtypes_of_other_organisations_are_not_these() -> None:
    foreign = [Organisational(bytes.fromhex("0080c2"), 1, bytes(2)), Organisational(bytes.fromhex("fa7acb"), 9, b"x")]
    assert read(DcbxVersion.PUBLISHED, foreign) == Reading(DcbxTlvs())


def test_both_ends_have_it_and_the_peers_pool_is_what_may_be_out() -> None:
    far = VirtualChannels(8, 900, frozenset({3, 4}))
    link, _ = talked(ours(link=BOTH, virtual_channels=CHANNELS), ours(link=BOTH, virtual_channels=far))
    assert link.a.state.states["link"].oper == BOTH
    assert link.a.state.states["virtual_channels"].oper == VirtualChannels(8, 900, frozenset({3, 4}))
    assert link.b.state.states["virtual_channels"].oper == VirtualChannels(8, 5000, frozenset({3, 4}))
    assert [event.mismatch for event in link.events["a"] if isinstance(event, LinkLayerChanged)] == [(), ()]


def test_a_mismatch_is_an_event_and_a_line_in_tables_diagrams_and_reports(tmp_path: Path) -> None:
    near, far = ours(link=LinkLayer(True, True)), ours(link=LinkLayer(False, True, 2))
    link, log = talked(near, far)
    state = link.a.state.states["link"]
    assert state.oper == LinkLayer(False, True, 1)
    llr = "LLR is off, as this port has it on and the peer off"
    version = "this port speaks version 1 of UE and the peer version 2"
    told = [event for event in link.events["a"] if isinstance(event, LinkLayerChanged)]
    assert [event.mismatch for event in told] == [(), (llr, version)]
    line = record(told[-1])
    assert line["mismatch"] == [llr, version]
    assert line["oper"] == {"llr": False, "cbfc": True, "version": 1}
    assert features.named("link").sentence(line) == f"UE link: LLR off, CBFC on, UE 1, mismatch: {llr}; {version}"
    shown = table({"host": snapshot(link.a)}).splitlines()
    assert f"host: UE link: {llr}" in shown and f"host: UE link: {version}" in shown
    notes = [text for step in ladder(log, "host", "switch").steps for text in step.texts]
    assert f"LLR off, CBFC on, UE 1, mismatch: {llr}; {version}" in notes
    lines(small(tmp_path / "one") / "dcbx.jsonl", [dict(one) for one in log])
    rows = [words for _, subject, words in states(read_folder(tmp_path / "one"), []) if subject == "host UE link"]
    assert llr in rows[-1]


def test_channels_that_are_lossless_at_one_end_alone_are_a_mismatch() -> None:
    far = VirtualChannels(4, 900, frozenset({3}))
    link, _ = talked(ours(link=BOTH, virtual_channels=CHANNELS), ours(link=BOTH, virtual_channels=far))
    assert link.a.state.states["virtual_channels"].oper == VirtualChannels(4, 900, frozenset({3}))
    texts = ("VC 4 is lossless at this port alone", "this port has 8 VCs and the peer 4")
    last = [event for event in link.events["a"] if isinstance(event, VirtualChannelsChanged)][-1]
    assert last.mismatch == texts
    assert record(last)["mismatch"] == list(texts)
    shown = table({"switch": snapshot(link.b)})
    assert "switch: UE VCs: VC 4 is lossless at the peer alone" in shown


def test_without_cbfc_at_both_ends_no_channel_is_lossless() -> None:
    link, _ = talked(ours(link=BOTH, virtual_channels=CHANNELS), ours(link=LinkLayer(True), virtual_channels=CHANNELS))
    state = link.a.state.states["virtual_channels"]
    assert state.oper is not None and state.oper.lossless == frozenset()
    assert state.why == "none is lossless: CBFC is not on at both ports"


def test_a_peer_that_announces_nothing_leaves_all_off() -> None:
    link, _ = talked(ours(link=BOTH, virtual_channels=CHANNELS), ours(pfc=PfcAdmin(8)))
    near, far = link.a.state.states["link"], link.b.state.states["link"]
    why = "the peer sends no UE Link Negotiation that counts"
    assert (near.oper, near.pending, near.why) == (LinkLayer(), True, why)
    assert (far.oper, far.remote, link.b.state.sent.get("link")) == (None, BOTH, None)
    assert link.a.state.states["virtual_channels"].oper is None


def test_settings_are_checked_and_have_sections_in_the_file() -> None:
    settings = ours(link=LinkLayer(True), virtual_channels=CHANNELS)
    text = dump(settings)
    assert text.endswith(
        "\n[link]\nllr = true\ncbfc = false\nversion = 1\n"
        "\n[virtual_channels]\nvcs = 8\npool = 5000\nlossless = [3, 4]\n"
    )
    assert parse(text, "f") == Config(settings)
    link, _ = talked(settings, settings)
    assert [one for one in warnings(settings, link.a.state) if "virtual" in one] == [
        "virtual channels are announced, and CBFC is not on in `link`, so they have no effect"
    ]
    with pytest.raises(DcbxSettingsError, match="5 virtual channels are lossless, and a port has 4 of these at most"):
        ours(link=BOTH, virtual_channels=VirtualChannels(8, 1, frozenset(range(5))))
    with pytest.raises(FieldError, match="lossless channel 8 is none of 8"):
        VirtualChannels(8, 1, frozenset({8}))
    with pytest.raises(FieldError, match="33 virtual channels are invalid"):
        VirtualChannels(33, 1)
