"""Traffic between two hosts of a network, measured at its ends. Only the lab can import this."""

from __future__ import annotations

import multiprocessing
import re
import time
from dataclasses import dataclass
from typing import Any

from testbed.errors import XoffError
from testbed.linux import kernel
from testbed.units import Duration, Rate


class TrafficError(XoffError):
    """Traffic that did not come about."""


@dataclass(frozen=True)
class Flow:
    """What the receiver of a TCP flow saw."""

    goodput: Rate
    retransmits: int


def ping(source: Any, target: Any) -> Duration | None:
    """The round trip of one ping; None if there was no answer."""
    answer = source.cmd("ping", "-c", "1", "-W", "1", target.IP())
    found = re.search(r"time=([0-9.]+) ms", answer)
    return Duration(f"{found[1]}ms") if found else None


def iperf3(source: Any, target: Any, duration: Duration) -> Flow:
    """A TCP flow by iperf3's library, with its client at `source` and its server at `target`."""
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
