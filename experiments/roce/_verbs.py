"""Programs of perftest on two hosts at once. Not an experiment."""

import re
import subprocess
import time

from xoff import Network

_PORTS = ("18515", "18516")
"""The TCP ports by which the programs find each other."""


def write_bandwidths(net: Network, command: str) -> list[float]:
    """Return the MB/s that ib_write_bw prints on h1 and on h2, which write to r at once."""
    h1, h2, r = net.hosts
    servers = [r.popen([*command.split(), "-p", port]) for port in _PORTS]
    time.sleep(0.01)
    clients = [host.popen([*command.split(), "-p", port, r.IP()]) for host, port in zip((h1, h2), _PORTS, strict=True)]
    rows = [printed(client).splitlines()[-2] for client in clients]
    for server in servers:
        printed(server)
    return [float(re.findall(r"[\d.]+", row)[3]) for row in rows]


def printed(program: subprocess.Popen[bytes]) -> str:
    """Return what a program printed until its end, which has to be a good one."""
    text = program.communicate(timeout=20)[0].decode(errors="replace")
    if program.returncode:
        raise RuntimeError(f"{program.args!r} ended with {program.returncode}:\n{text}")
    return text
