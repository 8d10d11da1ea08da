"""Subjects plug into the core by a table. A toy takes part by it, without a change of the core."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from testbed import subject, subjects
from testbed.cli import commands, main
from testbed.errors import UsageError
from testbed.frames import Mac
from testbed.lab.results.folder import read
from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.bring_up import agent_plan
from testbed.net.shell import views
from testbed.report.exports import frame_text
from testbed.report.exports.frame_text import ethernet, kinds
from testbed.report.pages.page import report
from testbed.report.timeline.states import states
from testbed.subject import Subject
from tests.report_folders import small
from tests.unit import toy_subject

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", subjects.TABLE)
def test_each_member_of_a_subject_names_an_object(name: str) -> None:
    found: Subject = importlib.import_module(f"testbed.subjects.{name}.subject").SUBJECT
    assert found.name == name
    for member in Subject._fields[1:]:
        assert getattr(found, member) == "" or found.load(member) is not None, member


def test_the_core_names_no_subject() -> None:
    """Comments and docstrings may."""
    named = re.compile(r"(?:from |import |\")testbed\.subjects\.[a-z]")
    found = {str(path.relative_to(ROOT)) for path in _core() if named.search(path.read_text())}
    assert found == set()


def test_the_core_does_without_any_subject() -> None:
    """Whatever of it is imported, and a topology with the core's nodes."""
    script = """
import importlib, sys
from testbed import subjects

for name in subjects.TABLE:
    sys.modules[f"testbed.subjects.{name}"] = None  # an import of it fails
subjects.TABLE = ()
for module in sys.stdin.read().split():
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] != "mininet":  # which is in the lab alone
            raise
from testbed.cli import commands
from testbed.experiment import script
from testbed.net.build.topo import LosslessTopo
from testbed.net.shell import views

topo = LosslessTopo()
topo.addLink(topo.addRouter("r1"), topo.addSwitch("s1"))
commands.overview(), views.every(), script.kinds()
"""
    paths = (path for path in _core() if path.name != "__main__.py" and "guest" not in path.parts)
    core = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    assert len(core) > 300
    subprocess.run([sys.executable, "-c", script], input="\n".join(sorted(core)), cwd=ROOT, text=True, check=True)


def _core() -> set[Path]:
    return {path for path in (ROOT / "testbed").rglob("*.py") if "subjects" not in path.relative_to(ROOT).parts}


@pytest.fixture
def with_toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the toy beside the subjects that come with Xoff, as an entry point of a package does."""
    monkeypatch.setattr(subject, "_of_packages", lambda: (toy_subject.SUBJECT,))
    frame_text._of_subjects.cache_clear()
    yield
    frame_text._of_subjects.cache_clear()


pytestmark = pytest.mark.usefixtures("with_toy")


def test_its_command_is_in_the_help_and_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert "toys" in commands.groups()
    assert "  greet " in commands.overview()
    assert main(["greet", "--name", "s1"]) == 0
    assert capsys.readouterr().out == "hello s1\n"


def test_its_frames_are_decoded() -> None:
    assert "greeting" in kinds()
    assert ethernet(toy_subject.frame("s1"))[-1] == "greeting from s1"
    assert ethernet(toy_subject.frame("s1")[:14])[-1].startswith("refused: ")


def test_its_panel_section_and_rows_are_in_a_report(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    page = report([folder])
    assert "Greetings over time" in page
    assert "All greetings" in page
    assert (0, "s1", "greets") in states(read(folder), [])


def test_its_view_is_a_command_of_the_network() -> None:
    view = views.every()["greetings"]
    assert view.read(cast(Any, None), "s1") == {"s1": 1}
    assert view.show(None, "s1") == "port  greetings\ns1            1\n"


def test_its_option_is_one_of_switches_and_of_no_other_node() -> None:
    topo = LosslessTopo()
    topo.addSwitch("s1", greets=3)
    assert topo.nodeInfo("s1")["greets"] == 3
    with pytest.raises(UsageError, match=r"addHost\(h1\): there is no option greets"):
        topo.addHost("h1", greets=3)
    with pytest.raises(UsageError, match=r"addSwitch\(s2\): there is no option greet; did you mean greets"):
        topo.addSwitch("s2", greet=3)


def test_it_has_a_part_in_the_speaker_of_nodes_with_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = {name: _plan(monkeypatch, params) for name, params in (("greets", {"greets": 3}), ("silent", {}))}
    assert [part.name for part in plans["greets"].parts] == ["toy"]
    assert plans["silent"].parts == ()
    assert plans["greets"].handover_ports == 1 + plans["silent"].handover_ports
    services = SimpleNamespace(log=toy_subject.Lines())
    part = plans["greets"].parts[0].part(plans["greets"], cast(Any, services), None, False)
    part.start({}, 5)
    assert part.deadline_ns == 5 + toy_subject.INTERVAL_NS
    part.expire(part.deadline_ns)
    assert part.answer("count", None, 0) == part.snapshot() == {"greetings": 1}
    assert services.log.lines == [(3, {"t_ns": 5 + toy_subject.INTERVAL_NS, "what": "greeting"})]
    again = plans["greets"].parts[0].part(plans["greets"], cast(Any, services), part.notes, True)
    assert again.snapshot() == {"greetings": 1}


def _plan(monkeypatch: pytest.MonkeyPatch, params: Mapping[str, Any]) -> Any:
    """Return the plan of a node whose ports' own plans are left out."""
    monkeypatch.setattr("testbed.net.fabric.bring_up._port_plan", lambda *_: "port")
    node = SimpleNamespace(name="s1", pid=1, params=params)
    ports = [SimpleNamespace(node=node, slot=3, name="s1-eth1", settings=None, mac=Mac(bytes(6)))]
    return agent_plan(cast(Any, None), 0, cast(Any, ports), None)


def test_a_package_that_names_no_subject_or_an_own_one_is_left_out_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()
    info = tmp_path / "toys-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1\n")
    toy = "tests.unit.toy_subject"
    (info / "entry_points.txt").write_text(
        f"[xoff.subjects]\ngood = {toy}:SUBJECT\nnone = {toy}:INTERVAL_NS\ntaken = {toy}:TAKEN\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    _forget()
    try:
        assert [one.name for one in subject.every()] == [*subjects.TABLE, "toy"]
        said = capsys.readouterr().err
        assert (
            "toys 1: xoff.subjects none = 'tests.unit.toy_subject:INTERVAL_NS' cannot be used: it is no Subject" in said
        )
        assert "Xoff has a subject dcbx already; it needs another name" in said
    finally:
        monkeypatch.undo()
        _forget()


def _forget() -> None:
    from testbed import plugins

    plugins.found.cache_clear()
    subject._of_packages.cache_clear()
