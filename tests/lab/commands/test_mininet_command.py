"""Mininet's own command and command line with Xoff in them, as in the docs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.lab import Run, experiment

if TYPE_CHECKING:
    from tests.lab.conftest import Runner


_LOSSLESS = ["--link", "lossless", "--switch", "lossless"]


def _root() -> Path:
    import testbed

    return Path(testbed.__path__[0]).parent


def _mn(*arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["mn", "--custom", "testbed/mn.py", *arguments],
        cwd=_root(),
        input=typed,
        text=True,
        capture_output=True,
        check=False,
    )
    print(done.stdout, done.stderr, sep="", file=sys.stdout)
    return done


@experiment(_in_lab_time=True, timeout="120s")
def lossless_test(run: Run) -> None:
    """Run the command of the docs: an incast of four that has to pause its senders."""
    done = _mn("--topo", "incast,4", *_LOSSLESS, "--test", "lossless")
    said = done.stdout + done.stderr
    run.figure("code", done.returncode)
    run.figure("said", said[-20_000:])


@experiment(_in_lab_time=True, timeout="120s")
def commands(run: Run, topo: str = "incast,2", typed: str = "") -> None:
    """Type commands into Mininet's command line."""
    done = _mn("--topo", topo, *_LOSSLESS, typed=typed.replace(";", "\n") + "\nexit\n")
    run.figure("code", done.returncode)
    run.figure("said", (done.stdout + done.stderr)[-20_000:])
    run.figure("namespaces left", sum(map(_is_mininet, Path("/proc").glob("[0-9]*/cmdline"))))


def _is_mininet(command_line: Path) -> bool:
    try:
        return b"mininet:" in command_line.read_bytes()
    except OSError:
        return False


def _own() -> Any:
    from testbed.net.build.topo import LosslessTopo

    class Own(LosslessTopo):
        """Two hosts and a switch with options for each."""

        def build(
            self,
            link: Mapping[str, Any] | None = None,
            switch: Mapping[str, Any] | None = None,
            host: Mapping[str, Any] | None = None,
        ) -> None:
            self.addSwitch("s1", **(switch or {}))
            for name in ("h1", "h2"):
                self.addLink(self.addHost(name, **(host or {})), "s1", **(link or {}))

    return Own


@experiment(_in_lab_time=True)
def mistakes(run: Run) -> None:
    """Record the message for each mistake."""
    from testbed.net.build.network import network

    own = _own()
    said = {
        "link": _said(lambda: own(link={"cabel": 1})),
        "settings": _said(lambda: own(link={"setings2": 1})),
        "switch": _said(lambda: own(switch={"bufer": 1})),
        "host": _said(lambda: own(host={"prot": 1})),
        "topology": _said(lambda: own(scael=1)),
        "mininet": _said(lambda: own(link={"jitter": "1ms"})),
    }
    with network(own()) as net:
        said["running node"] = _said(lambda: net["leaf"])
        said["running port"] = _said(lambda: net.fabric.port("s1-eth9"))
        said["priority"] = _said(lambda: net.fabric.pfc("s1-eth1", 9))
    run.figure("said", said)


@experiment(_in_lab_time=True)
def cable(run: Run) -> None:
    """Describe a cable in Mininet's words, at a scale of 1000: about a tenth is lost, and the rest is late."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows

    with network(_own()(link={"bw": 10_000, "delay": "5us", "loss": 10}), autoStaticArp=True) as net:
        run.figure("cable", str(net.fabric.port("h1-eth0").cable))
        with Flows([Flow("h1", "h2", rate="2Mb/s", count=200)]) as flows:
            flows.wait()
        report = flows.reports[0]
        run.claim("lost on two cables", report.lost, at_least=15, at_most=70)
        run.claim("longest way in ns", report.worst_delay_lab_ns, at_least=10_000_000)


def _said(call: Callable[[], object]) -> str:
    from testbed.errors import UsageError

    try:
        call()
    except UsageError as error:
        return str(error)
    return "nothing"


_NUMBERS = re.compile(r"(\d+) senders, (\d+) frames sent, (\d+) received, (\d+) dropped")


def test_the_lossless_test_pauses_senders_and_loses_nothing(run: Runner) -> None:
    result = run(lossless_test)
    said = result.figure("said")
    assert result.figure("code") == 0, said
    found = _NUMBERS.search(said)
    assert found, said
    senders, sent, received, dropped = map(int, found.groups())
    assert (senders, sent, received, dropped) == (4, 2400, 2400, 0)
    first = next(line.split() for line in said.splitlines() if line.startswith("h1-eth0"))
    assert int(first[5]) >= 1, "the senders were paused"


def test_the_command_line_shows_pauses_buffers_ecn_and_settings(run: Runner) -> None:
    result = run(commands, typed="h1 ping -c 1 r;pfc h1;buffers s1;ecn;dcbx s1-eth1;pfc s9;help pfc")
    said = result.figure("said")
    assert result.figure("code") == 0
    assert "1 received, 0% packet loss" in said
    assert re.search(r"^h1-eth0 +3 +on ", said.replace("mininet> ", ""), re.MULTILINE)
    assert "s1: cells of 208 B" in said and re.search(r"s1-eth2 +3 +lossless", said)
    assert "no queue has ECN" in said
    assert re.search(r"s1-eth1 +h1-eth0 +10Gb/s +3 +same +dscp +equal", said)
    assert "*** pfc: there is no node s9 in this network; " in said
    assert "pfc [NODE|PORT] [--watch [SECONDS]] [--json]" in said


def test_an_unknown_option_of_a_topology_is_one_clear_line_and_leaves_nothing(run: Runner) -> None:
    result = run(commands, topo="incast,2,rate=10Gbs")
    assert result.figure("code") != 0 or "10Gbs" in result.figure("said")
    assert "10Gbs" in result.figure("said")
    assert result.figure("namespaces left") == 0


def typed(run: Runner, *lines: str, topo: str = "incast,2") -> str:
    result = run(commands, topo=topo, typed=";".join(lines))
    assert result.figure("code") == 0
    assert result.figure("namespaces left") == 0
    said: str = result.figure("said")
    assert "Traceback" not in said
    return said


def test_traffic_is_counted_at_both_ends_and_counters_start_anew(run: Runner) -> None:
    said = typed(
        run,
        "traffic h1,h2 r count=600",
        "pfc h1-eth0 --json",
        "clear",
        "pfc h1-eth0 --json",
        "buffers s1 --json",
        "traffic h1 r rate=2Gb/s &",
        "traffic",
        "traffic stop",
        "traffic h1 h77",
        "traffic h1 r fro=1s",
        "traffic h1 r priority=9",
        "traffic h1",
    )
    assert re.search(r"h1 +r +3 +600 +600 +0 +0 ", said) and re.search(r"h2 +r +3 +600 +600 +0 +0 ", said)
    before, after = (json.loads(line) for line in re.findall(r'\{"h1-eth0": .*\}', said))
    assert before["h1-eth0"]["priorities"][3]["xoff_received"] > 0
    assert after["h1-eth0"]["priorities"][3]["xoff_received"] == 0
    assert after["h1-eth0"]["priorities"][3]["enabled"] is True
    group = json.loads(re.findall(r'\{"s1": .*\}', said)[0])["s1"]["groups"]["s1-eth1 3"]
    assert (group["admitted_frames"], group["lossless"]) == (0, True)
    assert group["most"]["shared"] > 0, "what was used at most stays"
    assert "*** traffic: there is no node h77 in this network; " in said
    assert "*** traffic: there is no option fro; did you mean for?" in said
    assert "priority is 9; 0 to 7 is expected" in said
    assert "*** traffic: a source and a target are expected" in said


def test_iperf_does_not_wait_for_a_program_that_is_not_there(run: Runner) -> None:
    said = typed(run, "iperf h1 r", "iperfudp", "iperf h1 zz")
    assert re.search(r"h1 -> r: [0-9.]+Gb/s of TCP over 1ms, \d+ retransmitted", said)
    assert "*** iperfudp: UDP flows are sent by: traffic" in said
    assert "*** iperf: there is no node zz" in said


def test_a_capture_has_the_pause_frames(run: Runner) -> None:
    result = run(
        commands,
        typed="capture s1-eth1 /xoff/work/out/p.pcap ether proto 0x8808;capture;traffic h1,h2 r count=600;capture stop;"
        "capture s9",
    )
    assert "s1-eth1 -> /xoff/work/out/p.pcap" in result.figure("said")
    assert "*** capture: there is no lossless port s9" in result.figure("said")
    assert result.folder is not None
    assert (result.folder / "p.pcap").stat().st_size > 24 + 76, "more than the file's own header"


def test_wan_shows_tunnels_and_what_filters_dropped(run: Runner) -> None:
    said = typed(run, "wan", "wan r1 --json", "wan r2", "pfc --wach", topo="srv6-wan,1")
    assert re.search(r"r1 +r3 .*", said)
    assert '"filtered"' in said and "*** wan: r2 has no End.X.PFC" in said
    assert "*** pfc: there is no option --wach; did you mean --watch?" in said
    assert "*** wan: this" not in said


def test_mininets_own_command_runs_beside_a_network_and_leaves_it_alone(run: Runner) -> None:
    """Mininet that fails kills all processes that are named like its nodes; it once killed the shell's network, too."""
    said = typed(
        run,
        "sh mn --custom testbed/mn.py --topo incast,2 --link lossless --switch lossless --test lossless",
        "mn --topo nosuch",
        "h1 ping -c 1 h2",
    )
    assert "*** lossless: 2 senders, 1200 frames sent, 1200 received, 0 dropped" in said
    assert "Invalid topo name nosuch" in said
    assert "1 received, 0% packet loss" in said


def test_mistakes_in_options_and_names_are_one_line_each(run: Runner) -> None:
    """Each of them once was accepted without an effect, or ended in a traceback."""
    said = run(mistakes).figure("said")
    assert said == {
        "link": "addLink(h1, s1): there is no option cabel; did you mean cable?",
        "settings": "addLink(h1, s1): there is no option setings2; did you mean settings2?",
        "switch": "addSwitch(s1): there is no option bufer; did you mean buffer?",
        "host": "addHost(h1): there is no option prot; did you mean port?",
        "topology": "Own: there is no option scael; did you mean scale?",
        "mininet": "addLink(h1, s1): jitter is not an option of lossless networks: "
        "a cable has one delay for all frames",
        "running node": "there is no node leaf in this network; there are h1, h2, s1",
        "running port": "there is no lossless port s1-eth9; did you mean s1-eth2?",
        "priority": "priority 9 does not exist; there are 0 to 7",
    }


def test_a_cable_in_mininets_words_is_that_cable(run: Runner) -> None:
    result = run(cable).check()
    assert result.figure("cable") == "10Mb/s over 5ms, losing 1/10 of the frames"
