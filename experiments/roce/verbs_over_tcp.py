"""One program over RoCE and over iWARP, which is verbs over TCP, behind the same incast, with PFC and without."""

from experiments.roce._verbs import write_bandwidths
from xoff import Incast, Port, Run, experiment, network

LOSSLESS = 3
CELLS, XOFF = 700, 150
"""The switch's buffer, which holds less than two programs may have on their way."""
CARRIERS = {"RoCE": (True, "-x 1 --tclass=96"), "iWARP": ("siw", "-R -T 96")}
"""The value of `rdma` of hosts, and the options of the program: DSCP 24, which is priority 3, in two ways. RoCE needs
the GID of the IPv4 address, and iWARP connects by the connection manager alone."""


@experiment(timeout="60s", debs=["perftest"], free_cpu=True)
def verbs_over_tcp(run: Run) -> None:
    """RoCE needs a network that loses nothing, and iWARP pays a loss with a segment: the same program shows both.

    On two hosts at once `ib_write_bw` writes 40 times 64 KiB to a third. With PFC each has half of the line, over
    either. Without PFC the switch drops what its buffer cannot hold. Soft-RoCE goes back to the first lost packet and
    sends all behind it again, nearly four packets for each that is needed, and waits sixty times for a timer of 67 ms.
    TCP sends again what is missing, sends less for a while, and still fills the line.
    """
    for carrier, (rdma, options) in CARRIERS.items():
        for pfc in (True, False):
            case = f"{carrier}, {'PFC' if pfc else 'no PFC'}"
            settings = Port().with_pfc(LOSSLESS) if pfc else Port().without_pfc()
            topology = Incast(2, rate="100Gb/s", total=CELLS, xoff=XOFF, port=settings, rdma=rdma)
            with network(topology, case=case) as net:
                with run.measuring():
                    rates = write_bandwidths(net, f"ib_write_bw -F {options} -s 65536 -n 40")
                ports = [net.port("s1", host) for host in ("h1", "h2")]
                dropped = sum(sum(net.fabric.group(port, LOSSLESS).dropped_frames) for port in ports)
                again = sum(int(net[host].cmd("nstat -asz TcpRetransSegs").split()[-2]) for host in ("h1", "h2"))
            slower, faster = sorted(rates)
            if pfc:
                run.claim(f"{case}: MB/s of the slower host, a whole line is 11", slower, at_least=5.2)
                run.claim(f"{case}: frames dropped", dropped, equals=0)
            elif carrier == "RoCE":
                run.claim(f"{case}: MB/s of the faster host", faster, at_most=2)
                run.claim(f"{case}: frames dropped", dropped, at_least=1000)
            else:
                run.claim(f"{case}: MB/s of the slower host, a whole line is 11", slower, at_least=5.2)
                run.claim(f"{case}: frames dropped", dropped, at_least=1, at_most=100)
                run.claim(f"{case}: segments that TCP sent again", again, equals=dropped)
