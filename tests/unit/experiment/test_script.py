"""Scripts: their recognition, the files that they take with them, and their use by `xoff run` and `xoff shell`."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.cli.look import shell
from testbed.errors import UsageError
from testbed.experiment import definition, script
from testbed.experiment.parameters import ExperimentError
from testbed.lab.job import job

NETWORK = """\
from mininet.net import Mininet
from mininet.topolib import TreeTopo

net = Mininet(TreeTopo(2))
net.start()
net.stop()
raise SystemExit("it is not run here")
"""
TOPOLOGIES = """\
from mininet.topo import Topo

class Mine(Topo):
    def build(self, n=2): ...

topos = {"mine": Mine, "other": lambda: Mine(3)}
"""
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str) -> Path:
        path = tmp_path / "my_net.py"
        path.write_text(text)
        return path

    return written


def test_a_script_for_mininet_is_taken_as_it_is_and_not_executed_here(write: Write) -> None:
    path = write(NETWORK)
    found = definition.find(str(path))
    assert (found.name, found.source, found.packages, found.script) == ("my_net", path, (), script.PROGRAM)
    assert {one.name: str(one.default) for one in found.parameters} == {"arguments": "", "line": "1Gb/s"}


@pytest.mark.parametrize(
    "text",
    [
        "print('hello')\n",
        "def main():\n    ...\n\nif __name__ == '__main__':\n    main()\n",
        "import testbed\nprint(testbed.__version__)\n",
        "class A:\n    def __init__(self):\n        self.experiment = 1\n\nA()\n",
    ],
    ids=["prints", "main", "uses testbed", "an attribute of that name"],
)
def test_what_does_something_and_marks_nothing_is_a_script(text: str, write: Write) -> None:
    assert script.is_script(write(text))


@pytest.mark.parametrize(
    "text",
    [
        "from testbed.lab import experiment\n\n@experiment\ndef e(run): ...\n\nprint()\n",
        "from testbed.lab import experiment as mark\n\n@mark\ndef e(run): ...\n\nprint()\n",
        "from testbed import lab\n\n@lab.experiment()\ndef e(run): ...\n\nprint()\n",
        "from testbed.lab import *\n\n@experiment\ndef e(run): ...\n\nprint()\n",
        '"""Only defines."""\nimport os\n\nX = 1\n\ndef f(): ...\n',
        TOPOLOGIES,
        "def broken(:\n",
        "",
    ],
    ids=["marked", "by another name", "of a module", "of all names", "defines", "topologies", "broken", "empty"],
)
def test_experiments_and_what_only_defines_are_none(text: str, write: Write) -> None:
    assert not script.is_script(write(text))


def test_a_file_that_does_nothing_is_refused_with_what_was_looked_for(write: Write) -> None:
    path = write("x = 1\n")
    with pytest.raises(ExperimentError) as caught:
        definition.load_file(path)
    assert str(caught.value) == (
        f"{path} holds no function marked with @experiment, and as a script it would do nothing"
    )


def test_modules_beside_it_go_along(write: Write, tmp_path: Path) -> None:
    path = write(NETWORK + "from helpers import thing\n")
    (tmp_path / "helpers.py").write_text("thing = 1\n")
    (tmp_path / "unused.py").write_text("")
    assert definition.load_file(path).files == ("helpers.py",)


STARTS = """\
import os
from mininet.net import Mininet

net = Mininet()
net.get("h1").cmd("PORT=80 python ./http/serve.py > log.txt &")
net.get("h2").cmd(f"sh {os.getcwd()}/load.sh; iperf -f ports.yaml")
print("what is not there: nothing.txt /etc/passwd ../outside.txt ~ . ./ https://example.org/load.sh")
"""


def test_what_a_script_starts_or_reads_by_name_goes_along_with_what_that_needs(write: Write, tmp_path: Path) -> None:
    path = write(STARTS)
    (tmp_path / "outside.txt").write_text("")
    (tmp_path / "http/templates").mkdir(parents=True)
    (tmp_path / "http/pages").mkdir()
    (tmp_path / "http/serve.py").write_text("import site_map\nPAGES = 'pages'\nrender('index.html')\n")
    for name in (
        "http/site_map.py",
        "http/templates/index.html",
        "http/pages/a.html",
        "http/pages/.hidden",
        "unused.py",
        "words.txt",
        "ports.yaml",
    ):
        (tmp_path / name).write_text("")
    (tmp_path / "load.sh").write_text("#!/bin/sh\nwhile read word; do curl $word; done <words.txt\n")
    assert definition.load_file(path).files == (
        "http/pages/a.html", "http/serve.py", "http/site_map.py", "http/templates/index.html", "load.sh", "ports.yaml",
        "words.txt",
    )  # fmt: skip


def test_what_is_large_stays_here_and_that_is_said(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write("open('capture.pcap')\nopen('results/log')\nprint('results')\n")
    (tmp_path / "capture.pcap").write_bytes(bytes(5 << 20))
    (tmp_path / "results").mkdir()
    for number in range(201):
        (tmp_path / f"results/{number}").write_text("")
    assert definition.load_file(path).files == ()
    assert capsys.readouterr().err == (
        "warning: my_net.py names capture.pcap, which has more than 4 MB and does not go along\n"
        "warning: my_net.py names results, which has more than 200 files or 4 MB and does not go along\n"
    )


# The shell


def test_the_shell_takes_a_script_with_its_arguments(write: Write) -> None:
    path = write(NETWORK)
    wanted, along = shell._wanted(f"{path},1000,a b")
    assert along is not None
    assert (wanted.source, wanted.name) == ("user/my_net.py", "my_net")
    assert wanted.parameters == {"arguments": "1000 'a b'", "line": "1Gb/s"}
    assert "code/user/my_net.py" in names(job.pack(wanted, along))


@pytest.mark.parametrize("chosen", [",4", ":mine,4", ":other", ""])
def test_the_shell_takes_a_topology_of_a_file(chosen: str, write: Write) -> None:
    path = write(TOPOLOGIES + "print('and it prints')\n")
    wanted, along = shell._wanted(f"{path}{chosen}")
    assert along is not None
    assert (wanted.source, wanted.name, wanted.parameters) == ("user/my_net.py", f"my_net.py{chosen}", {})
    assert "code/user/my_net.py" in names(job.pack(wanted, along))


@pytest.mark.parametrize(
    ("text", "chosen", "message"),
    [
        (None, "", "there is no file {}"),
        ("from testbed.lab import experiment\n\n@experiment\ndef e(run): ...\n", "",
         "{} is a file of experiments, which have no command line; xoff run runs them"),
        (NETWORK, ":mine,4", "{} defines no `topos`, so there is no mine in it"),
        ("x = 1\n", ",4", "{} holds no function marked with @experiment, and as a script it would do nothing"),
    ],
    ids=["no file", "experiments", "no topologies", "nothing"],
)  # fmt: skip
def test_the_shell_refuses_other_files(text: str | None, chosen: str, message: str, write: Write) -> None:
    path = write(text or "")
    if text is None:
        path.unlink()
    with pytest.raises(UsageError) as caught:
        shell._wanted(f"{path}{chosen}")
    assert str(caught.value) == message.format(path)


def names(packed: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return archive.getnames()
