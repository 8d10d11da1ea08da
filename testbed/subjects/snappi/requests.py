"""The requests of a running test: states of traffic, captures, links and protocols; metrics; captures."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from testbed.errors import nearest
from testbed.subjects.snappi.config import TestPlan, known
from testbed.subjects.snappi.reading import Item, Reader

_PEERS_OF = {"rocev2_ipv4": 4, "rocev2_ipv6": 6}
"""The IP version of the peers of a request."""
_ROCE = {**dict.fromkeys(_PEERS_OF, "per_peer"), "rocev2_flow": "per_qp"}


@dataclass(frozen=True)
class Control:
    """A change of state. `names` are flows or ports; empty for all of them."""

    what: str
    """The things that change: `flows`, `capture`, `link`, `protocols`, `llr` or `cbfc`."""
    state: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class MetricsRequest:
    """A request for metrics or states."""

    what: str
    """The kind: `port`, `flow`, `rocev2_ipv4`, `rocev2_ipv6`, `rocev2_flow` or what there is of `ultra_ethernet`;
    `ipv4_neighbors` or `ipv6_neighbors`."""
    names: tuple[str, ...]
    """The names of ports, flows or peers; empty for all."""
    fields: frozenset[str] = frozenset()
    """Empty: all."""

    def has(self, name: str) -> bool:
        return not self.names or name in self.names


@dataclass(frozen=True)
class CaptureRequest:
    """A request for a capture: the frames from `first` on, counted from 0."""

    port: str
    first: int = 0
    most: int | None = None


@contextmanager
def _reading(request: Mapping[str, Any]) -> Iterator[Item]:
    reader = Reader()
    with reader.item(request) as item:
        yield item
    reader.finish()


def read_control(request: Mapping[str, Any], plan: TestPlan) -> Control:
    with _reading(request) as item:
        chosen = item.choice("", "port", "traffic", "protocol", "ultra_ethernet")
        control = Control("", "")
        if chosen == "ultra_ethernet":
            with item.item(chosen) as inner:
                control = _link_layer(inner, plan)
        elif chosen:
            with item.item(chosen) as inner:
                control = _control(inner, chosen, plan)
    return control


def _control(item: Item, chosen: str, plan: TestPlan) -> Control:
    flows = dict.fromkeys(plan.flow_names)
    kinds: dict[str, tuple[str, str, Collection[str], Mapping[str, Any]]] = {
        "flow_transmit": ("flows", "flow_names", ("start", "stop", "pause", "resume"), flows),
        "capture": ("capture", "port_names", ("start", "stop"), plan.ports),
        "link": ("link", "port_names", ("up", "down"), plan.ports),
        "all": ("protocols", "", ("start", "stop"), {}),
    }
    names = {"traffic": ("flow_transmit",), "port": ("capture", "link"), "protocol": ("all",)}[chosen]
    kind = item.choice("", *names)
    if not kind:
        return Control("", "")
    what, targets, states, existing = kinds[kind]
    with item.item(kind) as inner:
        state = inner.one_of("state", tuple(states), "start")
        targeted = tuple(known(inner, targets, existing)) if targets else ()
        if what == "capture":
            targeted = _capturing(inner, targeted, plan)
    return Control(what, state, targeted)


def _link_layer(item: Item, plan: TestPlan) -> Control:
    from testbed.subjects.snappi.ultra_ethernet.settings import states_of

    kind = item.choice("", "llr", "cbfc")
    if not kind:
        return Control("", "")
    instances = dict.fromkeys(layer.name for layer in plan.link_layers.values())
    with item.item(kind) as inner:
        if not instances:
            inner.error("ultra_ethernet_names", "the configuration has no ultra_ethernet")
        state = inner.one_of("state", states_of(kind), "")
        if kind == "cbfc" and state.startswith("receiver"):
            inner.error("state", f"it is {state}; a test port of Xoff has no receiver of credits")
        return Control(kind, state, tuple(known(inner, "ultra_ethernet_names", instances)))


def _capturing(item: Item, names: tuple[str, ...], plan: TestPlan) -> tuple[str, ...]:
    for name in names:
        if name not in plan.captures:
            item.error("port_names", f"{name} is in no capture of the configuration")
    return names or tuple(plan.captures)


def read_metrics(request: Mapping[str, Any], plan: TestPlan) -> MetricsRequest:
    counted = {flow.name: flow for flow in plan.flows if flow.counting is not None}
    with _reading(request) as item:
        chosen = item.choice("port", "port", "flow", *_ROCE, "ultra_ethernet")
        wanted = MetricsRequest(chosen, ())
        if chosen == "ultra_ethernet":
            with item.item(chosen) as inner:
                wanted = _read_link_layer(inner, plan)
        elif chosen in _ROCE:
            with item.item(chosen) as inner:
                wanted = _read_roce(inner, chosen, plan)
        elif chosen:
            with item.item(chosen) as inner:
                if chosen == "port":
                    names, fields = known(inner, "port_names", plan.ports), inner.texts("column_names")
                else:
                    inner.ignore("tagged_metrics")
                    names, fields = _counted(inner, plan, counted), inner.texts("metric_names")
                wanted = MetricsRequest(chosen, tuple(names), frozenset(fields))
    return wanted


def _read_roce(item: Item, chosen: str, plan: TestPlan) -> MetricsRequest:
    """Read a request for metrics of RoCEv2. A peer's device is as good a name as the peer itself."""
    part, names = _ROCE[chosen], list[str]()
    if item.choice(part, part):
        with item.item(part) as inner:
            fields = inner.texts("column_names")
            if chosen in _PEERS_OF:
                peers = {
                    name: peer.device for name, peer in plan.roce.peers.items() if peer.ip_version == _PEERS_OF[chosen]
                }
                for name in known(inner, "peer_names", {**peers, **dict.fromkeys(peers.values())}):
                    names += [name] if name in peers else [peer for peer, device in peers.items() if device == name]
            return MetricsRequest(chosen, tuple(names), frozenset(fields))
    return MetricsRequest(chosen, ())


def _read_link_layer(item: Item, plan: TestPlan) -> MetricsRequest:
    from testbed.subjects.snappi.ultra_ethernet.columns import COLUMNS
    from testbed.subjects.snappi.ultra_ethernet.model import METRICS, STATISTICS, Part, Words

    kind = item.choice("llr_cbfc_stat", *STATISTICS)
    names = known(item, "port_names", plan.link_layers)
    if not kind:
        return MetricsRequest("", ())
    part = METRICS["UltraEthernet.Metrics.Request"][kind]
    columns = METRICS[part.schema]["column_names"] if isinstance(part, Part) else None
    with item.item(kind) as inner:
        fields = inner.texts("column_names")
        for number, name in enumerate(fields):
            if isinstance(columns, Words) and name not in columns.words:
                inner.error(f"column_names[{number}]", f"there is no {name!r}; {nearest(name, columns.words)}")
            elif name not in COLUMNS[kind]:
                inner.error(f"column_names[{number}]", f"Xoff does not count {name}")
    return MetricsRequest(kind, tuple(names), frozenset(fields))


def _counted(item: Item, plan: TestPlan, counted: Mapping[str, Any]) -> list[str]:
    flows = {flow.name: flow for flow in plan.flows}
    names = known(item, "flow_names", flows)
    for name in names:
        if name not in counted:
            item.error("flow_names", f"{name} is not counted: its metrics.enable is not set")
    return names


def read_states(request: Mapping[str, Any], plan: TestPlan) -> MetricsRequest:
    devices = {device.name: device for device in plan.devices}
    with _reading(request) as item:
        chosen = item.choice("ipv4_neighbors", "ipv4_neighbors", "ipv6_neighbors")
        wanted = MetricsRequest(chosen, ())
        if chosen:
            with item.item(chosen) as inner:
                wanted = MetricsRequest(chosen, tuple(known(inner, "ethernet_names", devices)))
    return wanted


def read_capture(request: Mapping[str, Any], plan: TestPlan) -> CaptureRequest:
    with _reading(request) as item:
        names = known(item, "port_name", plan.captures)
        first, most = 0, None
        with item.item("packets") as packets:
            if packets.choice("all", "all", "slice") == "slice":
                with packets.item("slice") as part:
                    if part.choice("initial", "initial"):
                        with part.item("initial") as initial:
                            first = initial.integer("start", 1, 1) - 1
                            most = initial.integer("count", 100, 1)
    return CaptureRequest(names[0] if names else "", first, most)
