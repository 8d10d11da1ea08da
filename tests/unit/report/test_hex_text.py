"""Frames as people copy them, and `xoff decode --hex`."""

from __future__ import annotations

import io
import json

import pytest

from testbed.cli import main
from testbed.frames import Mac
from testbed.frames.mac_control import PfcFrame
from testbed.report.exports import hex_text

FRAME = PfcFrame.xoff(Mac.parse("00:11:22:33:44:55"), [3]).encode()
PLAIN = FRAME.hex()
LINES = [FRAME[at : at + 16] for at in range(0, len(FRAME), 16)]


def pairs(octets: bytes) -> str:
    return octets.hex(" ", -2)


FORMS = {
    "plain digits": PLAIN,
    "capitals": PLAIN.upper(),
    "colons": FRAME.hex(":"),
    "C": ", ".join(f"0x{octet:02x}" for octet in FRAME),
    "tcpdump -xx": "".join(f"\t0x{16 * at:04x}:  {pairs(line)}\n" for at, line in enumerate(LINES)),
    "tcpdump -XX": "".join(f'\t0x{16 * at:04x}:  {pairs(line):39}  ......"3DU....\n' for at, line in enumerate(LINES)),
    "hexdump -C": "".join(
        f"{16 * at:08x}  {line[:8].hex(' ')}  {line[8:].hex(' ')}  |..abcd..|\n" for at, line in enumerate(LINES)
    ),
    "Wireshark": "".join(f'{16 * at:04x}   {line.hex(" ")}   ......"3DU....\n' for at, line in enumerate(LINES)),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_read_to_the_same_octets(form: str) -> None:
    assert hex_text.read(FORMS[form]) == [FRAME]


def test_an_empty_line_or_the_offset_0_begins_the_next_frame() -> None:
    assert hex_text.read(f"{PLAIN}\n\n{PLAIN}") == [FRAME, FRAME]
    assert hex_text.read(FORMS["tcpdump -xx"] * 2) == [FRAME, FRAME]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("01 80 zz", "'zz' is not hexadecimal; write octets as in '01 80 c2 00 00 01'"),
        ("01 80 c", "'c' has half an octet; write octets as in '01 80 c2 00 00 01'"),
        (" \n", "there are no octets; write them as in '01 80 c2 00 00 01'"),
        ("0" * ((1 << 20) + 1), "the text has 1048577 characters; 1048576 are read at most: use a capture file"),
    ],
)
def test_an_error_names_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(hex_text.HexError) as raised:
        hex_text.read(text)
    assert str(raised.value) == said


def test_tlvs_alone_are_put_into_a_frame(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "--hex", "fe 06 00 80 c2 0b 08 08"]) == 0
    assert capsys.readouterr().out == (
        "- 00:00:00:00:00:00 > 01:80:c2:00:00:0e; LLDP pasted port pasted TTL 120; DCBX published: PFC 3, not willing\n"
    )


def test_a_tlv_that_is_cut_is_a_flaw_of_the_frame(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "--hex", "fe 06 00 80 c2 0b 08"]) == 0
    assert "flaw" in capsys.readouterr().out


def test_frames_are_read_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(FORMS["tcpdump -xx"]))
    assert main(["decode", "--hex", "-", "--json"]) == 0
    layers = json.loads(capsys.readouterr().out)["layers"]
    assert layers[1] == {
        "layer": "pfc", "text": "PFC XOFF priority 3 for 65535 quanta", "xoff": {"3": 65535}, "xon": [],
    }  # fmt: skip


def test_one_of_file_and_hex_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["frames.pcap", "--hex", "01"]):
        assert main(["decode", *arguments]) == 2
        assert "give a FILE, or frames by --hex" in capsys.readouterr().err
