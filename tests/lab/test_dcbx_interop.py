"""DCBX with peers that nobody here wrote: lldpad, lldpd, and Wireshark's decoder on what was captured on the way."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from scapy.utils import RawPcapReader

from testbed.dcbx.config import parse
from testbed.dcbx.negotiation import negotiate
from testbed.frames import Mac
from testbed.frames.dcbx.values import DcbxTlvs
from testbed.lab import Result

from .conftest import Runner

OURS = Mac.parse("02:00:00:00:00:0a")
pytestmark = pytest.mark.packages("tshark")


def test_lldpad_reads_every_published_tlv_as_we_meant_it_and_so_does_wireshark(run: Runner, tmp_path: Path) -> None:
    result = run("dcbx_interop:read_by_lldpad").check()
    assert_wireshark_agrees(result, tmp_path)


def test_a_willing_agent_adopts_the_settings_of_lldpad(run: Runner) -> None:
    run("dcbx_interop:follows_lldpad").check()


def test_a_willing_lldpad_programs_its_nic_with_the_settings_of_the_agent(run: Runner) -> None:
    run("dcbx_interop:leads_lldpad").check()


def test_two_willing_ends_agree_on_whose_setting_wins_as_lldpad_sees_it(run: Runner) -> None:
    run("dcbx_interop:both_willing").check()


@pytest.mark.parametrize("version", ["published", "draft"])
def test_lldpd_keeps_every_octet_that_we_send(run: Runner, version: str, tmp_path: Path) -> None:
    result = run("dcbx_interop:lldpd_sees_us", version=version).check()
    if version == "published":
        assert_wireshark_agrees(result, tmp_path)
    else:
        assert_wireshark_stops_at_the_drafts_first_tlv(result, tmp_path)


@pytest.mark.parametrize("version", ["published", "draft"])
def test_a_willing_agent_adopts_the_octets_that_lldpd_is_configured_to_send(run: Runner, version: str) -> None:
    run("dcbx_interop:follows_lldpd", version=version).check()


def test_a_peer_of_the_other_format_is_named_and_neither_end_is_upset(run: Runner) -> None:
    run("dcbx_interop:wrong_version").check()


def test_a_link_agrees_within_three_seconds_of_its_carrier(run: Runner) -> None:
    run("dcbx_interop:converges").check()


# Wireshark


def ours_in(result: Result) -> list[bytes]:
    """The frames that our end sent, but the last, which is goodbye."""
    assert result.folder is not None
    with RawPcapReader(str(result.folder / "a0.pcap")) as capture:
        frames = [octets for octets, _ in capture if octets[6:12] == OURS.octets]
    return frames[:-1]


def said_by(result: Result) -> list[DcbxTlvs]:
    assert result.folder is not None
    texts = json.loads((result.folder / "settings.json").read_text())
    return [negotiate(parse(text, "settings").settings, OURS, None).sent for text in texts]


def _decoder():  # type: ignore[no-untyped-def]
    if shutil.which("tshark") is None:
        pytest.skip("tshark is missing, so nobody but us can read the captures")
    sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
    try:
        import test_frames_dcbx_tshark as wireshark
    finally:
        del sys.path[0]
    return wireshark


def assert_wireshark_agrees(result: Result, folder: Path) -> None:
    """In the order in which they were set, each once or more often, and without a complaint."""
    wireshark = _decoder()
    read = []
    for fields in wireshark.decode(folder, ours_in(result)):
        assert "_ws.malformed" not in fields
        assert "_ws.expert" not in fields
        understood = wireshark.understood(fields)
        if read[-1:] != [understood]:
            read.append(understood)
    assert read == [wireshark.without_headroom(said) for said in said_by(result)]


def assert_wireshark_stops_at_the_drafts_first_tlv(result: Result, folder: Path) -> None:
    """It takes subtype 8 for the published Congestion Notification, finds it too short, and reads no further.

    So it is to be: the draft's numbers were given away later. All of LLDP itself is before that.
    """
    for fields in _decoder().decode(folder, ours_in(result)):
        assert fields["lldp.time_to_live"] == ["121"]
        assert fields["lldp.port.id"] == ["a0"]
        assert fields["lldp.ieee.802_1.subtype"] == ["0x08"]
        assert "_ws.malformed" in fields
