"""The arguments of a topology, which are checked before anything is built."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testbed.errors import UsageError
from testbed.net.shell import topologies, views


class Incast:
    OPTIONS = ("scale", "length")

    def __init__(self, *values: object, **named: object) -> None:
        self.given = values, named

    def build(self, n: int = 2, senders: int = 1) -> None: ...


@pytest.fixture(autouse=True)
def topology(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topologies, "find", lambda name: Incast)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("incast,4,5,6", "topology incast,4,5,6: incast takes at most 2 values (n, senders), and not 3"),
        ("incast,foo=1", "topology incast,foo=1: incast has no foo; it takes n, senders, scale, length"),
        ("incast,lenght=5m", "topology incast,lenght=5m: incast has no lenght; did you mean length?"),
        ("incast,4,n=5", "topology incast,4,n=5: n is given twice"),
    ],
)
def test_what_a_topology_does_not_take_is_named_with_what_it_takes(wanted: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        topologies.build(wanted)
    assert str(caught.value) == message


def test_what_it_takes_is_passed_on() -> None:
    assert topologies.build("incast,4,length=5m,scale=10").given == ((4,), {"length": "5m", "scale": 10})


FILE = """
import helper

def ring(n=3): return ("ring", n, helper.X)

topos = {"ring": ring}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.undo()  # the topology above
    (tmp_path / "helper.py").write_text("X = 7\n")
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def test_a_topology_of_a_file_may_be_a_function_and_import_what_is_beside_it(file: Path) -> None:
    assert topologies.build(f"{file},4") == ("ring", 4, 7)
    assert topologies.build(f"{file}:ring,n=5") == ("ring", 5, 7)


@pytest.mark.parametrize(
    ("topos", "wanted", "message"),
    [
        ("{'ring': ring}", "mine.py:rng,4", "mine.py has no topology rng; did you mean ring?"),
        ("{'a': ring, 'b': ring}", "mine.py,4", "mine.py has several topologies; name one, as in mine.py:a"),
        ("[ring]", "mine.py", "mine.py: topos is ["),
        ("{'ring': ring}", "mine.py,4,5", "topology mine.py,4,5: mine.py takes at most 1 values (n), and not 2"),
    ],
)
def test_a_file_without_the_wanted_topology_is_named(topos: str, wanted: str, message: str, file: Path) -> None:
    file.write_text(f"{FILE}topos = {topos}\n")
    with pytest.raises(UsageError) as caught:
        topologies.build(str(file.parent / wanted))
    assert str(caught.value).startswith(message)


def test_the_page_on_networks_names_every_command_that_shows_one() -> None:
    page = (Path(__file__).parents[3] / "docs" / "network.md").read_text()
    table = page.partition("| command | what it does |\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", table)) >= views.every().keys()
