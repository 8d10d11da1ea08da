"""Tests of README and docs: each code block is tried out somewhere, and each command line is one that Xoff takes.

Blocks that need the lab are run by tests/lab/commands/test_readme.py.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from testbed.cli import build_parser, commands
from testbed.experiment import definition
from testbed.net.fabric.port import LAB_AGENT_REACTION
from testbed.net.fabric.routes import Graph
from testbed.net.shell import topologies
from testbed.subjects.dcbx import config
from testbed.subjects.srv6.controller import network
from testbed.subjects.srv6.session.intents import VpnIntent
from testbed.typed_json.codec import CODEC
from tests import pages
from tests.pages import ROOT, Block
from topologies.clos import Clos
from topologies.dragonfly import Dragonfly
from topologies.fat_tree import FatTree
from topologies.rail import Rail

BLOCKS = {str(block): block for block in pages.blocks()}
EXPERIMENTS = [block for block in BLOCKS.values() if block.is_experiment]


def test_every_block_is_tried_out_in_one_way() -> None:
    ways = [{str(block) for block in EXPERIMENTS}, pages.IN_LAB, pages.ON_THIS_MACHINE, pages.AS_DATA, pages.A_TEST]
    tried = [name for way in ways for name in way]
    assert sorted(tried) == sorted(BLOCKS), "a new block needs a place in tests/pages.py"


def test_there_is_no_block_without_a_language() -> None:
    for page in pages.PAGES:
        fences = re.findall(r"^```(.*)$", (ROOT / page).read_text(), re.MULTILINE)
        assert all(fences[::2]) and not any(fences[1::2]), page


@pytest.mark.parametrize("job", pages.JOBS)
def test_a_job_with_programs_of_others_is_a_short_file(job: str) -> None:
    block = BLOCKS[pages.JOBS[job]]
    assert block.is_experiment and "debs=" in block.text
    assert len(block.text.splitlines()) <= pages.MOST_LINES


_PATH = re.compile(
    r"`((?:testbed|tests|docs|experiments|topologies|controllers|bench|tools|stubs|lessons|snappi_xoff|requirements)"
    r"(?:/[\w.-]+)+/?)(?::[\w.:\[\]]+)?`"
)


def test_each_path_that_a_page_names_exists() -> None:
    """Names in capitals are chosen by the reader."""
    records = [str(path.relative_to(ROOT)) for path in (ROOT / "docs/decisions").rglob("*.md")]
    missing = [
        f"{page}: {path}"
        for page in (*pages.PAGES, *records)
        for path in _PATH.findall((ROOT / page).read_text())
        if "NAME" not in path and not (ROOT / path).exists()
    ]
    assert missing == []


def test_the_page_of_the_lab_names_each_lock_that_xoff_comes_with() -> None:
    page = (ROOT / "docs/lab.md").read_text()
    named = " ".join(re.findall(r"comes with locks for\s(.*?);", page, re.DOTALL))
    for lock in (ROOT / "testbed/lab/image/extras").rglob("*.lock"):
        assert re.search(rf"\b{lock.stem.replace('trixie-', 'trixie:')}\b", named), lock.stem


_LOST = re.compile(r"^\||(?:^|[.:] )\d\. [A-Z*`]", re.MULTILINE)


def test_no_list_or_table_of_a_page_has_become_a_paragraph() -> None:
    """A re-wrap by hand can join the items of a list, and an empty line cuts a table in two."""
    markdown = MarkdownIt("commonmark").enable("table")
    lost = [
        f"{path.relative_to(ROOT)}: {token.content[:60]}"
        for path in (*map(ROOT.joinpath, pages.PAGES), *(ROOT / "docs/decisions").rglob("*.md"))
        for before, token in pairwise(markdown.parse(path.read_text()))
        if token.type == "inline" and before.type == "paragraph_open" and _LOST.search(token.content)
    ]
    assert lost == []


@pytest.mark.parametrize("block", EXPERIMENTS, ids=str)
def test_an_experiment_of_a_page_is_one_with_a_docstring(block: Block, tmp_path: Path) -> None:
    file = tmp_path / f"{re.sub(r'[^a-z0-9]', '_', str(block).lower())}.py"
    file.write_text(block.text)
    assert definition.load_file(file).summary.endswith(".")


@pytest.mark.slow
def test_experiments_of_pages_pass_mypy_strict(tmp_path: Path) -> None:
    files = []
    for number, block in enumerate(EXPERIMENTS):
        files.append(tmp_path / f"shown{number}.py")
        files[-1].write_text(block.text)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--allow-untyped-defs", "--allow-incomplete-defs",
         "--cache-dir", str(tmp_path / "cache"), *map(str, files)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_the_controllers_page_has_a_vpn_and_a_client_that_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert tomllib.loads(BLOCKS["docs/controller.md:0"].text)
    vpn = CODEC.decode(VpnIntent, json.loads(BLOCKS["docs/controller.md:1"].text))
    assert [site.router for site in vpn.sites] == ["R1", "R3"]
    exec(BLOCKS["docs/controller.md:2"].text, {})
    assert [router.router for router in network.read(BLOCKS["docs/controller.md:3"].text)] == ["r2"]
    assert capsys.readouterr().out.startswith("b'")


def test_the_dcbx_pages_configuration_is_read(tmp_path: Path) -> None:
    assert config.parse(BLOCKS["docs/dcbx.md:0"].text, "docs/dcbx.md").settings.pfc is not None


@pytest.mark.parametrize(("page", "line"), pages.commands(), ids=lambda text: str(text).replace(" ", "_"))
def test_a_command_line_of_a_page_is_one_that_xoff_takes(page: str, line: str) -> None:
    words = shlex.split(line)
    if words == ["--help"]:
        return
    assert words[0] in commands.by_name(), page
    options = build_parser(*words).parse_args(words)
    known = {experiment.name for experiment in definition.shipped()}
    for name in getattr(options, "experiment", []):
        assert name in known or name.endswith(".py"), f"{page}: {name}"
    if words[0] == "shell" and topologies.file_of(options.topology)[0] is None:
        topologies.check(options.topology)


def test_equally_short_ways_are_chosen_as_on_the_page() -> None:
    """docs/flows.md: in leaf-spine,2,2,2 frames to h1 and h3 go by spine1, and to h2 and h4 by spine2."""
    graph = Graph(forwarding={"leaf1", "leaf2", "spine1", "spine2"})
    for leaf, hosts in (("leaf1", ("h1", "h2")), ("leaf2", ("h3", "h4"))):
        for host in hosts:
            graph.join(host, f"{host}-eth0", leaf, f"{leaf}-{host}")
        for spine in ("spine1", "spine2"):
            graph.join(leaf, f"{leaf}-{spine}", spine, f"{spine}-{leaf}")
    from_leaf1, from_leaf2 = graph.next_hops("leaf1"), graph.next_hops("leaf2")
    assert (from_leaf1["h3"], from_leaf1["h4"]) == ("leaf1-spine1", "leaf1-spine2")
    assert (from_leaf2["h1"], from_leaf2["h2"]) == ("leaf2-spine1", "leaf2-spine2")


def test_the_fabrics_of_the_page_can_be_made() -> None:
    names: dict[str, Any] = {}
    exec(BLOCKS["docs/fabrics.md:0"].text, names)
    assert names["ring"] == ([f"h{number}" for number in range(1, 9)], [f"h{number}" for number in range(9, 17)])
    assert len(names["halved"].hosts()) == 64
    page = (ROOT / "docs" / "fabrics.md").read_text()
    for kind, hosts, switches in ((Clos, 16, 12), (FatTree, 16, 20), (Dragonfly, 12, 6), (Rail, 16, 6)):
        assert (len(kind().hosts()), len(kind().switches())) == (hosts, switches)
        assert f"`{kind.__name__}`" in page


def test_the_pages_reaction_times_are_the_defaults() -> None:
    page = (ROOT / "docs" / "pfc.md").read_text()
    for name in ("sends", "stops"):
        microseconds = getattr(LAB_AGENT_REACTION, name).ns // 1000
        assert re.search(rf"`reaction.{name}` .*\| {microseconds} us of the lab in `um`", page), name


def test_the_behaviour_of_the_page_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    from testbed.subjects.srv6.protocol import behaviours

    monkeypatch.setattr(behaviours, "BEHAVIOURS", dict(behaviours.BEHAVIOURS))
    exec(BLOCKS["docs/wan.md:1"].text, {"__name__": "page"})
    added = behaviours.BEHAVIOURS["End.T"]
    assert added.kernel_action(behaviours.Parameters(table=7)) == behaviours.KernelAction("End.T", table=7)
