"""Programs that use verbs over TCP, on hosts with `rdma="siw"`: perftest and rping, by the connection manager."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.roce._verbs import printed
from testbed import lab
from testbed.errors import UsageError
from testbed.lab import Run, experiment
from testbed.net.fabric.port import Port
from testbed.net.traffic import Flow
from testbed.net.traffic.roce import RoceReport

if TYPE_CHECKING:
    from testbed.lab.engines.engine import PreparedEngine
    from tests.lab.conftest import Runner

LOSSLESS, OTHER = 3, 4
TCP = 6
BANDWIDTH = "-F -R -s 65536 -n 60"


def started(node: Any, command: str) -> subprocess.Popen[bytes]:
    process: subprocess.Popen[bytes] = node.popen(command.split(), stderr=subprocess.STDOUT)
    return process


def numbers_of(servers: list[Any], clients: list[Any], command: str, options: str = "") -> list[list[float]]:
    """Run a program of perftest between pairs of hosts at once; return the last row that each client prints."""
    ports = range(18515, 18515 + len(servers))
    serving = [started(host, f"{command} -p {port}") for host, port in zip(servers, ports, strict=True)]
    time.sleep(0.01)
    asking = [
        started(host, f"{command} {options} -p {port} {server.IP()}")
        for host, server, port in zip(clients, servers, ports, strict=True)
    ]
    rows = [printed(process).strip().rstrip("-").strip().splitlines()[-1] for process in asking]
    for process in serving:
        printed(process)
    return [[float(word) for word in re.findall(r"[\d.]+", row)] for row in rows]


@experiment(debs=["perftest"], timeout="60s")
def verbs_over_iwarp(run: Run) -> None:
    """Two hosts and one share a line by writes, sends and reads, with PFC; others measure latency, and rping talks."""
    from testbed.net.build.network import network
    from testbed.net.shell.wire import Tap
    from topologies.incast import Incast

    places = Path("/sys/class/infiniband"), Path("/dev/infiniband")
    before = [sorted(each.name for each in place.iterdir()) for place in places]
    with network(Incast(2, rate="100Gb/s", xoff=150, port=Port().with_pfc(LOSSLESS, OTHER), rdma="siw"), run) as net:
        h1, h2, r = net.hosts
        ends = [f"{host.name}-eth0" for host in net.hosts]
        switch = [net.port("s1", host.name) for host in net.hosts]
        run.claim("devices that h1 sees", h1.cmd(f"ls {places[0]}").split(), equals=["siw-h1-eth0"])

        def by_priority(port: str) -> list[int]:
            return list(net.fabric.sent(port).sent_frames)

        with run.measuring():
            pauses = 0
            for program, servers, clients in (
                ("write", [r, r], [h1, h2]),
                ("send", [r, r], [h1, h2]),
                ("read", [h1, h2], [r, r]),  # the data go to r, as with the others
            ):
                rows = numbers_of(servers, clients, f"ib_{program}_bw {BANDWIDTH}")
                for number, row in enumerate(rows, 1):
                    run.claim(
                        f"{program} {number}: payload in MB/s, half a line is 5.5", row[3], at_least=5.2, at_most=5.9
                    )
                counted = [net.fabric.pfc(port, LOSSLESS)["xoff_sent"] for port in switch[:2]]
                run.claim(f"{program}: pauses of both senders", sum(counted) - pauses, at_least=20)
                pauses = sum(counted)
        dropped = [net.fabric.group(port, priority).dropped_frames for port in switch for priority in range(8)]
        run.claim("frames dropped", sum(map(sum, dropped)), equals=0)
        others = [sum(sent) - sent[LOSSLESS] for sent in map(by_priority, ends)]
        run.claim("frames outside of the lossless priority", others, equals=[0, 0, 0])

        # Who accepts a connection has the type of service of who asked for it
        sent = by_priority("r-eth0")
        with Tap(h1, "h1-eth0") as tap:
            numbers_of([r], [h1], "ib_read_bw -F -R -s 65536 -n 5", f"-T {OTHER << 5}")
            frames = [frame for frame in tap.frames() if frame[23] == TCP and len(frame) > 1000]
        answers = by_priority("r-eth0")[OTHER] - sent[OTHER]
        run.claim("frames of an answer to a read with another type of service", answers, at_least=5 * 65536 // 1460)
        run.claim("DSCPs of its data", sorted({frame[15] >> 2 for frame in frames}), equals=[OTHER << 3])

        for program in ("send", "write", "read"):
            ((_, _, _, _, typical, *_),) = numbers_of([r], [h1], f"ib_{program}_lat -F -R -s 64 -n 20")
            run.claim(f"{program}: typical latency in us of the lab", typical, at_least=5, at_most=50)

        server = started(r, "rping -s -C 5")
        time.sleep(0.01)
        run.claim("sockets that listen at h1 when r does, on any address", h1.cmd("ss -Htln").split(), equals=[])
        sent = by_priority("h1-eth0")
        printed(started(h1, f"rping -c -C 5 -a {r.IP()}"))
        printed(server)
        run.claim(
            "frames of rping in the lossless priority", by_priority("h1-eth0")[LOSSLESS] - sent[LOSSLESS], at_least=20
        )
    after = [sorted(each.name for each in place.iterdir()) for place in places]
    run.claim("devices that are left", after, equals=before)


@experiment(debs=["perftest"], timeout="30s")
def beside_roce_flows(run: Run) -> None:
    """A host has programs with verbs over TCP and flows of RoCE at the same time; with Soft-RoCE these have no port."""
    from testbed.net.build.network import network
    from topologies.incast import Incast

    with network(Incast(2, rate="100Gb/s", xoff=150, port=Port().with_pfc(LOSSLESS, OTHER), rdma="siw"), run) as net:
        h1, _, r = net.hosts
        server = started(r, f"ib_write_bw {BANDWIDTH}")
        time.sleep(0.01)
        client = started(h1, f"ib_write_bw {BANDWIDTH} {r.IP()}")
        ways = (("h1", "r"), ("r", "h1"))
        flows = net.run(*[Flow(source, target, OTHER, transport="roce", count=40) for source, target in ways])
        run.claim("the program runs on when they are over", client.poll() is None, equals=True)
        for process in (client, server):
            printed(process)
        reports = flows.reports_of(RoceReport)
        run.claim("messages of RoCE, both ways", [one.messages for one in reports], equals=[40, 40])
        run.claim("RoCE packets sent again", [one.retransmitted for one in reports], equals=[0, 0])
    with network(Incast(1, rdma="fixed"), run) as net:
        try:
            net.run(Flow("h1", "r", LOSSLESS, transport="roce", count=1))
        except UsageError as error:
            refusal = str(error).split(";")[0]
        because = "flow 0: h1 has rdma='fixed', so the kernel's Soft-RoCE has port 4791 there"
        run.claim("why not with Soft-RoCE", refusal, equals=because)


def test_programs_with_verbs_over_tcp_share_a_line_without_a_loss(run: Runner) -> None:
    first, second = run(verbs_over_iwarp).check(), run(verbs_over_iwarp).check()
    assert first.digest == second.digest


def test_a_host_has_verbs_over_tcp_and_roce_flows(run: Runner) -> None:
    run(beside_roce_flows).check()


def test_verbs_over_tcp_survive_what_stops_roce(ready: PreparedEngine, tmp_path: Path) -> None:
    lab.run("verbs_over_tcp", on=ready, out=tmp_path).check()
