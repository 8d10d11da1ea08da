"""The metrics of stand-alone agents: what they count, and what the network cards of their interfaces do.

A process of its own makes them, so that an agent, which has capabilities, opens no port to the network. It asks the
agents as `xoff dcbx show` does, and the kernel for counters of interfaces, which takes no privilege.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from testbed.errors import UsageError, XoffError
from testbed.linux.netlink import dcb, link_state
from testbed.linux.netlink.messages import Socket
from testbed.metrics import names
from testbed.metrics.names import Exposition
from testbed.metrics.openmetrics import CONTENT_TYPE, render
from testbed.strict.numbers import whole
from testbed.subjects.dcbx.daemon import control_socket

_REFUSED, _CHANGES = "refused.", "oper_changes."
_WITHIN_S = 5.0
"""The time that a client has for its request and our answer."""
_MOST_CLIENTS = 8
PATH = "/metrics"


def text(interface: str | None = None) -> str:
    """Return the metrics of one agent of this network namespace, or of all."""
    netlink = Socket()
    try:
        answers = control_socket.ask(interface)
        frames = {name: dcb.pfc_frames(name, netlink.ask) for name in answers}
        sent = link_state.sent(netlink)
    finally:
        netlink.close()
    index = {name: number for number, name in socket.if_nameindex()}
    octets = {name: sent[index[name]] for name in answers if index.get(name) in sent}
    return exposition(answers, frames, octets)


def exposition(
    answers: Mapping[str, Any],
    frames: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]] | None],
    sent: Mapping[str, link_state.Sent],
) -> str:
    """Return the metrics of agents' answers, with the PFC frames of network cards and what interfaces have sent."""
    into = Exposition()
    for name, answer in answers.items():
        port, labels = answer["port"], {"port": name}
        counters: Mapping[str, int] = port["counters"]
        into.add(names.LINK_UP, int(port["link"] == "up"), None, labels)
        into.add(names.LLDP_SENT, counters.get("frames_out", 0), None, labels)
        into.add(names.LLDP_RECEIVED, counters.get("frames_in", 0), None, labels)
        into.add(names.LLDP_NEIGHBOURS, len(port["neighbours"]), None, labels)
        for key, count in sorted(counters.items()):
            if key.startswith(_REFUSED):
                into.add(names.LLDP_REFUSED, count, None, labels | {"reason": key.removeprefix(_REFUSED)})
            if key.startswith(_CHANGES):
                into.add(names.DCBX_CHANGES, count, None, labels | {"feature": key.removeprefix(_CHANGES)})
        enabled: list[int] | None = (port["features"].get("pfc") or {}).get("oper")
        for priority in range(8) if enabled is not None else ():
            into.add(names.DCBX_PFC, int(priority in (enabled or ())), None, labels | {"priority": str(priority)})
        counted = frames.get(name)
        for family, values in zip((names.PFC_SENT, names.PFC_RECEIVED), counted or ((), ()), strict=True):
            for priority, value in enumerate(values):
                into.add(family, value, None, labels | {"priority": str(priority)})
        if name in sent:
            into.add(names.PORT_FRAMES, sent[name].frames, None, labels)
            into.add(names.PORT_BYTES, sent[name].octets, None, labels)
    return render(into.families)


class _Handler(BaseHTTPRequestHandler):
    timeout = _WITHIN_S
    server_version, sys_version = "xoff", ""
    interface: str | None = None

    def do_GET(self) -> None:
        if self.path != PATH:
            self._answer(404, f"There is no such page; {PATH} has the metrics.\n", "text/plain; charset=utf-8")
            return
        try:
            self._answer(200, text(self.interface), CONTENT_TYPE)
        except XoffError as error:
            self._answer(503, f"{error}\n", "text/plain; charset=utf-8")

    def _answer(self, status: int, body: str, content_type: str) -> None:
        octets = body.encode(errors="replace")
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(octets)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(octets)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing about requests."""


class _Server(ThreadingHTTPServer):
    """A server that disconnects a client that takes too long, and takes no more than a few at a time."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._room = threading.BoundedSemaphore(_MOST_CLIENTS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        def end() -> None:
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(_WITHIN_S, end)
        timer.daemon = True
        timer.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            timer.cancel()
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let a client go that ends its connection, or took too long."""


def server(address: str, interface: str | None = None) -> ThreadingHTTPServer:
    """Return a server of the metrics that listens at ADDRESS:PORT; `serve_forever` answers requests."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        ipaddress.ip_address(host)
        is_right = whole(port, 2**16 - 1) is not None
    except ValueError:
        is_right = False
    if not is_right:
        raise UsageError(f"{address} is no address and port to listen at; 127.0.0.1:9471 is this machine alone")
    handler = type("Handler", (_Handler,), {"interface": interface})
    try:
        return _Server((host, int(port)), handler)
    except OSError as error:
        raise UsageError(f"cannot listen at {address}: {error.strerror or error}") from None
