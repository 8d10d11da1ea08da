"""Traffic between two hosts of a network, measured at its ends. Only the lab can import this."""

from __future__ import annotations

import multiprocessing
import re
import time
from dataclasses import dataclass
from typing import Any

from testbed.errors import XoffError
from testbed.linux import kernel
from testbed.net.fabric import Fabric
from testbed.units import Duration, Rate

_ONE_PING = Duration("1s")


class TrafficError(XoffError):
    """Traffic that did not come about."""


@dataclass(frozen=True)
class Flow:
    """What the receiver of a TCP flow saw."""

    goodput: Rate
    retransmits: int


def ping(source: Any, target: Any, wait: Duration | None = None) -> Duration:
    """The round trip of one ping; from then on both know the way, and all between them. TrafficError: no answer.

    By default it waits as long as the lossless cables of the network need if each is crossed a dozen times: hop by hop,
    the kernels look for their neighbours' addresses first, and give up sooner than a long cable has an answer.
    """
    patience = wait or _ONE_PING + _ways(Fabric.running()) * 12
    deadline = time.monotonic() + patience.ns / 1e9
    said = "none"
    while (left := deadline - time.monotonic()) > 0:
        found, said = _ping(source, target, left)
        if found is not None:
            return found
    address = Fabric.current().node(target).IP()
    raise TrafficError(f"{source} gets no answer from {target} ({address}) within {patience}: {said}")


def probe(source: Any, target: Any, wait: Duration | None = None) -> Duration | None:
    """The round trip of one ping; None if there was no answer within a second, or `wait`."""
    return _ping(source, target, (wait or _ONE_PING).ns / 1e9)[0]


def _ping(source: Any, target: Any, seconds: float) -> tuple[Duration | None, str]:
    source, target = Fabric.current().node(source), Fabric.current().node(target)
    answer = source.cmd("ping", "-c", "1", "-W", f"{max(seconds, 0.001):.3f}", target.IP())
    found = re.search(r"time=([0-9.]+) ms", answer)
    said = " ".join(line for line in answer.split("\n")[1:] if line.strip()).strip()
    return Duration(f"{found[1]}ms") if found else None, said


def _ways(fabric: Fabric | None) -> Duration:
    """The delay of all cables together: no way in the network is longer."""
    ports = fabric.ports.values() if fabric else ()
    return sum((port.cable.delay for port in ports if not port.slot & 1), Duration("0s"))


def iperf3(source: Any, target: Any, duration: Duration | str) -> Flow:
    """A TCP flow by iperf3's library, with its client at `source` and its server at `target`."""
    source, target, duration = Fabric.current().node(source), Fabric.current().node(target), Duration(duration)
    seconds = duration // Duration("1s")
    if not seconds or duration != Duration("1s") * seconds:
        raise TrafficError(f"iperf3 measures whole seconds, not {duration}")
    server, _ = _in_network_of(target, _serve)
    try:
        client, answers = _in_network_of(source, _request, target.IP(), seconds)
        report = answers.recv()
        client.join()
    finally:
        server.kill()
        server.join()
    if "error" in report:
        raise TrafficError(f"iperf3 from {source} to {target}: {report['error']}")
    end = report["end"]
    return Flow(
        goodput=Rate.from_bps(int(end["sum_received"]["bits_per_second"])),
        retransmits=int(end["sum_sent"]["retransmits"]),
    )


def _in_network_of(node: Any, work: Any, *arguments: Any) -> tuple[Any, Any]:
    """Fork a process into the network namespace of `node`; what it sends can be received."""
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)

    def body() -> None:
        kernel.enter_network_of(node.pid)
        work(writer, *arguments)

    process = context.Process(target=body)
    process.start()
    writer.close()
    return process, reader


def _serve(_: Any) -> None:
    import iperf3 as library

    server = library.Server()
    server.json_output = True
    server.run()


def _request(answer: Any, address: str, seconds: int) -> None:
    import iperf3 as library

    for _ in range(100):  # the server needs a moment until it listens
        client = library.Client()
        client.server_hostname = address
        client.duration = seconds
        result = client.run()
        report = dict(result.json)
        if "unable to connect" not in report.get("error", ""):
            break
        time.sleep(0.01)
    answer.send(report)
