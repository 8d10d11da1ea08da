"""The time that a queue takes to drain after a second flow has begun, by the delay of CNPs to their sender."""

import time

from xoff import (
    Buffer,
    Cable,
    Duration,
    Dynamic,
    EcnCurve,
    Flow,
    Flows,
    Incast,
    Nic,
    Rate,
    Roce,
    RoceSettings,
    Run,
    Size,
    experiment,
    marking,
    network,
)

SOURCE = (
    "Huang et al., SwCC: Software-Programmable and Per-Packet Congestion Control in RDMA Engine, ATC 2025, 3.2, fig. 1"
)
LINE = Rate("100Gb/s")
CABLE = Cable(LINE, delay="100ns")
IN_THE_NIC, BY_THE_CPU = Duration("3100ns"), Duration("23us")
"""The loops of a ConnectX-5 and of Soft-RoCE (table 1)."""
CURVE = EcnCurve("10kB", "10.1kB", "100%")
BUFFER = Buffer(12_000_000, cell=1, xoff=Dynamic(1))
LONG, SHORT = 20_000, 2000
"""The octets from which on the queue counts as long, and below which it has drained."""
SECOND, LASTS, LOOK = Duration("100us"), Duration("1ms"), Duration("200ns")


@experiment(timeout="120s", free_cpu=True)
def control_loop_delay(run: Run) -> None:
    """Measure how long a queue takes to drain after a second DCQCN flow has begun, by the delay of the CNPs.

    h1 fills a line of 100 Gb/s, and h2 begins to. A CNP is on its way for 3.1 us, as in a NIC that controls its rate by
    itself, or for 23 us, as with Soft-RoCE on the CPU. Published is that the queue takes 7.8 times as long to drain by
    the CPU. Until the first CNP is there the queue grows at the rate of the line, so with CNPs for each marked packet
    the times are as the loops with all that is in them: delays of cables and the wait of the marked packet itself. With
    CNPs each 50 us, as NICs have them, both wait for the second one. Control case: flows of constant rates.
    """
    for name, interval in (("a CNP for each mark", "0s"), ("a CNP each 50 us", "50us")):
        nic, most = _drained(f"{name}, NIC", IN_THE_NIC, interval)
        cpu, most_by_cpu = _drained(f"{name}, CPU", BY_THE_CPU, interval)
        assert nic and cpu
        run.figure(f"{name}: the queue drains in, by NIC and CPU", [nic, cpu])
        run.figure(f"{name}: the longest queue, by NIC and CPU", [most, most_by_cpu])
        longer, slower = round(most_by_cpu.bytes / most.bytes, 1), round(cpu.ps / nic.ps, 1)
        run.claim(f"{name}: the longest queue by the CPU, times the NIC's", longer, at_least=3)
        run.published(
            f"{name}: draining by the CPU, times the NIC's", slower, value=7.8, source=SOURCE,
            differs="curve, interval of CNPs and where a packet is marked are not stated; the delays are 7.4 to 1, "
            "and here a packet is marked when it joins the queue, and then waits in it",
        )  # fmt: skip
        run.claim(f"{name}: the queue drains by the CPU, one and a half times as slowly", slower >= 1.5, equals=True)
    never, _ = _drained("constant rates", IN_THE_NIC, "50us", "fixed")
    run.claim("constant rates: the queue drains while both flows send", never is not None, equals=False)


def _drained(case: str, delay: Duration, interval: str, control: str = "dcqcn") -> tuple[Duration | None, Size]:
    """Return how long after the begin of the second flow the queue is short again, if it is, and the longest queue."""
    roce = Roce(settings=RoceSettings(cnp_interval=Duration(interval)), nic=Nic(cnp_delay=delay))
    with network(Incast(n=2, cable=CABLE, buffer=BUFFER, **marking(CURVE)), case=case) as net:
        port = net.port("s1", "r")
        flows = [
            Flow(host, "r", transport=roce, duration=LASTS, start=start, rate_control=control)
            for host, start in (("h1", "0s"), ("h2", SECOND))
        ]
        most = drained_ns = 0
        with Flows(flows) as running:
            end_ns = time.monotonic_ns() + net.lab_ns(LASTS)
            while not drained_ns and time.monotonic_ns() < end_ns:
                time.sleep(net.lab_ns(LOOK) / 1e9)
                queued = sum(net.fabric.sent(port).queued_bytes)
                most = max(most, queued)
                if most > LONG and queued < SHORT:
                    drained_ns = time.monotonic_ns()
            running.wait()
        if not drained_ns:
            return None, Size.from_bytes(most)
        lasted = Duration.from_ns(drained_ns - running.reports[1].begin_lab_ns)
        return net.fabric.units.nearest_real(lasted), Size.from_bytes(most)
