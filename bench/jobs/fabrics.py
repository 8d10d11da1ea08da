"""The experiments of bench/fabrics.py."""

from xoff import EcnCurve, Flow, Incast, LeafSpine, LosslessTopo, RoceReport, Run, experiment, marking, network

CURVE = EcnCurve("40kB", "160kB", "20%")


@experiment(timeout="3600s")
def incast(run: Run, transport: str = "udp", us: int = 1000, control: str = "", rate: str = "10Gb/s") -> None:
    """Two hosts send to one."""
    flows = [
        Flow(host, "r", transport=transport, duration=f"{us}us", rate_control=control or None) for host in ("h1", "h2")
    ]
    _measured(run, Incast(2, rate=rate, **marking(CURVE if control else None)), flows)


@experiment(timeout="3600s")
def at_a_rate(run: Run, us: int = 1000, each: str = "40Gb/s", line: str = "100Gb/s") -> None:
    """Two hosts send to one by UDP, each at a rate, and nothing is paused."""
    flows = [Flow(host, "r", rate=each, duration=f"{us}us") for host in ("h1", "h2")]
    _measured(run, Incast(2, rate=line), flows)


@experiment(timeout="3600s")
def all_to_all(run: Run, leaves: int = 2, spines: int = 2, hosts: int = 4, us: int = 1000) -> None:
    """Each host sends to each other one, by RoCE with DCQCN."""
    names = [f"h{number}" for number in range(1, leaves * hosts + 1)]
    pairs = [(one, other) for one in names for other in names if one != other]
    _measured(run, LeafSpine(leaves, spines, hosts, ways="host number", **marking(CURVE)), _roce(pairs, us))


@experiment(timeout="3600s")
def each_one_flow(run: Run, leaves: int = 8, spines: int = 4, hosts: int = 16, us: int = 1000) -> None:
    """Each host sends to the one half of all hosts further on, by RoCE with DCQCN."""
    many = leaves * hosts
    pairs = [(f"h{number + 1}", f"h{(number + many // 2) % many + 1}") for number in range(many)]
    _measured(run, LeafSpine(leaves, spines, hosts, ways="host number", **marking(CURVE)), _roce(pairs, us))


def _roce(pairs: list[tuple[str, str]], us: int) -> list[Flow]:
    return [Flow(one, other, transport="roce", duration=f"{us}us", rate_control="dcqcn") for one, other in pairs]


def _measured(run: Run, topology: LosslessTopo, wanted: list[Flow]) -> None:
    with network(topology) as net:
        flows = net.run(*wanted)
        hops = sum(sum(net.fabric.sent(port).sent_frames) for port in net.fabric.names())
    run.figure("packets", flows.received)
    run.figure("hops", hops)
    run.claim("lost", flows.lost, equals=0)
    reports = flows.reports_of(RoceReport)
    if reports:
        run.claim("flows whose data came whole", sum(report.intact for report in reports), equals=len(wanted))
        run.figure("CNPs", sum(report.cnps_sent for report in reports))
