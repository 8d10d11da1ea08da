"""Scripts of snappi in the lab: exact counts beside those of the switch, PFC, captures, and refusals."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from scapy.layers import l2
from scapy.layers.inet import UDP
from scapy.utils import PcapReader

from testbed.experiment import definition
from testbed.frames.capture_file import frames
from testbed.lab.results.result import Result, Status
from tests.unit.frames.tshark import TSHARK

from ..conftest import ROOT, Output, Runner

pytestmark = pytest.mark.engines("um")
SCRIPT = """
import sys
import time
import snappi

api = snappi.api(location="https://nowhere", verify=False, ext="ixnetwork")
config = api.config()
config.ports.port(name="a", location="10.0.0.1;1;1").port(name="b")
flow = config.flows.flow(name="f")[-1]
flow.tx_rx.port.tx_name = "a"
flow.packet.ethernet()[-1].src.value = "02:00:00:00:00:11"
flow.duration.fixed_packets.packets = 20
api.set_config(config)
state = api.transmit_state()
state.state = state.START
api.set_transmit_state(state)
begin = time.time()
time.sleep(30)
request = api.metrics_request()
request.port.port_names = ["b"]
request.port.column_names = ["frames_rx"]
(metric,) = api.get_metrics(request).port_metrics
print("frames", metric.frames_rx, "seconds", round(time.time() - begin), "arguments", len(sys.argv))
"""


def passed(result: Result) -> Result:
    assert result.status is Status.OK, result.reason
    assert result.passed, [claim for claim in result.claims if not claim.passed]
    return result


def test_metrics_agree_with_the_counters_of_the_switch_frame_by_frame(run: Runner) -> None:
    first, again = passed(run("generator:counts")), passed(run("generator:counts"))
    assert first.digest == again.digest


@pytest.mark.parametrize("ip_version", [4, 6])
def test_queue_pairs_agree_with_the_counters_of_the_switch_frame_by_frame(run: Runner, ip_version: int) -> None:
    passed(run("rocev2_ports:counts", ip_version=ip_version))


def test_queue_pairs_slow_down_by_the_options_of_their_ports(run: Runner) -> None:
    slow, fast = (passed(run("rocev2_ports:slows_down", dcqcn=on)).figure("sent") for on in (True, False))
    assert slow < fast / 2


def test_ports_that_obey_pfc_lose_nothing(run: Runner) -> None:
    found = passed(run("generator:pauses"))
    assert found.figure("pauses") > 0
    assert (found.figure("sent"), found.figure("lost"), found.figure("dropped by the switch")) == (6000, 0, 0)


@pytest.mark.parametrize("changed", [{"obeys": False}, {"delay": 65535}, {"paused": False}], ids=str)
def test_ports_that_do_not_obey_or_too_late_lose_what_the_switch_drops(run: Runner, changed: dict[str, object]) -> None:
    found = passed(run("generator:pauses", **changed))
    assert found.figure("lost") == found.figure("dropped by the switch") > 0
    assert (found.figure("pauses") > 0) == changed.get("paused", True)


@pytest.mark.parametrize("quanta", [2_000, 10_000])
def test_a_pause_that_a_test_port_sends_lasts_as_long_as_its_quanta(run: Runner, quanta: int) -> None:
    """Check the length of the pause, and its capture, which other programs read and which has the FCS."""
    result = passed(run("generator:one_pause", quanta=quanta))
    assert quanta * 5120 <= result.figure("longest gap") <= quanta * 5120 + 200_000
    assert result.folder is not None
    path = result.folder / "p2.pcap"
    with path.open("rb") as file:
        sizes = {(frame.length, len(frame.octets)) for frame in frames(file)}
    assert sizes == {(1000, 1000)}
    with PcapReader(str(path)) as reader:
        assert sum(isinstance(packet, l2.Ether) and packet.haslayer(UDP) for packet in reader) == 1000
    if TSHARK:
        fields = ["-T", "fields", "-e", "udp.dstport", "-e", "eth.fcs.status", "-o", "eth.check_fcs:TRUE"]
        done = subprocess.run([TSHARK, "-r", path, *fields], capture_output=True, text=True, check=True)
        assert len(done.stdout.splitlines()) == 1000


def test_states_changes_and_refusals(run: Runner) -> None:
    passed(run("generator:states"))


def test_devices_resolve_addresses_and_send_to_each_other(run: Runner) -> None:
    passed(run("generator:devices"))


@pytest.mark.parametrize("size", [64, 9216])
def test_a_line_is_full_with_the_smallest_and_the_largest_frames(run: Runner, size: int) -> None:
    found = passed(run("generator:line_rate", size=size))
    assert abs(found.figure("more than the line takes")) < 100_000


def test_a_script_runs_unchanged_and_its_sleep_is_virtual(run: Runner, output: Output, tmp_path: Path) -> None:
    path = tmp_path / "my-script.py"
    path.write_text(SCRIPT)
    result = passed(run(definition.load_file(path)))
    assert b"frames 20 seconds 30 arguments 1" in output.out
    assert result.times.wall_s < 30 < result.times.virtual_ns / 1e9


def test_the_module_within_snappi_is_the_labs_too(run: Runner, output: Output, tmp_path: Path) -> None:
    path = tmp_path / "inner.py"
    path.write_text(
        "from snappi import snappi\n\napi = snappi.api(location='https://nowhere')\nconfig = api.config()\n"
        "config.ports.port(name='a')\napi.set_config(config)\nprint('ports', len(api.get_config().ports))\n"
    )
    passed(run(definition.load_file(path)))
    assert b"ports 1" in output.out


def test_the_example_of_the_documentation_holds(run: Runner, output: Output) -> None:
    passed(run(definition.load_file(ROOT / "docs" / "examples" / "snappi_pfc.py")))
    assert b"paused: 0 frames/s" in output.out


def test_a_script_on_a_topology_uses_its_hosts_by_name(run: Runner, output: Output, tmp_path: Path) -> None:
    path = tmp_path / "named.py"
    path.write_text(SCRIPT.replace("10.0.0.1;1;1", "r").replace('name="b"', 'name="b", location="h1"'))
    passed(run(definition.load_file(path), topology="incast,2"))
    assert b"frames 20" in output.out


LOOKS = """
warnings = api.set_config(config).warnings
print("warned", len(warnings), *warnings)
"""


def test_a_cable_alone_carries_what_a_switch_does_not(run: Runner, output: Output, tmp_path: Path) -> None:
    """Frames without a source arrive over a cable; with a switch a warning says that they do not."""
    path = tmp_path / "no-source.py"
    no_source = SCRIPT.replace('.src.value = "02:00:00:00:00:11"', '.dst.value = "02:00:00:00:00:12"')
    text = no_source.replace("\napi.set_config(config)\n", LOOKS)
    assert LOOKS in text
    path.write_text(text)
    passed(run(definition.load_file(path), topology="back-to-back"))
    assert b"warned 0\n" in output.out and b"frames 20" in output.out
    passed(run(definition.load_file(path)))
    warning = b"flows have frames that no switch forwards, as their source is no station: f (00:00:00:00:00:00)"
    assert b"warned 1 " + warning in output.out and b"frames 0" in output.out
    assert b"warning: " + warning in output.err


def test_each_state_that_is_set_has_a_list_of_warnings(run: Runner, output: Output, tmp_path: Path) -> None:
    path = tmp_path / "counts.py"
    path.write_text(
        SCRIPT.replace("\napi.set_transmit_state(state)\n", "\nprint(api.set_transmit_state(state).warnings)\n")
    )
    passed(run(definition.load_file(path)))
    assert b"[]\n" in output.out


@pytest.mark.parametrize(
    ("replaced", "reason"),
    [
        (('location="10.0.0.1;1;1"', 'location="s1-eth1"'), "no port of a host"),
        (("api.set_transmit_state(state)", "raise SystemExit(3)"), "exit code 3"),
        (("print(", "assert metric.frames_rx == 21; print("), "AssertionError"),
    ],
)
def test_a_script_that_fails_is_a_run_that_fails(
    run: Runner, tmp_path: Path, replaced: tuple[str, str], reason: str, output: Output
) -> None:
    path = tmp_path / "failing.py"
    path.write_text(SCRIPT.replace(*replaced))
    result = run(definition.load_file(path), topology="incast,2")
    assert result.status is Status.ERROR
    assert reason in result.reason + output.err.decode()


def test_pytest_runs_a_file_of_tests_with_its_fixtures(run: Runner, output: Output, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import pytest\nimport snappi\n\n\n@pytest.fixture\ndef api():\n    return snappi.api(location='x')\n"
    )
    path = tmp_path / "test_two.py"
    path.write_text(
        "def test_ports(api):\n    config = api.config()\n    config.ports.port(name='p')\n    api.set_config(config)\n"
        "    assert [one.name for one in api.get_config().ports] == ['p']\n\n\ndef test_fails():\n    assert 1 == 2\n"
    )
    result = run(definition.load_file(path))
    assert result.status is Status.ERROR and "pytest ended with exit code 1 (tests failed)" in result.reason
    assert b"1 failed, 1 passed" in output.out


MAIN = "\n\nif __name__ == '__main__':\n    pytest.main(['-p', 'no:cacheprovider', '-q', __file__])\n"


@pytest.mark.parametrize("main", ["", MAIN], ids=["none", "pytest.main"])
def test_what_the_tests_of_a_script_say_is_what_its_run_says(
    run: Runner, output: Output, tmp_path: Path, main: str
) -> None:
    """A part for `__main__` that does not look at what `pytest.main` returns makes no green run of failed tests."""
    path = tmp_path / "test_of_a_class.py"
    path.write_text(
        "import pytest\nimport snappi\n\n\nclass TestPorts:\n    def test_none(self):\n"
        "        assert snappi.api().get_config().ports[0]\n" + main
    )
    result = run(definition.load_file(path))
    assert result.status is Status.ERROR and "pytest ended with exit code 1 (tests failed)" in result.reason
    assert b"1 failed" in output.out
