"""Fuzzing of the readers of users' files and of the stream of a run, on top of `tests.fuzz`."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from testbed.errors import XoffError
from testbed.experiment.output import Record, RecordKind, Sample
from testbed.frames.dcbx.values import DcbxVersion
from testbed.lab.results.collect import Collector
from testbed.subjects.dcbx import ladder, show
from testbed.subjects.dcbx.ladder.svg import as_svg
from testbed.subjects.dcbx.ladder.text import as_text
from testbed.subjects.dcbx.show import Direction
from testbed.subjects.qos import fabric
from testbed.subjects.qos.syntax import check as policy_reader
from testbed.subjects.qos.syntax.grammar import BLOCK, XML
from testbed.subjects.qos.syntax.source import PolicyError, Problems
from testbed.subjects.qos.syntax.write import write
from testbed.subjects.sonic import counters
from testbed.subjects.sonic import read as config_db
from testbed.subjects.sonic.check import check
from testbed.subjects.sonic.fit import fit
from testbed.subjects.sonic.lab.settings import Switch
from testbed.subjects.sonic.write import write as config_write
from testbed.typed_json import text
from testbed.units import Length
from tests import fuzz_lldp

ROOT = Path(__file__).parents[1]
_PICTURES = 10
"""The number of logs of which one is drawn as SVG, which takes much longer than as text."""


def policies() -> list[bytes]:
    """Return one file of each syntax."""
    xml = (ROOT / "docs" / "examples" / "qos-policy.xml").read_bytes()
    block = write(policy_reader.load(xml, "xml"), BLOCK, Problems(), approximate=True)
    return [xml, block.encode()]


def read_policy(octets: bytes) -> str:
    """Read a policy. One without an error is written and read again."""
    reading = policy_reader.read(octets)
    for problem in (*reading.problems.errors, *reading.problems.warnings):
        if problem.place.line < 1 or not problem.message:
            raise AssertionError(f"a problem without place or cause: {problem}")
    if not reading.ok:
        raise PolicyError("f", reading.problems.errors, reading.problems.left_out)
    for syntax in (XML, BLOCK):
        content = write(reading.policy, syntax, problems := Problems(), approximate=True)
        if not problems.errors and not policy_reader.read(content.encode()).ok:
            raise AssertionError(f"what was written is not read: {content}")
    return "read"


def fabrics() -> str:
    return (ROOT / "docs" / "examples" / "qos-fabric.toml").read_text()


def read_fabric(octets: bytes) -> str:
    fabric.parse(octets, "f")
    return "read"


def logs() -> list[str]:
    """Return the log of a link: frames of the corpus, each sent by a and received by b, and events."""
    lines = []
    for number, frame in enumerate(fuzz_lldp.load_corpus()[:12]):
        directions: tuple[tuple[str, Direction], ...] = (("a", "sent"), ("b", "received"))
        for port, what in directions:
            line = show.frame_record(frame, DcbxVersion.PUBLISHED, what, number * 10**6 + (what == "received") * 500)
            lines.append(json.dumps(line | {"port": port}))
    masks = {"enabled": [3, 4], "defended": [], "remote": None, "remote_defended": [3], "why": "w"}
    for event in (
        {"what": "pfc_changed", **masks},
        {"what": "ets_changed", "ets": None, "why": "w"},
        {"what": "pending_changed", "feature": "pfc", "pending": True},
        {"what": "version_mismatch", "peer_speaks": None},
    ):
        lines += [json.dumps(event | {"t_ns": 5_000_000, "port": port}) for port in ("a", "b")]
    return ["\n".join(lines), "\n".join(lines[:6])]


def read_log() -> Callable[[bytes], str]:
    drawn = 0

    def read(octets: bytes) -> str:
        nonlocal drawn
        found = ladder.ladder(ladder.read(octets.decode(errors="replace").split("\n")), "a", "b")
        as_text(found)
        drawn += 1
        if drawn % _PICTURES == 0:
            as_svg(found)
        return "read"

    return read


def texts() -> list[bytes]:
    value = {"type": "report", "links": [{"to": "R2", "delay_ns": 5}, {"to": "\u00e9\\n"}], "more": [1, -2, None, True]}
    return [json.dumps(value).encode(), json.dumps(value, ensure_ascii=False).encode(), b'["\\ud83d\\ude00", [[[]]]]']


def read_json(octets: bytes) -> str:
    value = text.read(octets)
    json.dumps(value).encode()
    return "read"


def streams(dice: random.Random) -> Iterator[bytes]:
    """Return streams of some records. Most damage is inside records whose sum is right, since a job can forge these."""
    note = [
        {"note": "figure", "name": "lost", "value": 3, "unit": ""},
        {"note": "claim", "name": "lost", "expected": {"equals": 0}, "measured": 3, "passed": False, "unit": ""},
        {"note": "phase", "phase": "measuring", "begins": True, "t": 5},
        {"note": "agent_lateness", "worst_ns": 7},
        {"note": "failure", "type": "ValueError", "message": "x"},
    ]
    end = {"virtual_ns": 10**9, "status": "ok", "reason": ""}
    whole = [
        Record.of(RecordKind.START, {"engine": "um"}),
        Record(RecordKind.OUT, b"printed\n"),
        *(Record(RecordKind.NOTE, json.dumps(one).encode() + b"\n") for one in note),
        *(Record(RecordKind.SAMPLE, Sample(number * 10**6, 0, number * 10**5).encode()) for number in range(3)),
        Record(RecordKind.FILE, b"log.jsonl\0{}"),
        Record.of(RecordKind.END, end),
    ]
    words = (
        b"-1",
        b"null",
        b"true",
        b"[]",
        b"{}",
        b"9" * 30,
        b"1e999",
        b'"\\ud800"',
        b"[" * 50,
        b"NaN",
        b'"x"',
        b"../x",
    )
    while True:
        records = list(whole)
        for _ in range(dice.choice((0, 1, 1, 2, 3))):
            place = dice.randrange(len(records))
            payload = records[place].payload
            if dice.random() < 0.5 and (values := list(re.finditer(rb'(?<=: )("[^"]*"|[^,}\]]+)', payload))):
                value = dice.choice(values)
                payload = payload[: value.start()] + dice.choice(words) + payload[value.end() :]
            else:
                cut = dice.randrange(len(payload) + 1)
                payload = payload[:cut] + dice.choice((b"", b"\0", b"/", dice.randbytes(4))) + payload[cut + 1 :]
            kind = records[place].kind if dice.random() < 0.9 else dice.choice(list(RecordKind))
            records[place] = Record(kind, payload)
        if dice.random() < 0.2:
            dice.shuffle(records)
        octets = bytearray(b"".join(record.encode() for record in records))
        if dice.random() < 0.3:
            octets[dice.randrange(len(octets))] ^= 1 << dice.randrange(8)
        yield bytes(octets)


def read_stream() -> Callable[[bytes], str]:
    memory = Path("/dev/shm")
    folder = tempfile.TemporaryDirectory(prefix="xoff-fuzz-", dir=memory if memory.is_dir() else None)
    place = Path(folder.name, "run")
    place.mkdir()

    def read(octets: bytes) -> str:
        assert folder.name  # it lives as long as the decoder does
        collector = Collector(place, lambda data, is_error: None)
        try:
            for start in range(0, len(octets), 100):
                collector.feed(octets[start : start + 100])
        finally:
            collector.close()
        if collector.ended is None:
            return "refused"
        try:
            collector.status()
        except XoffError:
            return "refused"
        if [path.name for path in Path(folder.name).iterdir()] != ["run"]:
            raise AssertionError("a file is outside of the result folder")
        return "read"

    return read


# A switch's config_db.json


_VALUES = (
    "",
    "NULL",
    "0",
    "-1",
    "9",
    "99999999999999999999",
    "3,4",
    "3-4",
    "7-0",
    "drop",
    "[BUFFER_POOL|x]",
    "5m",
    "\x00",
)


_TRIMMING = {
    "SWITCH_TRIMMING": {"GLOBAL": {"size": "256", "dscp_value": "from-tc", "tc_value": "5", "queue_index": "6"}},
    "TC_TO_DSCP_MAP": {"host_trim_map": {"5": "10"}},
    "ACL_TABLE_TYPE": {"TRIMMING_L3": {"MATCHES": ["SRC_IP"], "ACTIONS": ["DISABLE_TRIM_ACTION"]}},
    "ACL_TABLE": {"TRIM_TABLE": {"TYPE": "TRIMMING_L3", "STAGE": "INGRESS", "PORTS": ["Ethernet0"]}},
    "ACL_RULE": {"TRIM_TABLE|A": {"PRIORITY": "9", "SRC_IP": "1.1.1.1/32", "PACKET_ACTION": "DISABLE_TRIM"}},
}
"""Tables of packet trimming, which the files do not have."""


def configs(dice: random.Random) -> Iterator[bytes]:
    """Return files of switches with values, keys, rows and tables exchanged, and sometimes damaged octets."""
    texts = [file.read_text() for file in sorted((ROOT / "tests" / "unit" / "data" / "sonic").glob("*.json"))]
    texts.append(json.dumps(json.loads(texts[0]) | _TRIMMING))
    while True:
        content = json.loads(dice.choice(texts))
        for _ in range(dice.choice((0, 1, 1, 2, 4, 8))):
            _change(content, dice)
        octets = bytearray(json.dumps(content, separators=(",", ":")).encode())
        if dice.random() < 0.3:
            place = dice.randrange(len(octets))
            octets[place : place + dice.choice((0, 1, 3, 40))] = dice.choice((b"", b'"', b"{", b"[", b"0", b"\xff"))
        yield bytes(octets)


def _change(content: dict[str, Any], dice: random.Random) -> None:
    inner: Any = content
    for _ in range(dice.choice((1, 2, 3, 3))):
        if not isinstance(inner, dict) or not inner:
            return
        key = dice.choice(list(inner))
        last, inner = inner, inner[key]
    match dice.randrange(5):
        case 0:
            del last[key]
        case 1:
            last[dice.choice(_VALUES)] = last.pop(key)
        case 2:
            last[key] = dice.choice([[], {}, None, 7, 1.5, True, ["3", "4"], {"a": "b"}, [7]])
        case 3:
            last[f"{key}|{dice.choice(_VALUES)}"] = inner
        case _:
            last[key] = dice.choice(_VALUES)


def archives() -> list[bytes]:
    """Return archives of `show techsupport`, of several forms and ways of packing."""
    head = "Port Rx" + "".join(f"  PFC{number}" for number in range(8))
    printed = f"{head}\n{'-' * 60}\nEthernet0{'  1,234' * 8}\n".encode()
    found = []
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT):
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w", format=form) as out:
            for name, content in (("dump/pfc.counters", printed * 20), (f"{'deep/' * 24}x.gz", gzip.compress(printed))):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                out.addfile(info, io.BytesIO(content))
        found += [made.getvalue().rstrip(b"\0"), gzip.compress(made.getvalue())]
    return found


def read_archive(octets: bytes) -> str:
    """Read an archive to its end, and the counters in it."""
    for name, text_ in counters.texts_in(io.BytesIO(octets), Path("dump.tar.gz")):
        counters.parse(text_, name)
    return "read"


def read_config(octets: bytes) -> str:
    """Read a file. One without an error is checked, made into a switch, and written and read as the same."""
    reading = config_db.read(octets)
    for problem in reading.problems.found:
        if not problem.place.startswith("$") or "\n" in str(problem):
            raise AssertionError(f"no path, or two lines: {problem}")
    tables = reading.require("f")
    check(tables, reading.problems)
    again = config_db.read(config_write(tables).encode()).tables
    if again != tables:
        raise AssertionError(f"{tables} was written and read as {again}")
    Switch.of(tables)
    for port in list(tables.ports)[:2]:
        fit(tables, port, Length("50km"), 208)
    return "read"
