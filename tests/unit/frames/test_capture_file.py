"""Capture files: what is written is read again, and by Wireshark too."""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.frames import Mac, mac_control
from testbed.frames.capture_file import (
    Captured,
    CaptureError,
    Interface,
    Writer,
    frames,
    items,
    merge,
    merged,
    write_pcap,
)
from testbed.lab.results.result import RESULT

XOFF = mac_control.PfcFrame.xoff(Mac.parse("02:00:00:00:00:01"), [3], 65535).encode()
HOSTILE = "\x1b[31m<b>\u00e9" + "x" * 70_000


def written(name: str, *times: int, comment: str = "") -> io.BytesIO:
    """Write a capture of one interface with an XOFF at each time."""
    file = io.BytesIO()
    writer = Writer(file, "about it")
    number = writer.interface(Interface(name, description="a cable", speed_bps=10_000_000))
    for t_ns in times:
        writer.frame(number, t_ns, XOFF, comments=(comment,) if comment else ())
    writer.statistics(number, 2**40, len(times) + 1, 1)
    file.seek(0)
    return file


def test_a_pcap_file_that_is_written_is_read_again() -> None:
    file = io.BytesIO()
    write_pcap(file, [(5, 64, XOFF), (2**33 + 1, 64, XOFF[:20])])
    file.seek(0)
    assert list(frames(file)) == [Captured(5, "", 1, 64, XOFF), Captured(2**33 + 1, "", 1, 64, XOFF[:20])]


def test_what_is_written_is_read_again() -> None:
    found = list(items(written("s1-eth1 > h1-eth0", 5, 2**33, comment="XOFF priorities 3")))
    assert found == [
        Interface("s1-eth1 > h1-eth0", description="a cable", speed_bps=10_000_000),
        Captured(5, "s1-eth1 > h1-eth0", 1, 60, XOFF, ("XOFF priorities 3",)),
        Captured(2**33, "s1-eth1 > h1-eth0", 1, 60, XOFF, ("XOFF priorities 3",)),
    ]


def test_the_same_content_is_the_same_file() -> None:
    assert written("a", 1, 2).getvalue() == written("a", 1, 2).getvalue()


def test_several_captures_become_one_in_the_order_of_time() -> None:
    out = io.BytesIO()
    merge([written("a", 1, 30), written("b", 2, 2, 40), written("empty")], out)
    found = list(items(io.BytesIO(out.getvalue())))
    assert [item.name for item in found if isinstance(item, Interface)] == ["a", "b", "empty"]
    assert [(item.t_ns, item.interface) for item in found if isinstance(item, Captured)] == [
        (1, "a"), (2, "b"), (2, "b"), (30, "a"), (40, "b"),
    ]  # fmt: skip
    assert [frame.t_ns for frame in merged([written("a", 1, 30), written("b", 2)])] == [1, 2, 30]


def test_two_interfaces_of_one_name_stay_two_when_they_come_from_two_files() -> None:
    out = io.BytesIO()
    merge([written("a", 1), written("a", 2)], out)
    assert sum(isinstance(item, Interface) for item in items(io.BytesIO(out.getvalue()))) == 2


def test_a_time_that_fits_into_no_file_is_an_error() -> None:
    pcap = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    far = bytearray(written("a", 1).getvalue())
    at = far.index(b"\x09\x00\x01\x00\x09")  # the resolution: a second in place of a nanosecond
    far[at + 4] = 0
    record = far.index(struct.pack("<III", 0, 0, 1))
    far[record + 4 : record + 8] = b"\xff" * 4
    with pytest.raises(CaptureError, match="outside of what a pcapng file can have"):
        merge([io.BytesIO(bytes(far))], io.BytesIO())
    merge([io.BytesIO(pcap)], io.BytesIO())


def test_hostile_and_long_texts_are_kept_as_they_are_or_cut() -> None:
    (frame,) = frames(written(HOSTILE, 1, comment=HOSTILE))
    assert frame.interface.startswith("\x1b[31m<b>\u00e9xxx")
    assert len(frame.comments[0].encode()) <= 0xFFFF


@pytest.mark.packages("tshark")
def test_wireshark_reads_names_rates_comments_and_nanoseconds(tmp_path: Path) -> None:
    tshark, capinfos = shutil.which("tshark"), shutil.which("capinfos")
    if tshark is None or capinfos is None:
        pytest.skip("tshark is missing")
    file = tmp_path / "x.pcapng"
    with file.open("wb") as out:
        merge([written("s1-eth1 > h1-eth0", 1_500_000_001, comment="XOFF priorities 3"), written("b", 2)], out, "both")
    names = ["frame.time_epoch", "frame.interface_name", "frame.interface_description", "frame.comment"]
    command = [tshark, "-r", str(file), "-T", "fields", *[part for name in names for part in ("-e", name)]]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split("\t")[:3] for line in lines] == [
        ["0.000000002", "b", "a cable"],
        ["1.500000001", "s1-eth1 > h1-eth0", "a cable"],
    ]
    assert "XOFF priorities 3" in lines[1]
    about = subprocess.run([capinfos, str(file)], capture_output=True, text=True, check=True).stdout
    assert "Speed = 10000000" in about and "both" in about and "nanoseconds" in about


def result_with(folder: Path, *captures: io.BytesIO) -> Path:
    """Make a result folder with these captures of its first network."""
    place = folder / "captures" / "1"
    place.mkdir(parents=True)
    (folder / RESULT).write_text("{}")
    for number, capture in enumerate(captures):
        (place / f"{number}.pcapng").write_bytes(capture.getvalue())
    return folder


def test_decode_takes_all_captures_of_a_result_and_filters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = result_with(tmp_path / "r", written("a", 1, 3_000_000), written("b", 2))
    assert main(["decode", str(result)]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["a", "b", "a"]
    for words, lines in (
        (["--port", "b"], 1), (["--count", "2"], 2), (["--since", "1ms"], 1), (["--until", "1ms"], 2),
        (["--kind", "pfc"], 3), (["--kind", "lldp"], 0), (["--kind", "lldp", "--kind", "pfc", "--count", "1"], 1),
    ):  # fmt: skip
        assert main(["decode", str(result), *words]) == 0
        assert len(capsys.readouterr().out.splitlines()) == lines, words
    assert main(["decode", str(result), "--kind", "pfcc"]) == 2
    assert "did you mean pfc" in capsys.readouterr().err


def test_decode_refuses_folders_without_captures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", str(tmp_path)]) == 2
    assert "is not a result folder" in capsys.readouterr().err
    (tmp_path / RESULT).write_text("{}")
    assert main(["decode", str(tmp_path)]) == 2
    assert "xoff run --capture" in capsys.readouterr().err
