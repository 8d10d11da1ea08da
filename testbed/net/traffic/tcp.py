"""Transport `tcp`: a TCP connection by iperf3's library, with its client at the source. Only the lab can run it.

The source's end of the data connection has the flow's DSCP, and with it its priority, from its first octets of data on;
the target's end has it with `marks_replies`. Beside it is iperf3's control connection, which has DSCP 0 at the source.
A flow lasts whole seconds or transfers a size; it cannot be stopped before.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from ctypes import c_int, c_uint64, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.errors import UsageError
from testbed.net.traffic.flow import Flow, FlowError
from testbed.net.traffic.report import WIRE_OCTETS, Report
from testbed.net.traffic.transport import (
    Endpoint,
    EndpointControl,
    Outcome,
    Transport,
    check_version,
    more_octets,
    register,
    require_addresses,
    target_address,
)
from testbed.switch.ecn.field import Ecn
from testbed.units import Duration, Rate, Scale

CONGESTION_CONTROLS = ("cubic", "dctcp", "reno")
_FIRST_PORT = 5201
_SECOND = Duration("1s")
_SEGMENT = 1448
"""Octets of data in a full frame of 1514 over IPv4: TCP with time stamps."""
_WITH_ECN = ("dctcp",)
"""Congestion controls that need ECN."""
_ECN = Path("/proc/sys/net/ipv4/tcp_ecn")
_ASK, _ANSWER = "1", "2"
"""The values of that file: ask for ECN, or only agree to it, which is Linux's default."""
_CONNECT_TRIES, _CONNECT_PAUSE_S = 100, 0.01
_CONNECTIONS, _LOOK_S = 2, 0.0005
"""The number of connections between iperf3's server and a client, and the interval in s of looking for them."""


@dataclass(frozen=True)
class TcpReport(Report):
    """The report of a TCP flow, as iperf3 measured it: `sent` and `received` are octets of data, and nothing is lost.

    From `first_lab_ns` to `last_lab_ns` is all of iperf3's run, its control messages included.
    """

    retransmits: int = 0
    data_rate: Rate = Rate.from_bps(0)
    """The rate that iperf3 measured, which is the lab's."""

    @property
    def goodput(self) -> Rate:
        """Received data, without headers, over the time of the transfer."""
        return self.scale.real(self.data_rate)


@dataclass(frozen=True)
class Tcp(Transport):
    """A TCP connection; `Flow.rate_control` is the kernel's congestion control, by default cubic.

    With `marks_replies` the target's ACKs have the flow's DSCP, as they have between queue pairs of one service level;
    without, DSCP 0, as those of a server that sets none.
    """

    marks_replies: bool = False
    ip_version: int | None = None
    """4 or 6. None: 4 if both ends have an IPv4 address, else 6."""

    name = "tcp"

    def check(self, flow: Flow) -> None:
        check_version(self.ip_version)
        if flow.count is not None or (flow.duration is None) == (flow.size is None):
            raise UsageError("transport tcp needs a duration or a size, one of them, and has no count")
        if flow.duration is not None and not flow.duration.ps:
            raise UsageError("transport tcp needs a duration above 0s")
        if flow.frame.bytes != 1514:
            raise UsageError(f"frame is {flow.frame}; frames of transport tcp are 1514B")
        if flow.ecn is not None:
            raise UsageError("transport tcp has no ecn; its congestion control decides, and dctcp uses it")
        if flow.dscp == -1 and flow.priority:
            raise UsageError("transport tcp has its priority from its DSCP; dscp=-1 leaves none")
        if flow.rate_control not in (None, *CONGESTION_CONTROLS):
            expected = ", ".join(CONGESTION_CONTROLS)
            raise UsageError(f"rate_control is {flow.rate_control!r}; transport tcp has {expected}")

    def check_in_lab(self, flow: Flow, scale: Scale) -> None:
        if flow.duration is not None and flow.duration.ps % _SECOND.ps:
            real = scale.nearest_real(flow.duration)
            whole = f", here a multiple of {scale.nearest_real(_SECOND)}" if scale.k > 1 else ""
            raise UsageError(f"iperf3 measures whole seconds of the lab{whole}, not {real}")

    @classmethod
    def endpoints(cls, flows: Mapping[int, Flow]) -> Sequence[Endpoint]:
        """Return a server and a client for each flow."""
        for index, flow in flows.items():
            require_addresses(flow, index)
        servers = [_Server(flow.target, flows, (), [index]) for index, flow in flows.items()]
        return [*servers, *(_Client(flow.source, flows, [index], ()) for index, flow in flows.items())]

    def ds_field(self, flow: Flow) -> int:
        return flow.ds_field | (Ecn.ECT_0 if flow.rate_control in _WITH_ECN else Ecn.NOT_ECT)

    def report(self, flow: Flow, outcome: Outcome) -> TcpReport:
        if outcome.sender is None:
            raise FlowError(f"tcp from {flow.source} to {flow.target} did not end; give Flows a longer settle")
        first_ns, last_ns, end = outcome.sender
        octets = int(end["sum_received"]["bytes"])
        return TcpReport(
            sent=octets,
            received=octets,
            lost=0,
            doubled=0,
            out_of_order=0,
            ecn=(0,) * 4,
            octets=octets,
            first_lab_ns=first_ns,
            last_lab_ns=last_ns,
            worst_delay_lab_ns=0,
            windows=(),
            begin_lab_ns=outcome.begin_ns,
            retransmits=int(end["sum_sent"]["retransmits"]),
            data_rate=Rate.from_bps(int(end["sum_received"]["bits_per_second"])),
        )


class _Server(Endpoint):
    def run(self, session: EndpointControl) -> None:
        import iperf3

        (index,) = self.receives
        server = iperf3.Server()
        server.port = _FIRST_PORT + index
        server.json_output = True
        flow = self.flows[index]
        if isinstance(flow.transport, Tcp) and flow.transport.marks_replies:
            # Only for its first milliseconds has the process two threads.
            threading.Thread(target=_mark_replies, args=(server.port, flow.ds_field), daemon=True).start()
        session.ready()
        session.received({index: None})  # the client has the server's figures too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # The wrapper's own run() has a second thread, and on `um` each system call of several threads takes a signal.
        server.lib.iperf_run_server(c_void_p(server._test))


def _mark_replies(port: int, ds_field: int) -> None:
    """Give this process's ends of iperf3's two connections, control and data, a DSCP as soon as they are there.

    iperf3's server sets none, and has no function for it.
    """
    marked: set[str] = set()
    while len(marked) < _CONNECTIONS:
        for file in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):  # it is no socket, not connected, or closed by now
                inode = str(file.readlink())
                if inode in marked or not inode.startswith("socket:"):
                    continue
                with socket.socket(fileno=os.dup(int(file.name))) as connection:
                    if connection.getpeername() and connection.getsockname()[1] == port:
                        connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ds_field)
                        if connection.family == socket.AF_INET6:
                            connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, ds_field)
                        marked.add(inode)
        time.sleep(_LOOK_S)


class _Client(Endpoint):
    def run(self, session: EndpointControl) -> None:
        (index,) = self.sends
        flow = self.flows[index]
        session.ready()
        begin_ns = session.begin_ns() + flow.start.ns
        time.sleep(max(0, begin_ns - time.monotonic_ns()) / 1e9)
        first_ns = time.monotonic_ns()
        if flow.rate_control in _WITH_ECN:
            # iperf3 sets the congestion control of a connection that is there already, too late to ask for ECN.
            _ECN.write_text(_ASK)
        report: dict[str, Any] = {}
        for _ in range(_CONNECT_TRIES):  # the server needs a moment until it listens
            report = dict(_client(flow, _FIRST_PORT + index).run().json)
            if "unable to connect" not in report.get("error", ""):
                break
            time.sleep(_CONNECT_PAUSE_S)
        if flow.rate_control in _WITH_ECN:
            _ECN.write_text(_ANSWER)
        if "error" in report:
            raise FlowError(f"iperf3 to {flow.target.name}: {report['error']}")
        octets = int(report["end"]["sum_received"]["bytes"])
        session.count_sent(index, octets)
        session.count_received(index, octets)
        session.sent({index: (first_ns, time.monotonic_ns(), report["end"])})


def _client(flow: Flow, port: int) -> Any:
    """An iperf3 client for a flow; where the wrapper has no word for an option, by the library's own functions."""
    import iperf3

    client = iperf3.Client()
    client.server_hostname, client.port = target_address(flow, port - _FIRST_PORT), port
    client.duration = (flow.duration or Duration("0s")) // _SECOND
    _set(client, "tos", c_int, flow.ds_field)
    if flow.size is not None:
        _set(client, "bytes", c_uint64, flow.size.bytes)
    if flow.rate is not None:
        client.bandwidth = flow.rate.bps * (_SEGMENT - more_octets(flow)) // (flow.frame.bytes + WIRE_OCTETS)
    if flow.buffer is not None:
        _set(client, "socket_bufsize", c_int, flow.buffer.bytes)
    if flow.rate_control is not None:
        client.lib.iperf_set_test_congestion_control(c_void_p(client._test), flow.rate_control.encode())
    return client


def _set(client: Any, option: str, kind: Any, value: int) -> None:
    getattr(client.lib, f"iperf_set_test_{option}")(c_void_p(client._test), kind(value))


register(Tcp())
