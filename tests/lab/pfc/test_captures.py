"""PFC frames of the lab, read by an independent decoder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.lab import Run, experiment
from testbed.net.fabric.port import Buffer, Port
from testbed.switch.pfc.settings import PfcSettings

if TYPE_CHECKING:
    from tests.lab.conftest import Runner

MARKS = {"*": [("packages", "tshark")]}


LOSSLESS = frozenset({1, 2, 3})


@experiment(timeout="60s")
def pause_frames(run: Run) -> None:
    """Capture the frames of agents on the senders' cables: XOFF, refreshes, XON, several classes."""
    from testbed.net.build.network import network
    from testbed.net.shell.wire import capture
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    port = Port(pfc=PfcSettings(enabled=LOSSLESS, pause_quanta=2000))
    topo = Incast(2, scale=200, port=port, buffer=Buffer(total=1500, xon_offset=200))
    with network(topo, run, autoStaticArp=True) as net:
        *senders, target = net.hosts
        flows = [Flow(sender, target, priority, count=250) for sender in senders for priority in sorted(LOSSLESS)]
        with capture(senders[0], "h1-eth0", run.directory / "h1.pcap", "ether proto 0x8808"), Flows(flows) as running:
            running.wait()
        run.figure("source", str(net.fabric.port("s1-eth1").mac))
        states = net.fabric.snapshot("s1")["ports"]["s1-eth1"]["priorities"]
        for kind in ("xoff_sent", "xoff_refreshed", "xon_sent"):
            run.figure(kind, [state[kind] for state in states])
    run.claim("lost", sum(report.lost for report in running.reports), equals=0)


_CLASSES = range(8)


def test_tshark_reads_every_pfc_frame_to_the_same_values_without_a_warning(run: Runner) -> None:
    import pytest

    tshark = shutil.which("tshark")
    if tshark is None:
        pytest.skip("tshark is missing; it is the independent decoder of the captures")
    result = run(pause_frames).check()
    assert result.folder is not None
    rows = _read(tshark, result.folder / "h1.pcap")
    source = result.figure("source")
    told = {kind: [0] * 8 for kind in ("xoff", "xon")}
    for length, sender, opcode, enabled, *times, complaint in rows:
        assert (length, sender, int(opcode, 16), complaint) == ("60", source, 0x0101, "")
        mask = int(enabled, 16)
        for number in _CLASSES:
            quanta = int(times[number], 0)
            if mask >> number & 1:
                told["xoff" if quanta else "xon"][number] += 1
                assert quanta in (0, 2000)
            else:
                assert quanta == 0
    sent = [a + b for a, b in zip(result.figure("xoff_sent"), result.figure("xoff_refreshed"), strict=True)]
    assert told["xoff"] == sent, "each XOFF and refresh that the agent counted, and no other"
    assert told["xon"] == result.figure("xon_sent")
    assert all(sent[number] and told["xon"][number] for number in (1, 2, 3))
    assert sum(result.figure("xoff_refreshed")) > 0


def _read(tshark: str, file: Path) -> list[list[str]]:
    fields = ["frame.len", "eth.src", "macc.opcode", "macc.cbfc.enbv"]
    fields += [f"macc.cbfc.pause_time.c{number}" for number in _CLASSES] + ["_ws.expert.message"]
    command = [tshark, "-r", str(file), "-T", "fields", "-E", "separator=|"]
    done = subprocess.run(
        [*command, *[part for field in fields for part in ("-e", field)]], capture_output=True, text=True, check=True
    )
    rows = [line.split("|") for line in done.stdout.splitlines()]
    assert len(rows) > 10
    return rows
