"""PFC and several ways: a flow that is spread over all of them takes its congestion to all of them."""

from dataclasses import dataclass

from xoff import (
    Buffer,
    Cable,
    Duration,
    Dynamic,
    Flow,
    LeafSpine,
    LosslessTopo,
    Network,
    PfcSettings,
    Port,
    Rate,
    Run,
    Size,
    Ways,
    experiment,
    network,
)

SOURCE = "Hu et al., FLB: Fine-grained Load Balancing for Lossless Datacenter Networks, ATC 2025"
LINE = Rate("40Gb/s")
CABLE = Cable(LINE, delay="1us")
PRIORITY = 3
PORT = Port(pfc=PfcSettings(enabled=frozenset({PRIORITY})))
BUFFER = Buffer(22_000_000, cell=1, xoff=Dynamic("1/16"))
"""22 MB and dynamic thresholds are published; alpha is not, and 1/16 is what SONiC has for its 32 ports."""
CORES = ("s1", "s2", "s3")
LONG = (0, 1, 2)
BURSTING = range(3, 17)
MESSAGES, MESSAGE = 40, Size("64KiB")
BEGIN, LASTS = Duration("2ms"), Duration("11ms")
"""The burst begins after 40 ms there, when long flows have been steady for long; here they are after one."""
SETTLED = Duration("500us")
"""The time after the burst's begin from which on the long flows are looked at, and for how long: pauses have come back
to their senders by then, and the burst is far from its end."""
LOOKED_AT = Duration("5ms")
FRAME = 1514
GAP = "50us"
LEAVES, SPINES = 32, 16
CLOS_LASTS = Duration("4ms")


@dataclass(frozen=True)
class Beside:
    """The long flows beside the burst."""

    paused: int
    """The ways that s4 has paused: those of its cables to cores on which it sent an XOFF."""
    rates: tuple[Rate, ...]
    """f0, f1 and f2 while the burst lasts."""
    lost: int


@experiment(timeout="300s", free_cpu=True)
def pauses_by_ways(run: Run) -> None:
    """Count the ways that PFC pauses when a burst meets a flow that has one way, and one that is spread over all.

    f0, f1 and f2 go from h0, h1 and h2 behind s0 to r0, r1 and r2 behind s4, by three cores, at 40 Gb/s. f0 has a way
    of its own, f1 and f2 share one. Then 14 hosts behind s4 send 40 messages of 64 KB each to r2. Published is: by a
    hash the way of f2 alone is paused, so that f1, whose receiver is idle, is blocked and f0 is not; spread over all
    ways f2 has all three paused, and f0 and f1 are blocked. In a Clos of 16 spines and 32 leaves 31:1 incast pauses
    about 70 cables by a hash, and sprayed about 340. Control cases: without the burst nothing is paused, and without
    PFC no flow is blocked.
    """
    cases = (
        ("hash", Ways("hash", seed=1), True, True),
        ("flowlets", Ways("flowlet", seed=1, gap=GAP), True, True),
        ("spray", Ways("spray"), True, True),
        ("spray, no burst", Ways("spray"), False, True),
        ("spray, no PFC", Ways("spray"), True, False),
    )
    seen = {}
    for case, ways, burst, pfc in cases:
        seen[case] = _beside_burst(case, ways, burst=burst, pfc=pfc)
        if pfc:
            run.claim(f"{case}: lost", seen[case].lost, equals=0)
        run.figure(f"{case}: f0, f1 and f2 beside the burst", seen[case].rates)
    figure = f"{SOURCE}, 2.2, figure 3"
    run.published("hash: ways that are paused", seen["hash"].paused, value=1, within=0, source=figure)
    run.published(
        "spray: ways that are paused", seen["spray"].paused, value=len(CORES), within=0, source=figure,
        differs="there MP-RDMA spreads packets from the host; here s0 gives each frame the next way",
    )  # fmt: skip
    run.published(
        "flowlets: ways that are paused", seen["flowlets"].paused, value=len(CORES), source=figure,
        differs="there f2 is given all ways by hand; here it moves where a pause leaves it silent for 50 us, and takes "
        "the pauses to each way that it comes to",
    )  # fmt: skip
    run.claim("flowlets: ways that are paused, more than by a hash", seen["flowlets"].paused, at_least=2)
    run.claim("flowlets: f0 beside the burst, percent of the line", _percent(seen["flowlets"].rates[0]), at_most=50)
    run.claim("hash: f0 beside the burst, percent of the line", _percent(seen["hash"].rates[0]), at_least=99)
    run.claim("hash: f1 beside the burst, percent of the line", _percent(seen["hash"].rates[1]), at_most=10)
    for number in (0, 1):
        percent = _percent(seen["spray"].rates[number])
        run.claim(f"spray: f{number} beside the burst, percent of the line", percent, at_most=25)
    run.claim("spray, no burst: ways that are paused", seen["spray, no burst"].paused, equals=0)
    for number in (0, 1):
        percent = _percent(seen["spray, no PFC"].rates[number])
        run.claim(f"spray, no PFC: f{number} beside the burst, percent of the line", percent, at_least=99)
    hashed, sprayed = _paused_in_clos("Clos, hash", Ways("hash")), _paused_in_clos("Clos, spray", Ways("spray"))
    run.published(
        "Clos, hash: cables that are paused", hashed, value=70, within=10, source=f"{SOURCE}, 2.2, figure 4",
        differs="'about', read from a plot; hashes differ: 31 cables of hosts, 31 to spines, and those of the spines "
        "that have a flow, 14 of 16 on average",
    )  # fmt: skip
    run.published(
        "Clos, spray: cables that are paused", sprayed, value=340, source=f"{SOURCE}, 2.2, figure 4",
        differs="'about', and 'all paths'; how many leaves have a sender is not stated, and here each of 31 has one, "
        "with 16 cables to spines",
    )  # fmt: skip
    run.claim("Clos: spraying pauses so many times as many cables", sprayed // hashed, at_least=4)


class _Testbed(LosslessTopo):
    """h0 to h2 at s0, r0 to r2 and the hosts of the burst at s4, and three cores between."""

    def build(self) -> None:
        for switch in ("s0", *CORES, "s4"):
            self.addSwitch(switch)
        for core in CORES:
            self.addLink("s0", core)
            self.addLink(core, "s4")
        for number in LONG:
            self.addLink(self.addHost(f"h{number}"), "s0")
            self.addLink(self.addHost(f"r{number}"), "s4")
        for number in BURSTING:
            self.addLink(self.addHost(f"b{number}"), "s4")


def _beside_burst(case: str, ways: Ways, *, burst: bool, pfc: bool) -> Beside:
    """Return what the long flows get while the burst lasts, or would."""
    port = PORT if pfc else PORT.without_pfc()
    topo = _Testbed(cable=CABLE, port=port, hopts={"port": port}, buffer=BUFFER, ways=ways)
    with network(topo, case=case) as net:
        long = [
            Flow(
                f"h{number}", f"r{number}", PRIORITY,
                frame=f"{FRAME}B", rate=LINE, duration=LASTS, source_port=_port_by(net, number),
            )
            for number in LONG
        ]  # fmt: skip
        count = MESSAGES * MESSAGE.bytes // FRAME
        short = [
            Flow(f"b{number}", "r2", PRIORITY, frame=f"{FRAME}B", rate=LINE, count=count, start=BEGIN)
            for number in (BURSTING if burst else ())
        ]
        flows = net.run(*long, *short)
        begin_ns = flows.reports[0].begin_lab_ns + net.lab_ns(BEGIN)
        ports = {net.port("s4", core) for core in CORES}
        stopped = {one.port for one in net.fabric.events() if one.kind == "xoff_sent" and one.lab_ns >= begin_ns}
    rates = [report.goodput_over(BEGIN + SETTLED, LOOKED_AT) for report in flows.reports[: len(LONG)]]
    return Beside(len(ports & stopped), tuple(rates), flows.lost)


def _port_by(net: Network, number: int) -> int | None:
    """Return the source port by which a hash sends f0 by s1, and f1 and f2 by s3, if the switches hash."""
    core = CORES[0] if number == 0 else CORES[-1]
    for source_port in range(50_000, 50_100):
        path = net.path(f"h{number}", f"r{number}", transport="udp", source_port=source_port, number=number)
        if core in path.nodes:
            return source_port
    return None


def _percent(rate: Rate) -> float:
    return round(100 * rate.bps / LINE.bps, 1)


def _paused_in_clos(case: str, ways: Ways) -> int:
    """Return how many cables have had a pause while 31 hosts, one at each leaf, send to one at the last leaf."""
    with network(LeafSpine(LEAVES, SPINES, 1, cable=CABLE, port=PORT, buffer=BUFFER, ways=ways), case=case) as net:
        hosts = [host.name for host in net.hosts]
        net.run(
            *(Flow(host, hosts[-1], PRIORITY, frame=f"{FRAME}B", rate=LINE, duration=CLOS_LASTS) for host in hosts[:-1])
        )
        return len({one.port for one in net.fabric.events() if one.kind == "xoff_sent"})
