"""Flows whose endpoints fail: whoever waits for them gets the error, whichever end it was."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import pytest

from testbed.linux.process import kernel
from testbed.net.fabric.fabric import Fabric
from testbed.net.traffic import Endpoint, Flow, FlowError, Flows, Outcome, Report, Transport
from testbed.net.traffic.transport import EndpointControl


class Node:
    """Mininet's object, as far as it is looked at."""

    pid = 1

    def __init__(self, name: str) -> None:
        self.name = name


class Waits(Endpoint):
    """Sends for as long as it may, without a link."""

    def run(self, session: EndpointControl) -> None:
        session.ready()
        session.begin_ns()
        while session.sending:
            threading.Event().wait(0.001)
        session.sent(dict.fromkeys(self.sends))


class Raises(Waits):
    """Fails after the flows have begun."""

    def run(self, session: EndpointControl) -> None:
        session.ready()
        session.begin_ns()
        raise ValueError("no room for 3 datagrams")


class Opens(Waits):
    """Opens a socket; of two at one address the second one fails."""

    def open(self) -> None:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sockets.append(one)
        opened.append(one)
        one.bind("\0xoff tests of flows that fail")


opened: list[socket.socket] = []


@dataclass(frozen=True)
class Failing(Transport):
    """A transport whose two endpoints, of the sender and of the receiver, are given."""

    ends: tuple[type[Endpoint], type[Endpoint]] = (Waits, Waits)
    name = "failing"

    def check(self, flow: Flow) -> None:
        pass

    @classmethod
    def endpoints(cls, flows: Mapping[int, Flow]) -> Sequence[Endpoint]:
        ((index, flow),) = flows.items()
        assert isinstance(flow.transport, Failing)
        at_sender, at_receiver = flow.transport.ends
        return [at_sender(flow.source, flows, [index], []), at_receiver(flow.target, flows, [], [index])]

    def report(self, flow: Flow, outcome: Outcome) -> Report:
        raise NotImplementedError


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(kernel, "enter_network_of", lambda pid: None)
    monkeypatch.setattr(kernel, "in_network_of", lambda pid: nullcontext())
    fabric = Fabric.current()
    fabric.core.ports.known_nodes = {name: Node(name) for name in ("good", "bad")}
    yield
    fabric.core.stop()


@pytest.mark.parametrize(
    ("source", "target", "ends"), [("good", "bad", (Waits, Raises)), ("bad", "good", (Raises, Waits))]
)
def test_waiting_ends_when_either_end_fails(
    hosts: None, source: str, target: str, ends: tuple[type[Endpoint], type[Endpoint]]
) -> None:
    found: list[Any] = []

    def wait() -> None:
        try:
            with Flows([Flow(source, target, transport=Failing(ends))]) as flows:
                flows.wait()
        except FlowError as error:
            found.append(str(error))

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    waiting.join(20)
    assert found == ["flow at bad: ValueError: no room for 3 datagrams"]


def test_flows_do_not_begin_when_an_end_cannot_open_its_sockets(hosts: None) -> None:
    flows = Flows([Flow("good", "bad", transport=Failing((Opens, Opens)))])
    with pytest.raises(FlowError, match=r"^flow at bad: \[Errno 98\] Address already in use$"):
        flows.__enter__()
    assert [one.fileno() for one in opened] == [-1, -1]


def test_ctrl_c_ends_no_endpoint(hosts: None) -> None:
    flows = Flows([Flow("good", "bad", transport=Failing())])
    flows.__enter__()
    try:
        for process in flows._processes:
            process._helper.process.signal(signal.SIGINT)
        flows.stop_sending()
        flows.wait()  # FlowError if one had ended
    finally:
        flows.__exit__(FlowError)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
