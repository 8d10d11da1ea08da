"""The speed of QoS policies: loading a large one, path record queries, and mutated files that must do no harm.

    python bench/policy.py             all, with OpenSM's rate beside it where opensm and ibsim are installed
    python bench/policy.py --files N   so many mutated files (default 200 000)

Times are this machine's CPU time on one core, so that other work beside it does not count; but for REST and OpenSM.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import random
import resource
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from controllers.io_loop import IoLoop
from controllers.settings import Address, Settings
from testbed.rest.client import Client
from testbed.subjects.qos.fabric import GBIT, Fabric, PortCapabilities, PortKey
from testbed.subjects.qos.model import MatchRule, NodeType, Policy, PortGroup, QosLevel
from testbed.subjects.qos.numbers import Ranges
from testbed.subjects.qos.records import Found, PathRecordRequest, PathRecords
from testbed.subjects.qos.rest.client import RestSa, query
from testbed.subjects.qos.syntax.check import read
from testbed.subjects.qos.syntax.grammar import BLOCK, XML
from testbed.subjects.qos.syntax.source import Problems
from testbed.subjects.qos.syntax.write import write
from tests.lab import opensm_peer
from tests.lab.opensm_peer import Query
from tests.unit.subjects.qos.policy_samples import BLOCK_SAMPLE, EXAMPLE, RFC_SAMPLE, mutated

LEAVES, SPINES, PORTS_EACH = 25, 4, 40
SERVICES = 1 << 20
"""The Service-IDs of rules and requests."""
QUERIES = 100_000
TOKEN = "a-token-for-the-benchmark-only"


@dataclass(frozen=True)
class Row:
    """One figure, and its bound."""

    name: str
    value: float
    unit: str
    least: float | None = None
    most: float | None = None

    def show(self) -> bool:
        """Print the figure. Return True if it is out of its bound."""
        failed = (self.least is not None and self.value < self.least) or (
            self.most is not None and self.value > self.most
        )
        wanted = f"at least {self.least:g}" if self.least else f"at most {self.most:g}" if self.most else ""
        mark = " " if not wanted else "✗" if failed else "✓"
        print(f"{mark} {self.name:<76} {self.value:>10.6g} {self.unit:<3} {wanted}", flush=True)
        return failed


def leaf_spine() -> Fabric:
    """Return a fabric of 1000 hosts on 25 leaves with 4 spines."""
    fabric = Fabric()
    for number in range(SPINES):
        ports = [PortCapabilities(n, 100 * GBIT, 4096) for n in range(1, LEAVES + 1)]
        fabric.add(f"spine{number}", NodeType.SWITCH, 0x5000 + number, ports)
    for leaf in range(LEAVES):
        ports = [PortCapabilities(n, 100 * GBIT, 4096) for n in range(1, PORTS_EACH + SPINES + 1)]
        fabric.add(f"leaf{leaf}", NodeType.SWITCH, 0x6000 + leaf, ports)
        for number in range(SPINES):
            fabric.connect(PortKey(f"leaf{leaf}", PORTS_EACH + 1 + number), PortKey(f"spine{number}", leaf + 1))
        for host in range(1, PORTS_EACH + 1):
            name = f"h{leaf}-{host}"
            fabric.add(name, NodeType.CA, 0x1_0000 + (leaf << 16 | host << 4), [PortCapabilities(1, 100 * GBIT, 4096)])
            fabric.connect(PortKey(name, 1), PortKey(f"leaf{leaf}", host))
    fabric.route()
    return fabric


def large_policy(rules: int, fabric: Fabric, rng: random.Random) -> Policy:
    """Return a policy with rules of every kind, most of them for Service-IDs."""
    guids = [port.guid for port in fabric.end_ports]
    groups = tuple(
        PortGroup(f"group {number}", port_guids=Ranges.of((guid, guid) for guid in rng.sample(guids, 100)))
        for number in range(50)
    )
    levels = tuple(
        QosLevel(str(number), number % 16, mtu_limit=2048 if number % 3 else None) for number in range(1, 31)
    )
    made = []
    for number in range(rules):
        first = rng.randrange(SERVICES)
        made.append(
            MatchRule(
                str(rng.randrange(1, 31)),
                sn=number + 1,
                use="made by the benchmark",
                sources=(f"group {rng.randrange(50)}",) if rng.random() < 0.3 else (),
                destinations=(f"group {rng.randrange(50)}",) if rng.random() < 0.5 else (),
                service_ids=Ranges(((first, first + rng.randrange(1 << 12)),)),
                qos_classes=Ranges(((number % 4096, number % 4096),)) if rng.random() < 0.1 else Ranges(),
                pkeys=Ranges(((0x7FFF, 0x7FFF),)) if rng.random() < 0.1 else Ranges(),
            )
        )
    return Policy(groups, levels=levels, rules=tuple(made), default_level="1")


def requests(fabric: Fabric, rng: random.Random) -> list[PathRecordRequest]:
    ports = fabric.end_ports
    made = []
    for _ in range(QUERIES):
        source, destination = rng.choice(ports), rng.choice(ports)
        made.append(
            PathRecordRequest(
                sgid=source.gid,
                dgid=destination.gid,
                service_id=rng.randrange(SERVICES),
                pkey=0xFFFF if rng.random() < 0.5 else None,
                qos_class=rng.randrange(4096) if rng.random() < 0.2 else None,
            )
        )
    return made


def query_rate(rules: int) -> tuple[float, float]:
    """Return the queries per second of CPU time, and the part that found a path by a rule and not by default."""
    rng, fabric = random.Random(1), leaf_spine()
    records = PathRecords(large_policy(rules, fabric, rng), fabric)
    asked = requests(fabric, rng)
    begun = time.process_time()
    answers = [records.query(request) for request in asked]
    taken = time.process_time() - begun
    if not all(isinstance(answer, Found) for answer in answers):
        sys.exit(f"a query found no path: {next(a for a in answers if not isinstance(a, Found))}")
    by_rule = sum(isinstance(answer, Found) and answer.rule is not None for answer in answers)
    return len(asked) / taken, by_rule / len(asked)


def load_time(rules: int) -> dict[str, float]:
    """Return the CPU seconds from a file's bytes to compiled rules."""
    fabric, taken = leaf_spine(), {}
    policy = large_policy(rules, fabric, random.Random(1))
    for syntax in (XML, BLOCK):
        content = write(policy, syntax, problems := Problems()).encode()
        if problems.errors:
            sys.exit(str(problems.errors[0]))
        begun = time.process_time()
        reading = read(content)
        if not reading.ok:
            sys.exit(str(reading.problems.errors[0]))
        PathRecords(reading.policy, fabric)
        taken[f"{rules} rules in {syntax.name}, {len(content) / 1e6:.1f} MB, loaded and compiled"] = (
            time.process_time() - begun
        )
    return taken


def mutated_files(count: int) -> Iterator[Row]:
    """Read mutated files of both syntaxes. Raise an error if a problem lacks its place, its cause or the right
    thing.
    """
    samples = [EXAMPLE.read_bytes(), BLOCK_SAMPLE, RFC_SAMPLE.read_bytes()]
    rng, slowest, refused = random.Random(1), 0.0, 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(count):
        content = mutated(samples[number % len(samples)], rng)
        begun = time.process_time()
        reading = read(content)
        slowest = max(slowest, time.process_time() - begun)
        refused += not reading.ok
        for problem in reading.problems.errors:
            if not (problem.place.line >= 1 and problem.message and problem.expected):
                sys.exit(f"file {number}: an error lacks its place, cause or what was expected: {problem}")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    yield Row(f"{count} mutated files, {refused} refused: no crash; slowest", slowest * 1000, "ms", most=1000)
    yield Row("   memory grown", grown / 1000, "MB", most=50)


def opensm_rate() -> Row:
    """Return OpenSM's rate. It has no other interface than its SA; most of the time is the start of saquery."""
    if (why := opensm_peer.missing()) is not None:
        return Row(f"OpenSM is not asked: {why}", 0, "/s")
    queries = [Query("h2", "h1", service_id=number) for number in range(100)]
    rules = "".join(f"qos-match-rule\nservice-id: {n}\nqos-level-name: l\nend-qos-match-rule\n" for n in range(1000))
    levels = "qos-levels\nqos-level\nname: DEFAULT\nsl: 0\nend-qos-level\nqos-level\nname: l\nsl: 1\nend-qos-level\n"
    policy = f"{levels}end-qos-levels\nqos-match-rules\n{rules}end-qos-match-rules\n"
    (answers,) = opensm_peer.ask([(policy, queries)])
    if not answers.taken or None in answers.found:
        sys.exit("OpenSM found no path")
    return Row("OpenSM 3.3, 1000 rules, 4 ports, a process for each query (wall time)", 100 / answers.seconds, "/s")


def rest_latencies(each_second: int, seconds: int) -> list[float]:
    """Return the milliseconds of path record queries over REST, one by one at this rate, with 1000 rules and 1000
    ports.

    The controller is a process of its own. The time is wall time, so other work on the machine is in it.
    """
    here = Address.parse("127.0.0.1:0")
    service = IoLoop(Settings(b"k" * 32, TOKEN, here, here))
    controller = multiprocessing.get_context("fork").Process(target=service.serve, daemon=True)
    controller.start()
    rng, fabric = random.Random(1), leaf_spine()
    sa = RestSa(Client(f"http://{service.rest_at}", TOKEN))
    sa.put_fabric(fabric)
    sa.put_policy(write(large_policy(1000, fabric, rng), XML, Problems()).encode())
    address = service.rest_at
    connection = http.client.HTTPConnection(address.host, address.port)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    bodies = [json.dumps(query(request)) for request in requests(fabric, rng)[: each_second * seconds]]
    taken, begun = [], time.monotonic()
    for number, body in enumerate(bodies):
        time.sleep(max(0.0, begun + number / each_second - time.monotonic()))
        asked = time.monotonic()
        connection.request("POST", "/qos/path-record", body, headers)
        answer = connection.getresponse().read()
        taken.append((time.monotonic() - asked) * 1000)
        if b'"found": true' not in answer:
            sys.exit(f"a query over REST found no path: {answer.decode()}")
    controller.terminate()
    controller.join()
    return sorted(taken)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=200_000, metavar="N", help="mutated policy files (200 000)")
    count = parser.parse_args().files
    failed = False
    for row in rows(count):
        failed |= row.show()
    return int(failed)


def rows(files: int) -> Iterator[Row]:
    for rules, least in ((1000, 50_000), (10_000, None)):
        rate, by_rule = query_rate(rules)
        yield Row(f"path records, {rules} rules, 1000 ports, {by_rule:.0%} by a rule", rate, "/s", least=least)
    taken = rest_latencies(200, 10)
    yield Row("path records over REST at 200 per second: median", taken[len(taken) // 2], "ms")
    yield Row("   99th percentile", taken[len(taken) * 99 // 100], "ms", most=5)
    yield opensm_rate()
    for name, seconds in load_time(10_000).items():
        yield Row(name, seconds, "s", most=2)
    yield from mutated_files(files)


if __name__ == "__main__":
    sys.exit(main())
