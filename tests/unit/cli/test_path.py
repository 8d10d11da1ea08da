"""`xoff path`, and the examples of docs/fabrics.md."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from testbed.cli import main

PAGE = (Path(__file__).parents[3] / "docs" / "fabrics.md").read_text()
EXAMPLES = re.findall(r"^    \$ xoff path (.*)\n((?:    (?!\$).*\n)+)", PAGE, re.MULTILINE)
_POLARISED = """
from xoff import FatTree, Ways

topos = {"polarised": lambda: FatTree(4, ways=Ways(seed=7))}
"""


@pytest.mark.parametrize(("arguments", "output"), EXAMPLES)
def test_the_page_shows_what_the_command_prints(
    arguments: str, output: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("polarised.py").write_text(_POLARISED)
    assert main(["path", *shlex.split(arguments)]) == 0
    printed = capsys.readouterr()
    shown = [line[4:] for line in output.splitlines()]
    if shown[0].startswith("warning"):
        assert printed.err == " ".join(shown) + "\n"
    else:
        assert printed.out.splitlines() == shown


def test_the_page_has_two_examples() -> None:
    assert len(EXAMPLES) == 2


def test_json_has_hops_with_hashes_and_ways(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["path", "h1", "h9", "--topo", "clos", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["known"] and found["nodes"][0] == "h1" and found["nodes"][-1] == "h9"
    first = found["hops"][0]
    assert first["switch"] == "leaf1" and first["hashed"]["fields"]["destination port"] == "4791"
    assert [way["neighbour"] for way in first["ways"]] == ["agg1", "agg2"]
    assert first["chosen"] in [way["port"] for way in first["ways"]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("h1 h99", "there is no host h99 in this network; did you mean h9?"),
        ("h1 h2 --topo fattree,4", "there is no topology fattree; did you mean fat-tree?"),
        ("h1 h2 --topo star,3", "Star has no lossless switches"),
        ("h1 h2 --transport udp", "the kernel chooses the source port of udp flows; give one, such as 50000"),
        ("h1 h2 --transport tpc", "there is no transport 'tpc'; did you mean tcp?"),
    ],
)
def test_mistakes_get_one_line(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["path", *words.split()]) == 2
    assert message in capsys.readouterr().err


def test_a_udp_flow_without_a_number_is_the_first_and_the_command_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["path", "h1", "h9", "--transport", "udp", "--source-port", "40000"]
    assert main(words) == 0
    first = capsys.readouterr()
    assert "destination port 20000 is that of a run's first flow; flow N, from 0, has 20000 + N: --flow N" in first.err
    assert main([*words, "--flow", "0"]) == 0
    assert capsys.readouterr() == (first.out, "")
    assert main([*words, "--flow", "3"]) == 0
    other = capsys.readouterr()
    assert "destination port 20003" in other.out and other.err == ""
