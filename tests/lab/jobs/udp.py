"""Jobs for tests/lab/roce/test_udp_in_kernel.py."""

from __future__ import annotations

from testbed.lab import Run, experiment


@experiment(timeout="120s")
def sends(run: Run, in_kernel: bool = True, ip_version: int = 4) -> None:
    """Flows of many kinds, with the frames that leave each host: ends in the kernel, or in processes."""
    from contextlib import ExitStack
    from dataclasses import replace
    from unittest import mock

    from testbed.linux import udp_device
    from testbed.net.fabric.ports import address_of
    from testbed.net.shell.wire import capture
    from xoff import Cable, Ecn, Flow, Incast, Udp, network

    # In the order of their sources, so that all sockets are opened in the same order; those that begin later have the
    # lines to themselves.
    flows = [
        Flow("h1", "r", count=300),
        Flow("h1", "r", priority=5, frame="200B", rate="1Gb/s", count=40, start="900us"),
        Flow("h1", "h2", priority=4, ecn=Ecn.ECT_1, size="10kB", buffer="10kB", start="1ms"),
        Flow("h2", "r", count=300),
        Flow(
            "h2",
            "r",
            priority=1,
            dscp=-1,
            ecn=Ecn.ECT_0,
            frame="60B" if ip_version == 4 else "80B",
            rate="100Mb/s",
            duration="100us",
            start="900us",
        ),
        Flow("r", "h1", priority=2, frame="9000B", rate="3Gb/s", count=20, ecn=Ecn.NOT_ECT),
        Flow("r", "h2", priority=0, frame="1513B", duration="200us", dscp=9, start="900us"),
    ]
    with ExitStack() as stack:
        if not in_kernel:
            stack.enter_context(mock.patch.object(udp_device, "is_there", return_value=False))
        net = stack.enter_context(network(Incast(2, cable=Cable("10Gb/s", mtu=9000), ipv6=ip_version == 6)))
        for host in ("h1", "h2", "r"):
            file = run.directory / f"{host}.pcap"
            address = address_of(net[host], ip_version)
            stack.enter_context(capture(net[host], f"{host}-eth0", file, f"udp and src host {address}"))
        done = net.run(*(replace(flow, transport=Udp(ip_version=ip_version)) for flow in flows))
        run.claim("lost", done.lost, equals=0)
    for number, report in enumerate(done.reports):
        counts = (report.sent, report.received, report.doubled, report.out_of_order, report.octets, report.ecn)
        run.figure(f"{number}: counts", counts)
        moments = (report.first_lab_ns, report.last_lab_ns)
        run.figure(f"{number}: moments", [moment - report.begin_lab_ns for moment in moments])
        run.figure(f"{number}: worst delay", report.worst_delay_lab_ns)
        run.figure(f"{number}: windows", report.windows)


@experiment(timeout="60s")
def keeps_time(run: Run) -> None:
    """A flow at a rate, and nothing else: each moment is what the configuration says."""
    import struct

    from testbed.net.shell.wire import Tap
    from xoff import Flow, Incast, network

    gap_ps = 1512 * 8 * 10**12 // 90_000
    with network(Incast(1)) as net:
        with Tap(net["h1"], "h1-eth0", outgoing=True) as sent, Tap(net["r"], "r-eth0") as came:
            (report,) = net.run(Flow("h1", "r", frame="1488B", rate="90Mb/s", count=200, start="3us")).reports
            stamps = [struct.unpack_from("=QQ", frame, 42) for frame in sent.frames() if frame[23:24] == b"\x11"]
            arrivals = [at_ns for at_ns, frame in came.arrivals() if frame[23:24] == b"\x11"]
        (ends,) = net.run(Flow("h1", "r", frame="1488B", rate="90Mb/s", duration="1ms")).reports
        (fills,) = net.run(Flow("h1", "r", frame="1488B", duration="2ms")).reports
    due = [(number, report.begin_lab_ns + number * gap_ps // 1000) for number in range(200)]
    run.claim("numbers", [number for number, _ in stamps], equals=list(range(200)))
    late_ns = [stamp_ns - due_ns for (_, stamp_ns), (_, due_ns) in zip(stamps, due, strict=True)]
    run.claim("times of sending, by the kernel's timer of one nanosecond", set(late_ns) <= {0, 1}, equals=True)
    delays = [at_ns - due_ns for at_ns, (_, due_ns) in zip(arrivals, due, strict=True)]
    # The tap reads two clocks, with a system call between them.
    for name, value, expected in (
        ("worst delay", report.worst_delay_lab_ns, max(delays)),
        ("first", report.first_lab_ns, arrivals[0]),
        ("last", report.last_lab_ns, arrivals[-1]),
    ):
        run.claim(f"off by: {name}", value - expected, at_least=-1000, at_most=1000)
    run.claim("sum of windows", sum(report.windows), equals=200)
    windows = [0] * len(report.windows)
    for at_ns in arrivals:
        windows[(at_ns - arrivals[0]) // 10_000_000] += 1
    run.claim("windows", report.windows, equals=tuple(windows))
    run.claim("sent in its time", ends.sent, equals=-(-1_000_000_000_000 // gap_ps))
    held_ns = 256_000 // 2304 * 1_209_600
    run.claim("ends in time, and what the socket holds", fills.last_lab_ns - fills.begin_lab_ns,
              at_least=2_000_000_000, at_most=2_000_000_000 + 2 * held_ns)  # fmt: skip
    run.claim("received", (report.received, fills.received), equals=(200, fills.sent))


@experiment(timeout="60s")
def counts(run: Run, datagrams: int = 30_000) -> None:
    """Numbers in any order, some never and some often: the kernel counts them as a process does."""
    import mmap
    import socket
    import struct
    import time
    from contextlib import closing

    from testbed.linux.sockets import mmsg
    from testbed.linux.udp_device import UdpDevice
    from testbed.net.traffic.udp import _Count
    from xoff import Incast, network

    def opened() -> socket.socket:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setsockopt(socket.SOL_SOCKET, 33, 256 << 20)
        udp.bind(("127.0.0.1", 0))
        return udp

    counters = mmap.mmap(-1, mmap.PAGESIZE)
    with network(Incast(1)) as net, closing(UdpDevice(counters, 0, 1)) as device:
        net.sleep("1us")
        with opened() as ours, opened() as theirs, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
            number = device.receive(ours, 5)
            theirs.setsockopt(socket.SOL_SOCKET, mmsg.SO_TIMESTAMPNS, 1)
            theirs.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
            theirs.setblocking(False)
            count, batch = _Count(wants_ecn=True), mmsg.Receiver(theirs, 32)
            highest = 0
            for place in range(datagrams):
                chance = run.rng.random()
                if chance < 0.5:
                    highest += 1
                elif chance < 0.7:
                    highest += run.rng.randrange(1, 9)
                new = highest if chance < 0.7 else run.rng.randrange(highest + 1)
                source.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, run.rng.randrange(4))
                content = struct.pack("=QQ", new, time.monotonic_ns() - run.rng.randrange(10**6))
                for to in (ours, theirs):
                    source.sendto(content, to.getsockname())
                if place % 1000 == 0:
                    time.sleep(run.rng.randrange(1, 30) / 1000)
                count.drain(batch)
            source.sendto(b"too short", ours.getsockname())
            found, expected = device.report(number), count.plain()
            shown = memoryview(counters).cast("q")[5]
    for name in ("received", "doubled", "out_of_order"):
        run.claim(name, getattr(found, name), equals=expected[name])
    run.claim("ECN", list(found.ecn), equals=expected["ecn"])
    run.claim("shown", shown, equals=datagrams)
    run.claim(
        "windows", len(found.windows), at_least=len(expected["windows"]) - 1, at_most=len(expected["windows"]) + 1
    )
    run.claim("all windows", sum(found.windows), equals=datagrams)
    for name in ("first_ns", "last_ns", "worst_delay_ns"):
        run.claim(f"off by: {name}", getattr(found, name) - expected[name], at_least=-5000, at_most=5000)
    run.claim("duplicates, late and missing numbers", min(found.doubled, found.out_of_order), at_least=1000)


@experiment(timeout="60s")
def killed(run: Run) -> None:
    """A process is killed: nothing more is sent at once, and the next flow of the host runs."""
    import os
    import signal

    from xoff import Flow, Flows, Incast, network

    with network(Incast(2)) as net:
        for case, rate in (("as the port takes them", None), ("at a rate", "5Gb/s")):
            before, failure, then, after = net.fabric.sent("h1-eth0").sent_frames[3], "", 0, 0
            try:
                with Flows([Flow("h1", "r", rate=rate), Flow("h2", "r", count=100)], settle="1ms") as flows:
                    net.sleep("1ms")
                    victim = next(one for one in flows._processes if one.endpoint.node.name == "h1")
                    os.kill(victim._helper.process.pid, signal.SIGKILL)
                    net.sleep("10us")
                    then = net.fabric.sent("h1-eth0").sent_frames[3]
                    net.sleep("1ms")
                    after = net.fabric.sent("h1-eth0").sent_frames[3]
                    flows.wait()
            except Exception as error:
                failure = str(error)
            run.claim(f"{case}: sent before", then - before, at_least=100)
            # What the port had been given leaves it.
            run.claim(f"{case}: sent after", after - then, at_most=2 if rate else 256_000 // 2304)
            expected = "flow at h1: its process was killed, so what it counted is not known"
            run.claim(f"{case}: the error", failure, equals=expected)
        again = net.run(Flow("h1", "r", count=100))
        run.claim("received", again.received, equals=100)


@experiment(timeout="60s")
def loses_its_way(run: Run) -> None:
    """The route goes while the flow runs."""
    from xoff import Flow, Flows, Incast, network

    with network(Incast(1)) as net, Flows([Flow("h1", "r", rate="1Gb/s")]) as flows:
        net.sleep("100us")
        net["h1"].cmd("ip route flush table main")
        net.sleep("100us")
        flows.wait()


@experiment(timeout="60s")
def stops(run: Run) -> None:
    """Flows that only the run ends, one of them at a queue that does not move."""
    from xoff import Flow, Flows, Incast, network

    with network(Incast(2)) as net:
        with Flows([Flow("h1", "r"), Flow("h2", "r", rate="1Gb/s")]) as flows:
            net.sleep("500us")
        at_once = flows.reports
        run.claim("sent until the end", min(report.sent for report in at_once), at_least=30)
        run.claim("lost", flows.lost, equals=0)
        with Flows([Flow("h1", "r", count=0), Flow("h2", "r", duration="1us", start="3us", count=5)]) as flows:
            flows.wait()
        run.claim("without a datagram", flows.reports[0].sent, equals=0)
        run.claim("in a microsecond, all that the socket takes", flows.reports[1].received, equals=5)
