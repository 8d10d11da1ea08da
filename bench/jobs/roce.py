"""Jobs of bench/roce.py, which measure inside the lab."""

from __future__ import annotations

import time
from typing import Any

from testbed.lab import Run, experiment


@experiment(_in_lab_time=True, timeout="60s")
def whole(run: Run, flows: int = 1, milliseconds: int = 500) -> None:
    """RoCE flows into one port of 100 Mb/s: how full it is, how busy the CPU, and what a packet takes at its ends."""
    import multiprocessing

    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows, roce_endpoint
    from topologies.incast import Incast

    spent = multiprocessing.Array("d", 2 * 64)
    original: Any = roce_endpoint._Loop.run

    def measured(loop: Any, session: Any) -> None:
        place = int(loop.host.address.rsplit(".", 1)[1])
        original(loop, _Watched(session, spent, 2 * place + bool(loop.targets)))

    roce_endpoint._Loop.run = measured  # type: ignore[method-assign, assignment]
    with network(Incast(flows, rate="100Gb/s"), run, autoStaticArp=True) as net:
        wanted = [
            Flow(host, net["r"], transport="roce", duration=f"{milliseconds}ms", rate_control="dcqcn")
            for host in net.hosts[:-1]
        ]
        with Flows(wanted) as running, run.measuring():
            began_ns, idle = time.monotonic_ns(), _idle_ns()
            running.wait()
            lasted_ns, idle = time.monotonic_ns() - began_ns, _idle_ns() - idle
    packets = sum(report.received for report in running.reports)
    first_ns = min(report.first_lab_ns for report in running.reports)
    last_ns = max(report.last_lab_ns for report in running.reports)
    run.figure("packets", packets)
    run.figure("lost", sum(report.lost for report in running.reports))
    run.figure("filled", packets * 1106 * 8e9 / (last_ns - first_ns) / 1e8)
    run.figure("busy", 1 - idle / lasted_ns)
    for name, place in (("source", 0), ("target", 1)):
        run.figure(f"{name}: us of CPU per packet", sum(spent[place::2]) / packets * 1e6)


def _idle_ns() -> int:
    """Return the CPU's idle time, which the kernel counts in hundredths of a second."""
    with open("/proc/stat") as file:
        return int(file.readline().split()[4]) * 10**7


class _Watched:
    """A session that notes the CPU time of its process, the kernel's work on its behalf included, while flows run."""

    def __init__(self, session: Any, spent: Any, place: int) -> None:
        self._session, self._spent, self._place = session, spent, place
        self._begin = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def begin_ns(self) -> int:
        found: int = self._session.begin_ns()
        self._begin = time.process_time()
        return found

    def count_sent(self, index: int, units: int) -> None:
        self._session.count_sent(index, units)
        self._spent[self._place] = time.process_time() - self._begin

    def count_received(self, index: int, units: int) -> None:
        self._session.count_received(index, units)
        self._spent[self._place] = time.process_time() - self._begin


@experiment(_in_lab_time=True, timeout="60s")
def calls(run: Run, packets: int = 640, batch: int = 32) -> None:
    """Measure a datagram of 1040 octets over the loopback interface, by each way to send and to receive it."""
    import socket
    import struct

    from testbed.frames import roce, roce_run
    from testbed.linux.sockets import mmsg
    from testbed.roce.memory import Content, Sink

    def pair() -> tuple[socket.socket, socket.socket]:
        sender, receiver = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        receiver.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        receiver.bind(("127.0.0.1", 0))
        receiver.setblocking(False)
        return sender, receiver

    octets = bytes(1040)

    def measure(name: str, begin_ns: int, many: int) -> None:
        run.figure(f"{name}: us per packet", (time.perf_counter_ns() - begin_ns) / many / 1000)

    sender, receiver = pair()
    to = receiver.getsockname()
    begin_ns = time.perf_counter_ns()
    for _ in range(packets):
        sender.sendto(octets, to)
    measure("send: sendto", begin_ns, packets)
    begin_ns = time.perf_counter_ns()
    for _ in range(packets):
        receiver.recvmsg(1100, 64)
    measure("receive: recvmsg", begin_ns, packets)

    burst = mmsg.Burst(sender, to[0], to[1], (12, 1024, 4), batch)
    parts = bytes(12 * batch), bytes(1024 * batch), bytes(4 * batch)
    begin_ns = time.perf_counter_ns()
    for _ in range(packets // batch):
        burst.send(batch, *parts)
    measure(f"send: sendmmsg of {batch}", begin_ns, packets)
    taker = mmsg.Receiver(receiver, batch, 12, 1024, 64)
    begin_ns = time.perf_counter_ns()
    while many := taker.receive():
        for number in range(3):
            taker.part(number, 0, many)
        taker.ds_fields(many)
        taker.arrivals(many)
    measure(f"receive: recvmmsg of {batch}", begin_ns, packets)

    sender.setsockopt(socket.SOL_SOCKET, 61, struct.pack("=iI", time.CLOCK_MONOTONIC, 0))  # SO_TXTIME
    begin_ns = time.perf_counter_ns()
    for _ in range(packets):
        stamp = struct.pack("=Q", time.monotonic_ns() + 1000)
        sender.sendmsg([octets], [(socket.SOL_SOCKET, 61, stamp)], 0, to)  # SCM_TXTIME
    measure("send: sendmsg with SO_TXTIME", begin_ns, packets)
    _drain(receiver)

    sender.setsockopt(socket.IPPROTO_UDP, 103, len(octets))  # UDP_SEGMENT
    begin_ns = time.perf_counter_ns()
    for _ in range(packets // batch):
        sender.sendto(octets * batch, to)
    measure(f"send: one datagram in {batch} segments (GSO)", begin_ns, packets)
    _drain(receiver)

    path, content = roce.Path("10.0.0.1", "10.0.0.2", 0xC100), Content(1)
    heads = roce_run.Heads(roce.head_of(roce.Opcode.WRITE_MIDDLE, 0x100), 1, batch, ())
    payload = content.read(0, 1024 * batch)

    def make() -> roce_run.PacketRun:
        return roce_run.seal(path, heads, payload, content.crcs(0, payload, 1024))

    def check() -> bool:
        crcs = Sink(content=content).crcs(0, made.payload, 1024)
        return made.in_order(1, batch) == (batch, []) and roce_run.icrcs(path, heads, 1024, crcs) == made.icrcs

    made = make()
    assert check()
    for name, work in (("make: headers and ICRC together", make), ("check: content and ICRC together", check)):
        begin_ns = time.perf_counter_ns()
        for _ in range(packets // batch):
            work()
        measure(name, begin_ns, packets)
    one = roce.Packet(roce.Opcode.WRITE_MIDDLE, 0x100, 1, payload[:1024])
    begin_ns = time.perf_counter_ns()
    for _ in range(packets):
        path.seal(roce.encode(one))
    measure("make: one by one", begin_ns, packets)
    (datagram, *_) = made.datagrams()
    begin_ns = time.perf_counter_ns()
    for _ in range(packets):
        roce.parse(datagram)
        path.intact(datagram)
    measure("check: one by one", begin_ns, packets)


def _drain(receiver: Any) -> None:
    try:
        while receiver.recv(65_536):
            pass
    except BlockingIOError:
        pass
