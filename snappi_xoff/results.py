"""Answers in the words of snappi's model, as plain data: counters of the generator, and resolved addresses."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Set
from typing import Any

from testbed.subjects.snappi.config import Counting, FlowPlan
from testbed.subjects.snappi.lab.generator import Generator
from testbed.subjects.snappi.lab.session import Session
from testbed.subjects.snappi.pacing import GAP, PREAMBLE
from testbed.subjects.snappi.requests import MetricsRequest
from testbed.subjects.snappi.roce_counting import FlowCounts
from testbed.subjects.snappi.rocev2 import RoceFlow
from testbed.subjects.snappi.transmit import State

_ALWAYS = {"name", "port_tx", "port_rx", "loss", "timestamps", "latency"}
_PEERS_OF = {"rocev2_ipv4": 4, "rocev2_ipv6": 6}
_LINK_LAYERS = {"llr_cbfc_stat": "llr_cbfc", "sender_vc_stat": "sender_vc", "receiver_vc_stat": "receiver_vc"}
_ROCE_ANSWERS = {
    **{what: f"{what}_per_peer_metrics" for what in _PEERS_OF},
    "rocev2_flow": "rocev2_flow_per_qp_metrics",
}
_MESSAGES = [
    *(
        f"{message}_{end}"
        for message in ("connect_request", "connect_reply", "ready", "disconnect_request", "disconnect_reply")
        for end in ("tx", "rx")
    ),
    "reject_tx",
]
_VERSIONS = {"ipv4_neighbors": 4, "ipv6_neighbors": 6}


def metrics(session: Session, wanted: MetricsRequest) -> dict[str, Any]:
    """Return the metrics of ports, flows or link layers at this moment; without a generator there are none."""
    generator = session.running
    if wanted.what in _LINK_LAYERS:
        return _link_layers(session, wanted)
    if wanted.what in _ROCE_ANSWERS:
        return _roce(generator, wanted)
    if generator is None:
        return {"choice": f"{wanted.what}_metrics", f"{wanted.what}_metrics": []}
    generator.count()
    if wanted.what == "port":
        rows = [_port(generator, name) for name in generator.plan.ports if wanted.has(name)]
    else:
        rows = [
            _flow(generator, flow, flow.counting)
            for flow in generator.plan.flows
            if flow.counting is not None and wanted.has(flow.name)
        ]
    fields = wanted.fields | _ALWAYS if wanted.fields else None
    chosen = [{name: value for name, value in row.items() if fields is None or name in fields} for row in rows]
    return {"choice": f"{wanted.what}_metrics", f"{wanted.what}_metrics": chosen}


def _link_layers(session: Session, wanted: MetricsRequest) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    kind, layers = _LINK_LAYERS[wanted.what], session.link_layers
    for port in (name for name in (layers.layers if layers else ()) if wanted.has(name)):
        assert layers is not None
        if kind == "llr_cbfc":
            rows.append(layers.llr_row(port))
        elif kind == "sender_vc":
            rows += layers.sender_rows(port)
    fields = wanted.fields | {"port_name", "vc_id"}
    chosen = [{name: value for name, value in row.items() if not wanted.fields or name in fields} for row in rows]
    return {
        "choice": "ultra_ethernet_metrics",
        "ultra_ethernet_metrics": [{"choice": kind, kind: row} for row in chosen],
    }


def _port(generator: Generator, name: str) -> dict[str, Any]:
    now_ns = time.monotonic_ns()
    place, received = generator.places[name], generator.tallies.received[f"port {name}"]
    sent = generator.sent_by_port(name)
    sending, receiving = [tally.rates(now_ns) for tally in sent], received.rates(now_ns)
    is_sending = any(
        flow.tx_port == name and generator.state(flow.name) is State.STARTED for flow in generator.plan.flows
    ) or any(flow.tx_port == name and flow.name in generator.roce.running for flow in generator.plan.roce.flows)
    row = {
        "name": name,
        "location": generator.plan.ports[name].location or place.interface,
        "link": "down" if name in generator.down else "up",
        "capture": "started" if name in generator.capturing else "stopped",
        "transmit": "started" if is_sending else "stopped",
        "frames_tx": sum(tally.frames for tally in sent),
        "frames_rx": received.frames,
        "bytes_tx": sum(tally.octets for tally in sent),
        "bytes_rx": received.octets,
        "frames_tx_rate": float(sum(frames for frames, _ in sending)),
        "frames_rx_rate": float(receiving[0]),
        "bytes_tx_rate": float(sum(octets for _, octets in sending)),
        "bytes_rx_rate": float(receiving[1]),
        "speed": place.line.bps * place.line.scale // 8000,
    }
    if name in generator.changed_ns:
        row["last_change"] = generator.changed_ns[name]
    return row


def _flow(generator: Generator, flow: FlowPlan, counting: Counting) -> dict[str, Any]:
    now_ns = time.monotonic_ns()
    sent, received = generator.flow_tallies(flow.name)
    row: dict[str, Any] = {
        "name": flow.name,
        "port_tx": flow.tx_port,
        "transmit": generator.state(flow.name).value,
        "frames_tx": sent.frames,
        "frames_rx": received.frames,
        "bytes_tx": sent.octets,
        "bytes_rx": received.octets,
    }
    if len(flow.rx_ports) == 1:
        row["port_rx"] = flow.rx_ports[0]
    for end, tally in (("tx", sent), ("rx", received)):
        frames, octets = tally.rates(now_ns)
        row[f"frames_{end}_rate"] = float(frames)
        row |= _rates(end, frames, octets)
    if counting.loss:
        expected = sent.frames * counting.ratio
        row["loss"] = 100 * (expected - received.frames) / expected if expected else 0.0
    if counting.timestamps:
        row["timestamps"] = {
            "first_timestamp_ns": float(received.first_ns),
            "last_timestamp_ns": float(received.last_ns),
        }
    if counting.latency:
        least, most, average = received.latency_ns()
        row["latency"] = {"minimum_ns": float(least), "maximum_ns": float(most), "average_ns": average}
    return row


def _rates(end: str, frames: int, octets: int) -> Mapping[str, float]:
    bits = 8.0 * octets
    return {
        f"{end}_l1_rate_bps": bits + 8.0 * frames * (PREAMBLE + GAP),
        f"{end}_rate_bytes": float(octets),
        f"{end}_rate_bps": bits,
        f"{end}_rate_kbps": bits / 1e3,
        f"{end}_rate_mbps": bits / 1e6,
    }


def _roce(generator: Generator | None, wanted: MetricsRequest) -> dict[str, Any]:
    answer = _ROCE_ANSWERS[wanted.what]
    if generator is None:
        return {"choice": answer, answer: []}
    counts, messages, up = generator.roce_counts()
    plan = generator.plan.roce
    if wanted.what in _PEERS_OF:
        rows = []
        for peer, known in plan.peers.items():
            if known.ip_version == _PEERS_OF[wanted.what] and wanted.has(peer):
                pairs = {pair.name for pair in plan.pairs if pair.peer == peer}
                connected = {flow.pair.name for flow in plan.connections if flow.number in up}
                rows.append(_peer(peer, pairs, pairs & connected, messages[peer]))
    else:
        rows = [_queue_pair(generator, flow, counts[flow.number]) for flow in plan.flows]
    always = {"name", "flow_name"}
    fields = wanted.fields | always if wanted.fields else None
    return {
        "choice": answer,
        answer: [{name: value for name, value in row.items() if fields is None or name in fields} for row in rows],
    }


def _peer(name: str, pairs: Set[str], connected: Set[str], messages: Counter[str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": name,
        "qp_configured": len(pairs),
        "qp_up": len(connected),
        "qp_down": len(pairs) - len(connected),
    }
    return row | {word: messages[word] for word in _MESSAGES}


def _queue_pair(generator: Generator, flow: RoceFlow, counts: FlowCounts) -> dict[str, Any]:
    many, least, most, total = counts.latency_ns
    failed = counts.messages_sent - counts.messages_received if flow.name in generator.roce.failures else 0
    addresses = {"src_ipv4": str(flow.pair.address), "dest_ipv4": str(flow.pair.destination)}
    if flow.pair.ip_version == 6:
        addresses = {}  # the model has fields for IPv4 addresses alone
    return addresses | {
        "flow_name": flow.name,
        "port_tx": flow.tx_port,
        "port_rx": flow.rx_port,
        "src_qp": counts.source_pair,
        "dest_qp": counts.target_pair,
        "data_frames_tx": counts.data_sent,
        "data_frames_rx": counts.data_received,
        "frame_delta": counts.data_sent - counts.data_received,
        "data_frames_retransmitted": counts.retransmitted,
        "frame_sequence_error": counts.sequence_errors,
        "tx_bytes": counts.octets_sent,
        "rx_bytes": counts.octets_received,
        "data_tx_rate": counts.sent_bps / 1e9,
        "data_rx_rate": counts.received_bps / 1e9,
        "message_tx": counts.messages_sent,
        "message_complete_rx": counts.messages_received,
        "message_fail": failed,
        "flow_completion_time": (counts.last_ns - counts.begin_ns) // 10**6 if counts.last_ns else 0,
        "avg_latency": total // max(1, many),
        "min_latency": least,
        "max_latency": most,
        "ecn_ce_rx": counts.marked,
        "cnp_tx": counts.cnps_sent,
        "cnp_rx": counts.cnps_received,
        "ack_tx": counts.acks_sent,
        "ack_rx": counts.acks_received,
        "nak_tx": counts.naks_sent,
        "nak_rx": counts.naks_received,
        "first_timestamp": f"{counts.first_ns / 1e9:.9f}",
        "last_timestamp": f"{counts.last_ns / 1e9:.9f}",
    }


def states(generator: Generator | None, wanted: MetricsRequest) -> dict[str, Any]:
    """Return the gateways of devices, with the MAC addresses of those that are resolved."""
    if generator is None:
        return {"choice": wanted.what, wanted.what: []}
    found, version = generator.neighbours(), _VERSIONS[wanted.what]
    rows = []
    for device in generator.plan.devices:
        for one in device.interfaces:
            if one.address.version != version or not wanted.has(device.name):
                continue
            row = {"ethernet_name": device.name, f"ipv{version}_address": str(one.gateway)}
            if (mac := one.gateway_mac or found.get((device.name, one.gateway))) is not None:
                row["link_layer_address"] = str(mac)
            rows.append(row)
    return {"choice": wanted.what, wanted.what: rows}
