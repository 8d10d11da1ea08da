"""RoCE flows spread over equal ways by the UDP ports of their queue pairs, in the kernel as in a process."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from testbed.roce.source_port import from_both, from_number
from testbed.switch.ways.model import Fields, Group
from xoff import Flow, Flows, LeafSpine, Roce, RoceReport, Run, Size, Ways, experiment, network

if TYPE_CHECKING:
    from testbed.net.build.network import Network
    from testbed.net.traffic.roce_flow import UsedQueuePair

_SETTINGS = Ways("hash", seed=5)
_ROCE, _UDP = 4791, 17
CASES = {
    "test_packets_come_from_the_port_of_the_rule_and_take_its_way": [{}, {"in_process": True}],
}


def _way(net: Network, source: str, target: str, port: int) -> int:
    words = Fields(net[source].IP(), net[target].IP(), _UDP, port, _ROCE).words()
    way = Group(_SETTINGS, 5, [1] * 4, 1, 1).choose(words)
    assert way is not None
    return way


@experiment(timeout="60s")
def test_packets_come_from_the_port_of_the_rule_and_take_its_way(run: Run, in_process: bool = False) -> None:
    """Send flows of four queue pairs with each rule, and compare the frames of each uplink with the reference's."""
    expected: dict[int | str | range, Callable[[UsedQueuePair], Container[int]]] = {
        "queue pair": lambda one: [from_number(one.number)],
        "hash": lambda one: [from_both(one.number, one.far_number)],
        50_000: lambda one: [50_000],
        range(49_152, 65_536): lambda one: range(49_152, 65_536),
    }
    served_by = "python" if in_process else None
    for number, (rule, possible) in enumerate(expected.items()):
        with network(LeafSpine(2, 4, 1, ways=_SETTINGS), case=f"rule {number}") as net:
            flow = Flow(
                "h1", "h2", transport=Roce(queue_pairs=4, message=Size("8kB"), served_by=served_by), size="100kB",
                source_port=rule,
            )  # fmt: skip
            with Flows([flow]) as running:
                running.wait()
            (report,) = running.reports_of(RoceReport)
            by_way = [0] * 4
            for one in report.queue_pairs:
                by_way[_way(net, "h1", "h2", one.source_port)] += one.sent
            by_way[_way(net, "h1", "h2", from_number(1))] += 2 * 4  # REQ and RTU
            taken = {f"leaf1 spine{_way(net, 'h1', 'h2', one.source_port) + 1} leaf2" for one in report.queue_pairs}
            run.claim(f"{rule}: ways in the log", set(running.log[0]["ways"].split("; ")) == taken, equals=True)
            run.claim(f"{rule}: frames of uplinks", [one.frames for one in net.ways("leaf1")], equals=by_way)
        sent = [one.sent for one in report.queue_pairs]
        run.claim(f"{rule}: ports", all(one.source_port in possible(one) for one in report.queue_pairs), equals=True)
        run.claim(f"{rule}: packets of queue pairs", sent, equals=[28, 24, 24, 24])
        run.claim(f"{rule}: data", (report.size, report.intact, report.sent), equals=(Size("100kB"), True, sum(sent)))
        run.claim(f"{rule}: in the kernel", report.in_kernel, equals=not in_process)
        last = max(one.last_lab_ns for one in report.queue_pairs)
        run.claim(f"{rule}: the last of all", report.last_lab_ns, equals=last)


@experiment(timeout="60s")
def test_a_udp_flow_comes_from_its_port(run: Run) -> None:
    """Flows from one port to others keep to the ways of the reference."""
    with network(LeafSpine(2, 4, 1, ways=_SETTINGS)) as net:
        flows = net.run(*[Flow("h1", "h2", count=10 + number, source_port=40_000) for number in range(6)])
        by_way = [0] * 4
        for number in range(6):
            words = Fields(net["h1"].IP(), net["h2"].IP(), _UDP, 40_000, 20_000 + number).words()
            by_way[Group(_SETTINGS, 5, [1] * 4, 1, 1).choose(words) or 0] += 10 + number
        run.claim("frames of uplinks", [one.frames for one in net.ways("leaf1")], equals=by_way)
        by_log = [0] * 4
        for number, line in enumerate(flows.log):
            by_log[int(line["ways"].split()[1].removeprefix("spine")) - 1] += 10 + number
        run.claim("frames of uplinks by the ways of the log", by_log, equals=by_way)
        run.claim("lost", flows.lost, equals=0)


@experiment(timeout="60s")
def test_a_drawn_port_is_that_of_the_run_s_seed(run: Run) -> None:
    """Two networks of flows in one job have the same ports and numbers, and each queue pair of a host has its own."""
    drawn, numbers = [], []
    dynamic = range(49_152, 65_536)
    flows = [
        *[Flow("h1", "h2", transport="roce", size="1kB", source_port=dynamic) for _ in range(4)],
        Flow("h2", "h1", transport="roce", size="1kB", source_port=dynamic),
    ]
    for _ in range(2):
        ports, used = [], []
        with network(LeafSpine(2, 4, 1, ways=_SETTINGS)):
            for _ in range(2):
                with Flows(flows) as running:
                    running.wait()
                for flow, report in zip(flows, running.reports_of(RoceReport), strict=True):
                    (pair,) = report.queue_pairs
                    ports.append(pair.source_port)
                    used += [(flow.source, pair.number), (flow.target, pair.far_number)]
        drawn.append(ports)
        numbers.append(used)
    run.claim("drawn again", drawn[1], equals=drawn[0])
    run.claim("different ports", len(set(drawn[0][: len(flows)])), equals=len(flows))
    run.claim("the same numbers in the next network", numbers[1], equals=numbers[0])
    run.claim("different numbers at each host", len(set(numbers[0])), equals=2 * 2 * len(flows))
