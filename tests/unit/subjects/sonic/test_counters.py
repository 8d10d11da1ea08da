"""Counters of a real switch: the tables that it prints, archives of `show techsupport`, and hostile ones."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.errors import UsageError
from testbed.subjects.sonic import counters
from testbed.subjects.sonic.counters import ArchiveError, grown, parse, read, texts
from tests.report_folders import MS, lines, network, pause, result

PRINTED = """admin@leaf1:~$ show pfc counters
  Port Rx    PFC0    PFC1    PFC2    PFC3    PFC4    PFC5    PFC6    PFC7
---------  ------  ------  ------  ------  ------  ------  ------  ------
Ethernet0       0       0       0   1,234       0       0       0       0
Ethernet4       0       0       0       0     N/A       0       0       0

  Port Tx    PFC0    PFC1    PFC2    PFC3    PFC4    PFC5    PFC6    PFC7
---------  ------  ------  ------  ------  ------  ------  ------  ------
Ethernet0       0       0       0       7       0       0       0       0
Ethernet4       0       0       0       0      12       0       0       0
admin@leaf1:~$ show pfc priority
Ethernet8       1       2       3       4       5       6       7       8
"""
CONFIG = Path(__file__).parents[2] / "data" / "sonic" / "leaf_100g_classic.json"


def test_what_the_command_prints_is_read_with_other_lines_around_it() -> None:
    found = parse(PRINTED, "pfc.txt")
    assert found is not None and found.ports == ["Ethernet0", "Ethernet4"]
    assert found.received["Ethernet0"] == (0, 0, 0, 1234, 0, 0, 0, 0)
    assert found.received["Ethernet4"][4] is None and found.sent["Ethernet4"][4] == 12
    assert [*found.used()] == [("Ethernet0", 3), ("Ethernet4", 4)]
    assert parse("Port Rx PFC0\nEthernet0 1\n", "x") is None


def test_what_the_labs_own_command_prints_is_read_too() -> None:
    from testbed.subjects.sonic.lab.views import table

    heads = ("Port Rx", *(f"PFC{number}" for number in range(8)))
    found = parse(table(heads, [("Ethernet0", *range(8))]), "lab")
    assert found is not None and found.received == {"Ethernet0": tuple(range(8))}


def test_a_counter_that_was_cleared_has_not_grown() -> None:
    assert grown((1,) * 8, (5,) * 8, 3) == 4
    assert grown((5,) * 8, (1,) * 8, 3) is None and grown(None, (1,) * 8, 3) is None


def tarred(members: dict[str, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as out:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))
    return made.getvalue()


MEMBERS = {
    "sonic_dump/dump/pfc.counters_1": PRINTED.encode(),
    f"sonic_dump/{'deep/' * 30}pfc.counters_2.gz": gzip.compress(PRINTED.replace("1,234", "1,300").encode()),
    "sonic_dump/etc/sonic/config_db.json": CONFIG.read_bytes(),
    "sonic_dump/log/syslog": b"\xff\x00" * 1000,
}


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, bytes])
def test_an_archive_of_techsupport_has_the_readings_and_the_configuration(
    tmp_path: Path, pack: Callable[[bytes], bytes], form: int
) -> None:
    path = tmp_path / "sonic_dump.tar.gz"
    path.write_bytes(pack(tarred(MEMBERS, form)))
    readings, config = read(path)
    assert [one.received["Ethernet0"][3] for one in readings] == [1234, 1300]
    assert {one.source for one in readings} == {name for name in MEMBERS if "counters" in name}
    assert config == CONFIG.read_bytes()


def test_links_devices_and_names_that_lead_elsewhere_are_only_names(tmp_path: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as out:
        for kind, name in (
            (tarfile.SYMTYPE, "a"),
            (tarfile.LNKTYPE, "b"),
            (tarfile.CHRTYPE, "c"),
            (tarfile.DIRTYPE, "d"),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            out.addfile(info)
        info = tarfile.TarInfo("../../../../tmp/x")
        info.size = len(PRINTED)
        out.addfile(info, io.BytesIO(PRINTED.encode()))
    path = tmp_path / "dump.tar"
    path.write_bytes(made.getvalue())
    assert [name for name, _ in texts(path)] == ["../../../../tmp/x"]
    assert [one.name for one in tmp_path.iterdir()] == ["dump.tar"]


def damaged(change: Callable[[bytearray], None]) -> bytes:
    made = bytearray(tarred({"a": b"x" * 2000}))
    change(made)
    made[148:156] = b" " * 8
    made[148:156] = f"{sum(made[:512]):06o}\0 ".encode()
    return bytes(made)


def _negative(made: bytearray) -> None:
    made[124:136] = b"\xff" * 12


def _huge(made: bytearray) -> None:
    made[124:136] = b"\x80" + (1 << 60).to_bytes(11)


def _long_name(made: bytearray) -> None:
    made[156:157] = b"L"
    made[124:136] = b"00100000000\0"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"BZh9 no", "cannot be unpacked"),
        (gzip.compress(b"no tar" * 1000), "is not a tar archive"),
        (gzip.compress(tarred(MEMBERS))[:900], "cannot be unpacked"),
        (tarred({"a": b"x" * 5000})[:3000], "ends within a file"),
        (damaged(_negative), "a size below 0"),
        (damaged(_huge), "unpacks to more than 8 GiB"),
        (damaged(_long_name), "a name has"),
        (gzip.compress(tarred({"a": b"nothing"})), "has no output of `show pfc counters`"),
    ],
    ids=["bzip2", "no tar", "cut off", "cut off in a file", "negative", "huge", "long name", "without counters"],
)
def test_a_hostile_or_damaged_archive_is_one_message(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "dump.tar.gz"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=says):
        read(path)


def test_a_bomb_ends_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "MOST_OCTETS", 1 << 20)
    path = tmp_path / "bomb.tar.gz"
    path.write_bytes(gzip.compress(tarred({"zeros": bytes(2 << 20)})))
    with pytest.raises(ArchiveError, match="unpacks to more than"):
        list(texts(path))
    monkeypatch.setattr(counters, "MOST_OCTETS", 1 << 30)
    monkeypatch.setattr(counters, "LARGEST_TEXT", 1 << 20)
    path.write_bytes(gzip.compress(tarred({"zeros.gz": gzip.compress(bytes(64 << 20))})))
    ((_, text),) = texts(path)
    assert len(text) == 1 << 20, "a packed file in it is unpacked as far as texts are read"
    monkeypatch.setattr(counters, "MOST_MEMBERS", 3)
    path.write_bytes(gzip.compress(tarred({str(number): b"" for number in range(5)})))
    with pytest.raises(ArchiveError, match="more than 3 files"):
        list(texts(path))


def test_the_command_shows_them_beside_the_labs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = tmp_path / "dump.tar.gz"
    dump.write_bytes(gzip.compress(tarred(MEMBERS)))
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps(result()))
    lines(folder / "networks.jsonl", [network(0, ""), {"t_ns": 900 * MS, "network": "ended"}])
    lines(folder / "events.jsonl", pause(100 * MS, 130 * MS) + pause(200 * MS, 220 * MS))
    assert main(["switch", "counters", str(dump), "--beside", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["readings"]) == 2
    assert found["counters"] == [
        {"port": "Ethernet0", "priority": 3, "received": 1300, "received since": 66, "sent": 7, "sent since": 0,
         "lab received": 0, "lab sent": 4},
        {"port": "Ethernet4", "priority": 4, "received": None, "received since": None, "sent": 12, "sent since": 0,
         "lab received": 0, "lab sent": 0},
    ]  # fmt: skip
    text = tmp_path / "pfc.txt"
    text.write_text(PRINTED)
    assert main(["switch", "counters", str(text)]) == 0
    assert "Ethernet0" in capsys.readouterr().out
    assert main(["switch", "counters", str(text), "--beside", str(folder)]) == 2
    assert "--config FILE gives it" in capsys.readouterr().err
    assert main(["switch", "counters", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err
    assert main(["switch", "counters", str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err
