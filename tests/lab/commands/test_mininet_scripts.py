"""Scripts for Mininet run in the lab as they are: Mininet's own examples, from Debian's package, and some of ours."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from testbed import lab
from testbed.experiment.fidelity import Verdict
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.image import image
from testbed.lab.job.job import Limits
from testbed.lab.results.collect import OUTPUT_LOG
from testbed.lab.results.result import Status

from ..conftest import ROOT

XOFF = [sys.executable, "-m", "testbed"]
ALL_ANSWER = r"\*\*\* Results: 0% dropped \((\d+)/\1 received\)"
WAITED_FOR = r"(?s)\*\*\* Starting CLI:.*\*\*\* Done"

EXAMPLES = {
    "bind": [r"Private Directories:", WAITED_FOR, "Done."],
    "controllers": [WAITED_FOR],
    "controllers2": [ALL_ANSWER, WAITED_FOR],
    "emptynet": [WAITED_FOR],
    "intfoptions": [r"(?s)TCP bandwidth.*\['9\.\d+ Mbits/sec', '\d+\.\d+ Mbits/sec'\].*UDP", "rtt min/avg/max/mdev 15"],
    "linearbandwidth": [r"1 \t\t\d\d\.\d Mbits/sec", r"4 \t\t\d\d\.\d Mbits/sec"],
    "linuxrouter": [r"172\.16\.0\.0 .* r0-eth2", WAITED_FOR],
    "mobility": [r"(?s)(\*\*\* Results: .*){3}\*\*\* Results: 0% dropped \(6/6 received\)"],
    "multilink": [WAITED_FOR],
    "multiping": [r"10\.0\.0\.2 -> 10\.0\.0\.1 1 packets transmitted, 1 received"],
    "multipoll": [r"h3: 64 bytes from 10\.0\.0\.1"],
    "multitest": [ALL_ANSWER, r"h1-eth0: flags=.*RUNNING", WAITED_FOR],
    "nat": [WAITED_FOR],
    "natnet": [WAITED_FOR],
    "numberedports": [r"s1-eth9 is actually on port 9 \.\.\. Validated\.", ALL_ANSWER],
    "popen": [r"<h5>: 5 packets transmitted, 5 received"],
    "popenpoll": [r"<h3>: 64 bytes from 10\.0\.0\.1"],
    "scratchnet": [r"1 packets transmitted, 1 received"],
    "simpleperf": [r"h1: the lab limits no CPU", r"UDP bandwidth between h1 and h4"],
    "vlanhost": [WAITED_FOR],
}
"""Examples that run, and what they print; docs/howto/run-a-mininet-script.md has the others, with the reason."""
SOON = ("controllers2", "scratchnet")
"""The examples that take little time, and together use most of what the lab gives them."""


def printed(result: lab.Result) -> str:
    assert result.folder is not None
    return (result.folder / OUTPUT_LOG).read_text()


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of Mininet's examples, from Debian's package in the version that the image has."""
    folder = tmp_path_factory.mktemp("mininet")
    version = image.reference()["debian"]["mininet"]
    fetched = subprocess.run(
        ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", f"mininet={version}"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if fetched.returncode:
        pytest.skip(f"mininet {version} cannot be downloaded: {fetched.stderr.strip().splitlines()[-1]}")
    (package,) = folder.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
    return folder / "usr/share/doc/mininet/examples"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SOON else pytest.mark.long) for name in EXAMPLES]
)
def test_an_example_of_mininets_runs_unchanged(
    name: str, examples: Path, ready: PreparedEngine, tmp_path: Path
) -> None:
    result = lab.run(examples / f"{name}.py", on=ready, out=tmp_path)
    assert (result.status, result.reason) == (Status.OK, "")
    text = printed(result)
    for wanted in EXAMPLES[name]:
        assert re.search(wanted, text), f"no {wanted} in:\n{text}"


def test_the_page_names_each_example(examples: Path) -> None:
    """Those that run, and each of the others with the reason."""
    page = (ROOT / "docs/howto/run-a-mininet-script.md").read_text().partition("## Mininet's own examples\n")[2]
    runs, others = page.partition("\n| example that does not run |")[::2]
    assert set(re.findall(r"`(\w+)`", runs)) == EXAMPLES.keys()
    named = {name for line in others.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert named == {path.stem for path in examples.glob("*.py")} - EXAMPLES.keys() - {"__init__"}


# What scripts of our own show

Run = Callable[..., lab.Result]
Typed = Callable[[str, Sequence[tuple[str, str]]], str]


@pytest.fixture
def script(ready: PreparedEngine, tmp_path: Path) -> Run:
    def run(text: str, **options: object) -> lab.Result:
        path = tmp_path / "mine.py"
        path.write_text(text)
        return lab.run(path, on=ready, out=tmp_path / "results", **options)  # type: ignore[arg-type]

    return run


TREE = """\
import sys
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.topolib import TreeTopo

setLogLevel("output")
net = Mininet(TreeTopo(depth=1, fanout=2), waitConnected=True)
net.start()
assert net.pingAll() == 0
received, sent = net.iperf(seconds=1)
print(f"iperf: {received}")
net.stop()
print(sys.argv[1:], file=open("left.txt", "w"))
sys.exit(len(sys.argv) - 1)
"""
PINGS = TREE.replace("net.iperf(seconds=1)", "0, 0")


def test_net_iperf_ends_and_finds_the_rate_of_the_line(script: Run) -> None:
    """Nothing else limits TCP where the work of the CPU takes no time; and Mininet gets both reports that it awaits."""
    result = script(TREE, limits=Limits(virtual_s=60))
    assert result.status is Status.OK, result.reason
    (found,) = re.findall(r"iperf: ([\d.]+) Mbits/sec", printed(result))
    assert 900 < float(found) <= 1000
    assert result.fidelity.verdict is Verdict.KEPT
    assert result.fidelity.windows >= 9, "the network was up for that test at least"


def test_the_line_and_arguments_are_parameters_and_the_exit_status_is_the_result(script: Run) -> None:
    result = script(TREE, parameters={"line": "10Mb/s", "arguments": "'a b' c"})
    assert (result.status, result.reason) == (Status.ERROR, "the job ended with exit code 2")
    (found,) = re.findall(r"iperf: ([\d.]+) Mbits/sec", printed(result))
    assert 9 < float(found) <= 10
    assert result.folder is not None
    assert (result.folder / "left.txt").read_text() == "['a b', 'c']\n"


def test_two_runs_of_a_script_are_the_same_to_the_byte(script: Run) -> None:
    assert script(PINGS).digest == script(PINGS).digest


def test_captures_and_the_description_of_a_scripts_network_are_in_its_folder(script: Run) -> None:
    result = script(PINGS, capture_octets=64)
    assert result.folder is not None
    assert len(list((result.folder / "captures").rglob("*.pcapng"))) == 4
    (started, ended) = (json.loads(line) for line in (result.folder / "networks.jsonl").read_text().splitlines())
    assert (started["topology"], len(started["cables"]), ended["network"]) == ("TreeTopo", 2, "ended")


SERVES = """\
import os
from mininet.net import Mininet
from mininet.topo import SingleSwitchTopo

net = Mininet(SingleSwitchTopo(2), waitConnected=True)
net.start()
h1, h2 = net.get("h1", "h2")
server = h1.popen("python http/webserver.py", shell=True)
while "Hello" not in (page := h2.cmd("curl -s", h1.IP() + ":8000/index.html")):
    h2.cmd("sleep 0.1")
print("page:", page)
server.terminate()
net.stop()
with open("notes.txt", "a") as notes:
    notes.write("more\\n")
print(sorted(os.listdir(".")))
"""
WEBSERVER = """\
#!/usr/bin/env python
import functools, os
from http.server import HTTPServer, SimpleHTTPRequestHandler

folder = os.path.dirname(os.path.abspath(__file__))
assert os.path.exists(folder + "/index.html")
HTTPServer(("", 8000), functools.partial(SimpleHTTPRequestHandler, directory=folder)).serve_forever()
"""


def test_a_program_that_a_script_starts_by_name_is_there_with_its_files(script: Run, tmp_path: Path) -> None:
    """Their names are relative to the script's folder, as on the user's machine; what it changes is in the result."""
    (tmp_path / "http").mkdir()
    (tmp_path / "http/webserver.py").write_text(WEBSERVER)
    (tmp_path / "http/index.html").write_text("Hello from h1")
    (tmp_path / "notes.txt").write_text("some\n")
    result = script(SERVES)
    assert result.status is Status.OK, result.reason
    assert "page: Hello from h1" in printed(result)
    assert "'http', 'mine.py'," in printed(result) and "'notes.txt'" in printed(result)
    assert result.folder is not None
    assert (result.folder / "notes.txt").read_text() == "some\nmore\n"
    assert not (result.folder / "http").exists() and not (result.folder / "mine.py").exists()


NAT = """\
from mininet.net import Mininet
from mininet.nodelib import NAT

net = Mininet(waitConnected=True)
net.addController("c0")
outside, inside = net.addSwitch("s0"), net.addSwitch("s1")
h0 = net.addHost("h0")
h1 = net.addHost("h1", ip="192.168.1.100/24", defaultRoute="via 192.168.1.1")
nat = net.addHost("nat1", cls=NAT, ip="10.0.0.9/8", subnet="192.168.1.0/24", localIntf="nat1-eth1")
net.addLink(h0, outside)
net.addLink(nat, outside)
net.addLink(nat, inside, params1={"ip": "192.168.1.1/24"})
net.addLink(h1, inside)
net.start()
print(h1.cmd("ping -c 1 -W 2 10.0.0.1"))
net.stop()
"""


WITH_OURS = """\
from mininet.log import setLogLevel
from xoff import Star, network

with network(Star(2)) as net:
    setLogLevel("warning")
    print(net.pingAll())
"""


def test_a_network_of_xoffs_in_a_script_is_described_once(script: Run) -> None:
    result = script(WITH_OURS)
    assert result.status is Status.OK, result.reason
    assert printed(result) == "0.0\n"
    assert result.folder is not None
    kinds = [json.loads(line)["network"] for line in (result.folder / "networks.jsonl").read_text().splitlines()]
    assert kinds == ["started", "ended"]


def test_nat_of_mininets_translates_addresses(script: Run) -> None:
    """The host outside has no route to the network of the one inside, so it answers the address of the NAT."""
    result = script(NAT)
    assert result.status is Status.OK, result.reason
    assert "1 packets transmitted, 1 received" in printed(result)


@pytest.mark.parametrize(
    ("text", "reason", "said"),
    [
        ("raise SystemExit('no network today')\n", "the job ended with exit code 1", "no network today\n"),
        ("print('so far')\nraise SystemExit(-1)\n", "the job ended with exit code 255", "so far\n"),
        ("import unittest\n\nclass One(unittest.TestCase):\n    def test_it(self):\n        self.fail()\n\n"
         "unittest.main(exit=False)\n", "ScriptTestsError: unittest: 1 failures", "FAILED"),
        ("import atexit\natexit.register(print, 'at the end')\nprint(input())\n", "EOFError", "at the end\n"),
        ("import threading, time\n"
         "threading.Thread(target=lambda: (time.sleep(3), print('threads end'))).start()\n", "", "threads end\n"),
    ],
    ids=["exit", "negative", "unittest", "standard input", "threads"],
)  # fmt: skip
def test_a_script_ends_as_a_program_does(text: str, reason: str, said: str, script: Run) -> None:
    result = script(text)
    assert (result.status is Status.OK) is (reason == "")
    assert result.reason.startswith(reason)
    assert said in printed(result)


# The shell


@pytest.fixture
def typed(ready: PreparedEngine) -> Typed:
    """Types into `xoff shell WANTED`: each answer when what it waits for has come. What is seen until its end."""

    def session(wanted: str, dialogue: Sequence[tuple[str, str]]) -> str:
        ours, theirs = pty.openpty()
        process = subprocess.Popen([*XOFF, "shell", wanted], cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        seen, at = "", 0
        try:
            for awaited, answer in dialogue:
                while (found := seen.find(awaited, at)) < 0:
                    assert select.select([ours], [], [], 120)[0], f"no {awaited!r} after {seen!r}"
                    seen += os.read(ours, 4096).decode(errors="replace")
                at = found + len(awaited)
                os.write(ours, answer.encode())
            with suppress(OSError):  # the terminal has no user any more
                while True:
                    assert select.select([ours], [], [], 60)[0], f"no end after {seen!r}"
                    seen += os.read(ours, 4096).decode(errors="replace")
            assert process.wait(60) == 0
            return seen
        finally:
            process.kill()
            process.wait()
            os.close(ours)

    return session


ONE_SWITCH = """\
from mininet.cli import CLI
from mininet.net import Mininet
from mininet.topo import SingleSwitchTopo

net = Mininet(SingleSwitchTopo(2), waitConnected=True)
net.start()
CLI(net)
net.stop()
print("the script went on")
"""
RING = """\
from mininet.topo import Topo
from sizes import DEFAULT


class Row(Topo):
    def build(self, n=DEFAULT):
        for number in range(1, n + 1):
            self.addLink(self.addHost(f"h{number}"), self.addSwitch(f"s{number}"))
            if number > 1:
                self.addLink(f"s{number - 1}", f"s{number}")


topos = {"row": Row, "pair": lambda: Row(2)}
"""


def test_a_scripts_command_line_is_in_the_users_terminal(typed: Typed, tmp_path: Path) -> None:
    path = tmp_path / "one_switch.py"
    path.write_text(ONE_SWITCH)
    seen = typed(f"{path}", [("mininet> ", "h1 ping -c 1 h2\n"), ("mininet> ", "exit\n")])
    assert "1 packets transmitted, 1 received" in seen
    assert "the script went on" in seen


def test_a_topology_of_a_file_has_a_command_line_with_its_arguments(typed: Typed, tmp_path: Path) -> None:
    path = tmp_path / "rows.py"
    path.write_text(RING)
    (tmp_path / "sizes.py").write_text("DEFAULT = 3\n")
    seen = typed(f"{path}:row,4", [("mininet> ", "h1 ping -c 1 h4\n"), ("mininet> ", "exit\n")])
    assert "*** rows.py:row,4: 4 hosts, 4 switches" in seen
    assert "1 packets transmitted, 1 received" in seen
