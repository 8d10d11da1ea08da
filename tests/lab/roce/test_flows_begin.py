"""When flows begin: at one moment, with all connections made and nothing of that in any queue."""

from __future__ import annotations

import random

from xoff import Duration, Flow, Flows, Incast, LeafSpine, Network, Roce, Run, experiment, network

CASES = {
    "test_a_lone_flow_has_the_time_of_an_empty_network": [{"others": 0}, {"others": 5000}],
    "test_no_message_of_a_connection_is_under_way_when_flows_begin": [{"served_by": "kernel"}, {"served_by": "python"}],
}
_CNP = 6
"""The priority of CNPs and of connection management."""


@experiment(timeout="200s")
def test_a_lone_flow_has_the_time_of_an_empty_network(run: Run, others: int = 0) -> None:
    """All others begin 5 ms later; four cables of 1 us, and two frames of 1122 and 1106 octets at 10 Gb/s."""
    dice = random.Random(1)
    hosts = [f"h{n}" for n in range(1, 9)]
    with network(LeafSpine(2, 2, 4, delay="1us")):
        flows = [Flow("h1", "h7", transport="roce", size="3kB")]
        for number in range(others):
            source, target = dice.sample(hosts, 2)
            flows.append(Flow(source, target, transport="roce", size="1kB", start=f"{5000 + number}us"))
        with Flows(flows) as running:
            running.wait()
        run.claim("completion", running.reports[0].completion, equals=Duration("5782400ps"))
        run.claim("complete", sum(one.received for one in running.reports), equals=3 + others)


@experiment(timeout="100s")
def test_no_message_of_a_connection_is_under_way_when_flows_begin(run: Run, served_by: str = "kernel") -> None:
    """Whoever serves the hosts."""
    with network(Incast(4, delay="1us")) as net:
        transport = Roce(served_by=served_by)
        flows = [
            Flow(f"h{number % 4 + 1}", "r", transport=transport, size="1kB", rate_control="dcqcn")
            for number in range(200)
        ]
        _nothing_is_under_way(run, net, flows, hops=2)


@experiment(timeout="100s", partitions=2)
def test_no_message_is_under_way_in_two_parts(run: Run) -> None:
    """Hosts of one part ask those of the other, some for 100 connections and some for none."""
    with network(LeafSpine(2, 2, 2, delay="1us")) as net:
        # Later, for it takes a while to ask the other part for counters.
        flows = [Flow(f"h{number % 2 + 1}", "h4", transport="roce", size="1kB", start="1ms") for number in range(200)]
        _nothing_is_under_way(run, net, flows, hops=4)


def _nothing_is_under_way(run: Run, net: Network, flows: list[Flow], hops: int) -> None:
    """Claim that all messages of connections have left every port when flows begin, those of UDP at the same moment."""
    names = net.fabric.names()
    with Flows([*flows, Flow(flows[0].source, flows[0].target, count=1, start=flows[0].start)]) as running:
        before = [net.fabric.sent(name).sent_frames[_CNP] for name in names]
        run.claim("octets in queues", sum(sum(net.fabric.sent(name).queued_bytes) for name in names), equals=0)
        running.wait()
    after = [net.fabric.sent(name).sent_frames[_CNP] for name in names]
    run.claim(
        "frames of connections since", [b - a for a, b in zip(before, after, strict=True)], equals=[0] * len(names)
    )
    run.claim("frames of connections", sum(before), equals=hops * 3 * len(flows))
    start_ns = net.lab_ns(flows[0].start)
    moments = sorted({one.begin_lab_ns - start_ns for one in running.reports})
    run.claim("moments", moments, equals=[running.begin_lab_ns])


@experiment(timeout="100s")
def test_a_flow_that_connects_at_its_start_has_its_connection_in_its_completion(run: Run) -> None:
    """One octet over 16 us one way: REQ, REP, and the data, which leave behind the RTU."""
    with network(Incast(1, delay="8us")):
        for at_start, operation, expected in (
            (False, "write", 16),
            (True, "write", 48),
            (True, "send", 48),
            (False, "read", 32),
            (True, "read", 64),
        ):
            roce = Roce(operation, connects_at_start=at_start)
            with Flows([Flow("h1", "r", transport=roce, size="1B", start="10us")]) as running:
                running.wait()
            run.claim(
                f"completion of a {operation} that connects {'at its start' if at_start else 'before'}",
                running.reports[0].completion,
                at_least=Duration(f"{expected}us"),
                at_most=Duration(f"{expected}us") + Duration("20ns"),
            )
