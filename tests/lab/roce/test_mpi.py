"""UCX and OpenMPI over the kernel's Soft-RoCE, by the GID of either IP version."""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.roce._verbs import printed
from testbed.lab import Run, experiment

if TYPE_CHECKING:
    from tests.lab.conftest import Runner

RANK = """from mpi4py import MPI
ours, sums = MPI.COMM_WORLD.rank + 1, bytearray(100_000)
begun = MPI.Wtime()
for _ in range(3):
    MPI.COMM_WORLD.Allreduce([bytes([ours] * 100_000), MPI.BYTE], [sums, MPI.BYTE])
print(1000 * (MPI.Wtime() - begun) / 3, set(sums))
"""
GIDS = {4: 1, 6: 2}
"""The GIDs of a host's addresses."""
LOSSLESS, DSCP = 3, 26
"""Those of UCX."""


def over(frames: list[bytes], ip_version: int) -> list[bytes]:
    """Return the RoCE frames of an IP version."""
    if ip_version == 6:
        return [one for one in frames if one[12:14] == b"\x86\xdd" and one[20] == 17 and one[56:58] == b"\x12\xb7"]
    return [one for one in frames if one[12:14] == b"\x08\0" and one[23] == 17 and one[36:38] == b"\x12\xb7"]


def dscps(frames: list[bytes], ip_version: int) -> set[int]:
    return {(int.from_bytes(one[14:16]) >> 4 & 0xFC if ip_version == 6 else one[15]) >> 2 for one in frames}


def claim_frames(run: Run, what: str, frames: list[bytes], ip_version: int, least: int) -> None:
    found, other = over(frames, ip_version), over(frames, 10 - ip_version)
    run.claim(f"{what}: RoCE frames of IPv{ip_version}", len(found), at_least=least)
    run.claim(f"{what}: RoCE frames of the other version", len(other), equals=0)
    run.claim(f"{what}: DSCPs", sorted(dscps(found, ip_version)), equals=[DSCP])


@experiment(debs=["openmpi-bin"], timeout="60s")
def mpi(run: Run) -> None:
    """Four hosts sum 100 kB by OpenMPI three times, which sends by UCX over one IP version and then over the other."""
    from xoff import Incast, Tap, network

    settings = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "UCX_TLS": "rc,ud,self",
    }  # fmt: skip
    with network(Incast(3, rate="100Gb/s", xoff=150, rdma=True, ipv6=True)) as net:
        Path("rank.py").write_text(RANK)
        nodes = "".join(f"{host.IP()}) pid={host.pid} XOFF_HOST={host.name} ;;\n" for host in net.hosts)
        Path("rsh").write_text(f'#!/bin/sh\ncase $1 in\n{nodes}esac\nshift\nexec mnexec -a $pid sh -c "$*"\n')
        Path("rsh").chmod(0o755)
        hosts = ",".join(host.IP() for host in net.hosts)
        command = f"mpirun --mca pml ucx --mca plm_rsh_agent {Path('rsh').resolve()} -H {hosts} python3 rank.py"
        for ip_version, gid in GIDS.items():
            environment = {**os.environ, **settings, "UCX_IB_GID_INDEX": str(gid)}
            with Tap(net["r"], "r-eth0") as tap, run.measuring():
                first: subprocess.Popen[bytes] = net.hosts[0].popen(command.split(), env=environment)
                said = printed(first)
                frames = list(tap.frames())
            what = f"OpenMPI over IPv{ip_version}"
            claim_frames(run, what, frames, ip_version, 100)
            run.figure(f"{what}: ms for a sum", [float(line.split()[0]) for line in said.splitlines()])
            run.claim(f"{what}: sums", [line.split(maxsplit=1)[1] for line in said.splitlines()], equals=["{10}"] * 4)
        dropped = sum(sum(net.fabric.group(net.port("s1", host.name), LOSSLESS).dropped_frames) for host in net.hosts)
        run.claim("frames dropped", dropped, equals=0)


@experiment(debs=["ucx-utils"], timeout="60s")
def ucx(run: Run) -> None:
    """`ucx_perftest` between two hosts over either IP version: latency of tagged messages, and bandwidth of puts."""
    from xoff import Incast, Tap, network

    def started(host: Any, command: str, ip_version: int) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "UCX_TLS": "rc,ud", "UCX_IB_GID_INDEX": str(GIDS[ip_version])}
        process: subprocess.Popen[bytes] = host.popen(command.split(), env=environment, stderr=subprocess.STDOUT)
        return process

    with network(Incast(1, rate="100Gb/s", xoff=150, rdma=True, ipv6=True)) as net:
        h1, r = net.hosts
        tests = (("tag_lat", 64, 50), ("ucp_put_bw", 65536, 12))
        for ip_version, (test, size, count) in itertools.product(GIDS, tests):
            what = f"{test} over IPv{ip_version}"
            command = f"ucx_perftest -t {test} -s {size} -n {count} -w 2"
            with Tap(r, "r-eth0") as tap, run.measuring():
                server = started(r, command, ip_version)
                time.sleep(0.01)
                said = printed(started(h1, f"{command} {r.IP()}", ip_version))
                server.wait(timeout=20)
                frames = list(tap.frames())
            claim_frames(run, what, frames, ip_version, count)
            run.figure(f"{what}: its last row", said.splitlines()[-1].split()[1:])


def test_openmpi_sums_over_either_ip_version_and_two_runs_are_the_same(run: Runner) -> None:
    first, second = (run(mpi).check() for _ in range(2))
    assert first.digest == second.digest


def test_ucx_measures_over_either_ip_version_and_two_runs_are_the_same(run: Runner) -> None:
    first, second = (run(ucx).check() for _ in range(2))
    assert first.digest == second.digest
