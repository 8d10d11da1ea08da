"""Warnings of what flows ask of a network whose settings do not give it: one for each kind, before the flows begin.

None of it is an error, as an experiment may want just that. But all of it is silent otherwise: frames are dropped as
the settings say, or all take one way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from testbed.errors import listed
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.marks import Place, places
from testbed.net.fabric.ports import PortState, bridges
from testbed.net.traffic.flow import Flow
from testbed.switch.ways.settings import HashField, Ways

_BESIDE_MTU = 18
"""The octets of a frame beside what counts for the MTU: its header, and the tag that Linux lets pass in any case."""
_IN_ALL = (
    HashField.SOURCE
    | HashField.DESTINATION
    | HashField.PROTOCOL
    | HashField.SOURCE_PORT
    | HashField.DESTINATION_PORT
    | HashField.SOURCE_MAC
    | HashField.DESTINATION_MAC
)
"""The fields that frames of all flows have; IPv4 has no flow label."""
_MOST = 4


def mismatches(flows: Sequence[Flow]) -> Iterator[str]:
    """Yield a warning for each setting of a port, switch or cable that some of these flows do not fit."""
    core = FabricCore.current()
    found: dict[str, dict[str, None]] = {}
    for flow in flows:
        name = f"{flow.source.name} to {flow.target.name}"
        for text in dict.fromkeys(_of_flow(core, flow)):
            found.setdefault(text, {})[name] = None
    for text, names in found.items():
        yield text.format(flows=f"frames of {'flow' if len(names) == 1 else 'flows'} {listed(names, _MOST)}")


def _of_flow(core: FabricCore, flow: Flow) -> Iterator[str]:
    table = core.ports
    if not {flow.source.name, flow.target.name} <= table.graph.neighbours.keys():
        return  # in a network without lossless ports
    way = [table.port(name) for name in table.graph.way(flow.source.name, flow.target.name) or ()]
    yield from _too_long(way, flow)
    if core.ways:
        yield from _without_fields(
            (plan.settings for port in way for plan in core.ways.plans.get(port.node.name, ())), flow
        )
    if way:
        ds_field = flow.transport.ds_field(flow)
        yield from _of_queues(list(places(table, [port.name for port in way], flow.priority, ds_field)), flow, ds_field)


def _too_long(way: Sequence[PortState], flow: Flow) -> Iterator[str]:
    """A host divides what is too long for its own cable; a switch drops what is too long for the next one."""
    for port in way[1:]:
        mtu = port.lab_cable.mtu
        if bridges(port.node) and min(flow.frame.bytes, way[0].lab_cable.mtu + _BESIDE_MTU) > mtu + _BESIDE_MTU:
            yield (
                f"{{flows}} have up to {flow.frame.bytes} octets, and the cable at {port.name} has an MTU of {mtu}: "
                "longer ones are lost there; give both cables one mtu, or the flow a shorter frame"
            )
            return


def _without_fields(settings: Iterable[Ways], flow: Flow) -> Iterator[str]:
    has = _IN_ALL | (HashField.QUEUE_PAIR if flow.transport.name == "roce" else HashField(0))
    if flow.transport.version_of(flow) == 6:
        has |= HashField.FLOW_LABEL
    for ways in settings:
        if ways.hashes and not ways.mask & has:
            names = ", ".join(repr(name) for name in ways.fields)
            yield (
                f"Ways(fields=({names},)): {{flows}}, transport {flow.transport.name}, have none of these fields, so "
                "all of them have one hash and take one way; without fields it is the five-tuple"
            )


def _of_queues(way: Sequence[Place], flow: Flow, ds_field: int) -> Iterator[str]:
    first = way[0].port.settings
    wants_lossless = first is not None and flow.priority in first.pfc.enabled
    drops, is_lossy = dict[str, None](), dict[str, None]()
    for place in way:
        settings, queue = place.port.settings, place.queue
        if queue is None or settings is None:
            continue
        curve = settings.ecn.get(queue)
        if queue not in settings.pfc.enabled:
            is_lossy[place.port.name] = None
        elif curve and not ds_field & 3 and not curve.keep_not_ect:
            drops[place.port.name] = None
    if drops:
        yield (
            f"{{flows}} are Not-ECT, and a curve of their lossless priority drops them where it would mark others, at "
            f"{listed(drops, _MOST)}; give the flow an ecn, or the curve keep_not_ect=True"
        )
    if wants_lossless and is_lossy:
        yield (
            f"{{flows}} ask for priority {flow.priority}, which is lossless, but have DSCP {ds_field >> 2}, by which "
            f"they are lossy at {listed(is_lossy, _MOST)}; leave dscp out, or map it in PriorityMap(dscp_to_dot1p=...)"
        )
