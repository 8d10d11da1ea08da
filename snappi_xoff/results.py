"""Answers in the words of snappi's model, as plain data: counters of the generator, and resolved addresses."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from testbed.otg.config import Counting, FlowPlan
from testbed.otg.lab.generator import Generator
from testbed.otg.pacing import GAP, PREAMBLE
from testbed.otg.requests import MetricsRequest
from testbed.otg.transmit import State

_ALWAYS = {"name", "port_tx", "port_rx", "loss", "timestamps", "latency"}
_VERSIONS = {"ipv4_neighbors": 4, "ipv6_neighbors": 6}


def metrics(generator: Generator | None, wanted: MetricsRequest) -> dict[str, Any]:
    """Return the metrics of ports or of flows at this moment; without a generator there are none."""
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


def _port(generator: Generator, name: str) -> dict[str, Any]:
    now_ns = time.monotonic_ns()
    place, received = generator.places[name], generator.tallies.received[f"port {name}"]
    sent = generator.sent_by_port(name)
    sending, receiving = [tally.rates(now_ns) for tally in sent], received.rates(now_ns)
    is_sending = any(
        flow.tx_port == name and generator.state(flow.name) is State.STARTED for flow in generator.plan.flows
    )
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
