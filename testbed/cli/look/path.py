"""`xoff path`: which way a flow takes through a topology, and why, without a lab."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from testbed.cli.arguments import one_of, whole_number
from testbed.cli.screen.console import say
from testbed.errors import plain, warn
from testbed.lab.results.result import Exit
from testbed.net.build.flow_path import TRANSPORTS, FlowNames, in_topology
from testbed.net.shell import topologies
from testbed.switch.ways.path import FlowPath, Hop


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FROM", help="the host that sends, as in h1")
    parser.add_argument("target", metavar="TO", help="the host that it sends to, as in h9")
    parser.add_argument(
        "--topo", default="fat-tree,4", metavar="T", help="a topology, as in clos,2,2,4 (xoff list; default fat-tree,4)"
    )
    parser.add_argument(
        "--transport", type=one_of("transport", list(TRANSPORTS)), default="roce", metavar="NAME",
        help=f"of the flow: {', '.join(TRANSPORTS)} (default roce)",
    )  # fmt: skip
    number = whole_number(0, 50000)
    parser.add_argument(
        "--source-port", type=number, metavar="N", help="with roce by default that of the queue pair, as in the lab"
    )
    parser.add_argument("--destination-port", type=number, metavar="N", help="by default that of --flow, or 4791")
    parser.add_argument(
        "--flow", type=number, metavar="N",
        help="of udp and tcp: the flow's number in a run, from 0, by which it has a destination port of its own",
    )  # fmt: skip
    parser.add_argument("--queue-pair", type=number, metavar="N", help="of roce, by default 256, the first of a host")
    parser.add_argument(
        "--ip-version", type=one_of("IP version", ["4", "6"]), default="4", metavar="N",
        help="of the flow, 4 or 6 (default 4); with 6 hosts have the addresses of ipv6=True, unless the topology has "
        "others",
    )  # fmt: skip
    parser.add_argument(
        "--flow-label", type=number, metavar="N", help="of IPv6, where it is hashed; by default that of the queue pair"
    )
    parser.add_argument(
        "--seed", type=whole_number(0, 7), default=1, metavar="N", help="of the run; each switch's own comes of it"
    )


def path(options: argparse.Namespace) -> int:
    """Explain which way a flow takes: at each switch the fields that are hashed, the hash, and the ways that it chooses
    among. It is what the lab does in a run with the same seed, as long as no cable is pulled."""
    flow = FlowNames(
        options.transport, options.source_port, options.destination_port, options.queue_pair, options.flow_label,
        options.flow or 0, int(options.ip_version),
    )  # fmt: skip
    way, polarised = in_topology(topologies.build(options.topo), options.source, options.target, flow, options.seed)
    if polarised is not None:
        warn(str(polarised))
    print(json.dumps(_as_json(way)) if options.json else plain(str(way)))
    hashes_it = any(hop.hashed is not None and "destination port" in hop.hashed.fields for hop in way.hops)
    if flow.transport != "roce" and options.flow is None and options.destination_port is None and hashes_it:
        port = way.fields.destination_port
        say(f"destination port {port} is that of a run's first flow; flow N, from 0, has {port} + N: --flow N")
    return Exit.OK


def _as_json(found: FlowPath) -> dict[str, Any]:
    return {
        "source": found.source,
        "target": found.target,
        "known": found.is_known,
        "nodes": found.nodes,
        "ports": found.ports,
        "hops": [_hop(hop) for hop in found.hops],
    }


def _hop(hop: Hop) -> dict[str, Any]:
    chosen = None if hop.chosen is None else hop.chosen.port
    ways = [asdict(way) for way in hop.ways]
    return {
        "switch": hop.switch,
        "why": hop.why,
        "hashed": None if hop.hashed is None else asdict(hop.hashed),
        "ways": ways,
        "chosen": chosen,
    }
