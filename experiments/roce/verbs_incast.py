"""Two hosts write to a third by ib_write_bw, a program that knows nothing of the lab, with PFC and without."""

import time

from experiments.roce._verbs import printed, write_bandwidths
from xoff import Incast, Network, Port, Run, experiment, network

LOSSLESS = 3
WRITES = "ib_write_bw -F -x 1 --tclass=96 -s 65536 -n 12"
"""Twelve writes of 64 KiB: DSCP 24, which is priority 3; to the GID of the IPv4 address."""
CELLS, XOFF = 700, 150
"""The switch's buffer, which holds less than two programs may have on their way: 128 packets of six cells each."""


@experiment(timeout="60s", debs=["perftest"], free_cpu=True)
def verbs_incast(run: Run) -> None:
    """Real programs, unmodified, share a line: with PFC each gets half of it, and nothing is lost.

    `ib_write_bw` of perftest runs over the kernel's Soft-RoCE, on two hosts at once. With PFC the switch stops both, so
    they share the line. Without PFC the switch drops what its buffer cannot hold, and Soft-RoCE goes back and sends
    again; its timer, 67 ms, is longer than a whole write. `rping` then talks by the connection manager.
    """
    for case, pfc in (("PFC", True), ("no PFC", False)):
        settings = Port().with_pfc(LOSSLESS) if pfc else Port().without_pfc()
        topology = Incast(2, rate="100Gb/s", total=CELLS, xoff=XOFF, port=settings, rdma=True)
        with network(topology, case=case) as net:
            with run.measuring():
                rates = write_bandwidths(net, WRITES)
            of_hosts = dict(zip(("h1", "h2"), rates, strict=True))
            ports = [net.port("s1", host) for host in of_hosts]
            dropped = sum(sum(net.fabric.group(port, LOSSLESS).dropped_frames) for port in ports)
            if not pfc:
                run.claim(f"{case}: MB/s of the faster host", max(rates), at_most=3)
                run.claim(f"{case}: frames dropped", dropped, at_least=1)
                continue
            for host, rate in of_hosts.items():
                run.claim(f"{case}: MB/s of {host}, a whole line is 11", rate, at_least=5.2, at_most=5.8)
            run.claim(f"{case}: frames dropped", dropped, equals=0)
            paused = sum(bool(net.fabric.pfc(port, LOSSLESS)["xoff_sent"]) for port in ports)
            run.claim(f"{case}: hosts that were paused", paused, equals=2)
            _rping(run, net)


def _rping(run: Run, net: Network) -> None:
    h1, _, r = net.hosts
    before = net.fabric.sent("h1-eth0").sent_frames[LOSSLESS]
    server = r.popen(["rping", "-s", "-C", "10", "-a", r.IP()])
    time.sleep(0.01)
    printed(h1.popen(["rping", "-c", "-C", "10", "-a", r.IP()]))
    printed(server)
    frames = net.fabric.sent("h1-eth0").sent_frames[LOSSLESS] - before
    run.claim("rping: frames of 10 pings in the lossless priority", frames, at_least=40)
