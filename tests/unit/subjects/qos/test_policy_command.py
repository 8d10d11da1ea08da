"""`xoff policy`, and the examples of docs/qos.md."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.subjects.qos.syntax.check import load
from tests.unit.subjects.qos.policy_samples import BLOCK_SAMPLE, EXAMPLE, EXAMPLE_FABRIC, RFC_SAMPLE, ROOT

PAGE = (ROOT / "docs" / "qos.md").read_text()


def examples() -> list[tuple[str, list[str]]]:
    blocks = re.findall(r"^    \$ xoff policy (.*)\n((?:    (?!\$).*\n)+)", PAGE, re.MULTILINE)
    return [(arguments, [line[4:] for line in output.splitlines()]) for arguments, output in blocks]


@pytest.mark.parametrize(("arguments", "output"), examples())
def test_the_page_shows_what_the_command_prints(
    arguments: str, output: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["policy", *shlex.split(arguments)]) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == output


def test_the_page_has_two_examples() -> None:
    assert [arguments.split()[0] for arguments, _ in examples()] == ["check", "query"]


def test_check_gives_every_error_of_the_rfcs_sample_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", str(RFC_SAMPLE)]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert f"{RFC_SAMPLE}:55:9: error: sl: 16 is too large; expected 0 to 15" in lines
    assert main(["policy", "check", str(RFC_SAMPLE), "--json"]) == 2
    content = json.loads(capsys.readouterr().out)
    assert (content["ok"], content["syntax"], len(content["problems"])) == (False, "xml", len(lines))
    assert content["problems"][0] == {
        "line": 10, "column": 3, "severity": "error", "expected": "<!--",
        "message": "a comment cannot open with <!\u2014-: a typographic dash is not --",
    }  # fmt: skip


def test_check_with_a_fabric_gives_its_errors_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabric = tmp_path / "fabric.toml"
    fabric.write_text(EXAMPLE_FABRIC.read_text().replace("ports = 8", "ports = 8\nvls = 2"))
    assert main(["policy", "check", str(EXAMPLE), "--fabric", str(fabric)]) == 2
    assert "and ports of sw1 have 2; VL 15 is set instead" in capsys.readouterr().out


UNSERVED = b"""
port-groups
 port-group
  name: all
  node-type: ALL
  port-name: vs9/HCA-1/P1
 end-port-group
end-port-groups
qos-setup
 vlarb-tables
  vlarb-scope
   group: all
   vlarb-high: 0:1
   vlarb-low: 0:1
   vl-high-limit: 0
  end-vlarb-scope
 end-vlarb-tables
end-qos-setup
qos-levels
 qos-level
  name: DEFAULT
  sl: 1
 end-qos-level
end-qos-levels
"""


def test_a_vl_without_a_weight_is_vl_15_to_check_show_and_query(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "unserved.conf"
    file.write_bytes(UNSERVED)
    fabric = ["--fabric", str(EXAMPLE_FABRIC)]
    assert main(["policy", "check", str(file), *fabric]) == 0
    said = capsys.readouterr().out
    assert "warning: VL 1-14 of port 1-6 of sw1 has SLs mapped to it and no weight in either arbitration table" in said
    assert f"{file}:3:2: warning: port group 'all' names port name 'vs9/HCA-1/P1'; the fabric has no such port" in said
    assert main(["policy", "show", str(file), *fabric]) == 0
    shown = capsys.readouterr().out
    assert f"  sw1  from 0-8  to 1-6  vls 0,{'15,' * 14}0\n" in shown and "VL 1-14 of port 1-6 of sw1" in shown
    assert main(["policy", "query", str(file), *fabric, "--from", "vs1", "--to", "storage1"]) == 1
    assert "no path: SL 1 of level DEFAULT is mapped to VL 15 at vs1, port 1" in capsys.readouterr().err


def test_show_has_members_and_tables_with_a_fabric(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "show", str(EXAMPLE), "--fabric", str(EXAMPLE_FABRIC), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["port_groups"][0]["ports"] == ["storage1/1", "storage2/1"]
    assert {"node": "sw1", "from": 3, "to": 1, "vls": [0, *[1] * 15]} in content["sl2vl"]
    assert content["vlarb"][0]["port"] == "storage1/1" and content["vlarb"][0]["high_limit"] == 10
    assert content["rules"][0] == {"level": "2", "sn": 1, "use": "low latency by tclass 7-9 or 11", "tclass": "7-9,11"}
    assert main(["policy", "show", str(EXAMPLE), "--fabric", str(EXAMPLE_FABRIC)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  sw1  from 0-8  to 2-8  vls 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,14" in lines
    assert "  sw1  from 0-8  to 1  vls 0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1" in lines
    assert main(["policy", "show", str(EXAMPLE)]) == 0
    assert "level 3  sn 2  use Storage targets connection  destination Storage" in capsys.readouterr().out


def test_convert_writes_the_other_syntax_or_gives_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    block = tmp_path / "policy.conf"
    block.write_bytes(BLOCK_SAMPLE)
    assert main(["policy", "convert", str(block)]) == 0
    assert load(capsys.readouterr().out.encode(), "p") == load(BLOCK_SAMPLE, "p")
    assert main(["policy", "convert", str(EXAMPLE)]) == 2
    assert "OpenSM's levels have no TClass; 7 is left out" in capsys.readouterr().err
    assert main(["policy", "convert", str(EXAMPLE), "--approximate", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["syntax"] == "block" and len(content["problems"]) == 3
    assert main(["policy", "convert", str(EXAMPLE), "--to", "xml"]) == 0
    assert load(capsys.readouterr().out.encode(), "p") == load(EXAMPLE.read_bytes(), "p")


def query(*more: str) -> list[str]:
    return [
        "policy",
        "query",
        str(EXAMPLE),
        "--fabric",
        str(EXAMPLE_FABRIC),
        "--from",
        "vs1",
        "--to",
        "storage1",
        *more,
    ]


def test_query_prints_what_is_found_or_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(query("--tclass", "8", "--json")) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["found"], content["sl"], content["tclass"], content["level"]) == (True, 0, 7, "2")
    assert main(query("--sl", "0xe")) == 1
    assert "no path: SL 14 is asked for, and level 1 has SL 15" in capsys.readouterr().err
    assert main(query("--mtu", "4096B", "--json")) == 1
    assert json.loads(capsys.readouterr().out)["reason"] == "mtu"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["policy", "check", "/none"], "/none cannot be read: No such file or directory"),
        (["policy", "show", str(RFC_SAMPLE)], "qos_rfc_sample.xml:10:3: error: a comment cannot open"),
        (query("--sl", "16"), "--sl 16: a number from 0 to 15 is expected"),
        (query("--rate", "fast"), "'fast' is not a rate"),
        ([*query()[:-1], "nowhere"], "there is no port nowhere; write a node, node/port, a GUID (0x) or a LID"),
        (["policy", "query", str(EXAMPLE), "--from", "a", "--to", "b"], "--fabric"),
        (["policy", "check", str(EXAMPLE), "--fabric", str(EXAMPLE)], "qos-policy.xml is not TOML: "),
    ],
)  # fmt: skip
def test_bad_input_gets_one_clear_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_ports_are_named_by_node_number_guid_or_lid(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("storage1", "storage1/1", "0x1000000000000001", "2"):
        assert main([*query()[:-1], name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["to"] == "storage1/1"
