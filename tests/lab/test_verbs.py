"""Programs that use verbs, over the kernel's Soft-RoCE: perftest and rping, between hosts with `rdma=True`."""

from __future__ import annotations

import re
import subprocess
import time
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed import lab
from testbed.frames import roce
from testbed.lab import Run, experiment

if TYPE_CHECKING:
    from testbed.lab.engines.engine import PreparedEngine
    from tests.lab.conftest import Runner

LOSSLESS = 3
ROCE = b"\x12\xb7"
"""UDP port 4791."""
_BANDWIDTH = "ib_send_bw -F -x 1 --tclass=96 -s 65536 -n 12"


def started(node: Any, command: str) -> subprocess.Popen[bytes]:
    process: subprocess.Popen[bytes] = node.popen(command.split(), stderr=subprocess.STDOUT)
    return process


def printed(process: subprocess.Popen[bytes]) -> str:
    """Return what a program printed until its end, which has to be a good one."""
    text = process.communicate(timeout=20)[0].decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{process.args!r} ended with {process.returncode}:\n{text}")
    return text


def last_row(text: str) -> list[float]:
    """Return the numbers of the row that perftest prints at its end."""
    return [float(word) for word in re.findall(r"[\d.]+", text.strip().rstrip("-").strip().splitlines()[-1])]


def has_right_icrc(frame: bytes) -> bool:
    """Check the ICRC of a RoCEv2 frame over IPv4 as Xoff's own RoCE does, which takes identification 0."""
    source, destination = (str(IPv4Address(frame[place : place + 4])) for place in (26, 30))
    return roce.Path(source, destination, int.from_bytes(frame[34:36])).intact(frame[42:])


@experiment(debs=["perftest"], timeout="30s")
def verbs(run: Run) -> None:
    """Two senders share a line, one measures latency, and one talks by the connection manager."""
    from testbed.net.build.network import network
    from testbed.net.shell.wire import Tap
    from topologies.incast import Incast

    places = Path("/sys/class/infiniband"), Path("/dev/infiniband")
    before = [sorted(each.name for each in place.iterdir()) for place in places]
    with network(Incast(2, rate="100Gb/s", xoff=150, rdma=True), run) as net:
        h1, h2, r = net.hosts
        run.claim("devices that h1 sees", h1.cmd(f"ls {places[0]}").split(), equals=["rxe-h1-eth0"])
        with Tap(r, "r-eth0") as tap, run.measuring():
            commands = [f"{_BANDWIDTH} -p {port}" for port in (18515, 18516)]
            servers = [started(r, command) for command in commands]
            time.sleep(0.01)
            clients = [started(host, f"{command} {r.IP()}") for host, command in zip((h1, h2), commands, strict=True)]
            for host, client in zip((h1, h2), clients, strict=True):
                rate = last_row(printed(client))[3]
                run.claim(f"{host.name}: payload in MB/s, half a line is 5.5", rate, at_least=5.2, at_most=5.8)
            for server in servers:
                printed(server)
            frames = [frame for frame in tap.frames() if frame[23] == 17 and frame[36:38] == ROCE]
        run.figure("RoCE frames", len(frames))
        run.claim("wrong ICRCs", sum(not has_right_icrc(frame) for frame in frames), equals=0)
        run.claim("DSCPs", sorted({frame[15] >> 2 for frame in frames}), equals=[24])
        run.claim("packets of 12 messages and each way", len(frames) >= 2 * 12 * 64, equals=True)
        paused = [net.fabric.pfc(net.port("s1", host.name), LOSSLESS)["xoff_sent"] for host in (h1, h2)]
        run.claim("senders that were paused", sum(map(bool, paused)), equals=2)
        dropped = [net.fabric.group(f"s1-eth{number}", LOSSLESS).dropped_frames for number in (1, 2)]
        run.claim("frames dropped", sum(map(sum, dropped)), equals=0)

        for program in ("send", "write"):  # the second looks at memory, and not for completions
            command = f"ib_{program}_lat -F -x 1 --tclass=96 -s 64 -n 20"
            server = started(r, command)
            time.sleep(0.01)
            latency = last_row(printed(started(h1, f"{command} {r.IP()}")))
            run.claim(f"{program}: typical latency in us of the lab", latency[4], at_least=5, at_most=50)
            printed(server)

        sent = net.fabric.sent("h1-eth0").sent_frames
        server = started(r, f"rping -s -C 5 -a {r.IP()}")
        time.sleep(0.01)
        printed(started(h1, f"rping -c -C 5 -a {r.IP()}"))
        printed(server)
        by_priority = [now - then for then, now in zip(sent, net.fabric.sent("h1-eth0").sent_frames, strict=True)]
        run.claim("priorities of rping with RoCE packets", by_priority[LOSSLESS] > 20, equals=True)
    after = [sorted(each.name for each in place.iterdir()) for place in places]
    run.claim("devices that are left", after, equals=before)


@experiment
def without_rdma(run: Run) -> None:
    """The namespace of hosts without `rdma=True`."""
    from testbed.net.build.network import network
    from topologies.incast import Incast

    with network(Incast(1), run) as net:
        run.claim("devices", net["h1"].cmd("ls /sys/class/infiniband").split(), equals=[])
        run.claim("library", net["h1"].cmd("echo ${LD_PRELOAD-none}").split(), equals=["none"])


def test_ib_write_bw_gets_half_a_line_with_pfc_and_loses_frames_without(ready: PreparedEngine, tmp_path: Path) -> None:
    lab.run("verbs_incast", on=ready, out=tmp_path).check()


def test_programs_with_verbs_share_a_line_without_a_loss(run: Runner) -> None:
    run(verbs).check()


def test_other_hosts_have_neither_device_nor_library(run: Runner) -> None:
    run(without_rdma).check()
