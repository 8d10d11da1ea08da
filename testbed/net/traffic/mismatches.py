"""Warnings of what flows ask of a network whose settings do not give it: one for each kind, before the flows begin.

None of it is an error, as an experiment may want just that. But all of it is silent otherwise: frames are dropped as
the settings say, or all take one way. Behind these are those of RoCE flows alone, before they begin and at their end:
settings without effect, rate controls that nothing tells of congestion, and messages that did not come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields

from testbed.errors import listed
from testbed.frames.roce import Service
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.marks import Place, places, unmarked, unstamped
from testbed.net.fabric.ports import PortState, bridges
from testbed.net.traffic.flow import Flow
from testbed.net.traffic.report import Report
from testbed.net.traffic.roce_flow import MESSAGES_UNDER_WAY, RoceOptions, ds_field, line_of, transport_of
from testbed.net.traffic.transport import ip_version
from testbed.roce import rates
from testbed.roce.nic import Recovery, recovery_named
from testbed.roce.rates import Line
from testbed.roce.settings import Settings
from testbed.switch.ecn.field import Ecn
from testbed.switch.ways.path import by_frame
from testbed.switch.ways.settings import By, HashField, Ways
from testbed.units import Size

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
        elif settings.marking and queue in settings.marking.queues:
            continue  # in place of the curve a rule marks, which drops none
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


DROPS = {
    "incomplete": "a packet of them was missing", "no_receive": "no receive was posted",
    "too_long": "they are longer than their receive", "no_access": "there is no such memory",
    "other_keys": "their Q_Key is another one",
}  # fmt: skip
"""The reasons for which a target drops messages of an unreliable service, by the names of counters."""


def lost_messages(ended: Sequence[tuple[Flow, Report]]) -> list[str]:
    """Name the flows of unreliable services of which messages were lost, with the reasons that their targets know."""
    found = []
    for flow, report in ended:
        lost, drops = getattr(report, "lost_messages", 0), getattr(report, "drops", {})
        if not lost:
            continue
        messages = lost + getattr(report, "messages", 0)
        why = [f"{count} because {DROPS[name]}" for name, count in drops.items() if name != "other_keys"]
        rest = lost - sum(drops.values())
        why += [f"{rest} on the way" if why else "all of them on the way"] if rest > 0 else []
        found.append(
            f"{lost} of {messages} messages over {transport_of(flow).service} from "
            f"{flow.source.name} to {flow.target.name} did not come: {', '.join(why)}"
        )
    return found


def without_effect(flows: Collection[Flow]) -> list[str]:
    """Return a warning for each setting that changes nothing, with the flows that have it."""
    concerned: dict[str, list[str]] = {}
    for flow in flows:
        transport = transport_of(flow)
        recovery = recovery_named(transport.recovery)
        told = [
            f"Nic.{text}"
            for nic, _ in transport.nics()
            for text in nic.without_effect(recovery, transport.operation, transport.service)
        ]
        if not transport.is_reliable:
            told += _of_answers(transport)
        for text in dict.fromkeys(told):
            concerned.setdefault(text, []).append(f"{flow.source.name} to {flow.target.name}")
    found = [f"{text} (flows: {listed(whose, 4)}); it has no effect" for text, whose in concerned.items()]
    labelled = [flow for flow in flows if transport_of(flow).flow_label is not None and ip_version(flow) == 4]
    if labelled:
        whose = [f"{flow.source.name} to {flow.target.name}" for flow in labelled]
        found.append(f"Roce(flow_label=...) has no effect over IPv4 (flows: {listed(whose, 4)}); ip_version=6 does it")
    return found


_OF_ACKNOWLEDGEMENTS = ("ack_every", "window", "retransmit_after", "retries", "ack_timeout")
"""Settings that an unreliable service has no use for."""
_OF_TARGETS = ("ack_priority", "ack_dscp", "ack_ecn")


def _of_answers(transport: RoceOptions) -> list[str]:
    """Return the options of an unreliable flow that only acknowledgements and retransmissions would give an effect."""
    why = f"service is {transport.service}, which answers nothing and sends nothing again"
    usual = {one.name: one.default for one in fields(Settings)}
    names = [
        f"Settings.{name}"
        for name in _OF_ACKNOWLEDGEMENTS
        if any(getattr(settings, name) != usual[name] for _, settings in transport.nics())
    ]
    names += [f"Roce.{name}" for name in _OF_TARGETS if getattr(transport, name) is not None]
    if recovery_named(transport.recovery) is not Recovery.GO_BACK_N:
        names.append("Roce.recovery")
    return [f"{name}: {why}" for name in names]


def short_messages(flows: Iterable[Flow]) -> list[str]:
    """Return a warning for each window that was set and that as many messages as are under way do not fill."""
    concerned: dict[tuple[int, Size], list[str]] = {}
    for flow in flows:
        of = transport_of(flow)
        window = of.settings.window
        if not of.is_reliable:
            continue
        if recovery_named(of.recovery) is Recovery.SELECTIVE_REPEAT:
            window = min(window, of.nic_at(source=True).bdp_packets)
        most = MESSAGES_UNDER_WAY * of.message.bytes * of.queue_pairs
        is_longer = flow.size is None or flow.size.bytes > most
        if (
            window > Settings.window
            and MESSAGES_UNDER_WAY * -(-of.message.bytes // of.settings.mtu) < window
            and is_longer
        ):
            concerned.setdefault((window, of.message), []).append(f"{flow.source.name} to {flow.target.name}")
    return [
        f"a window of {window} packets is never full: {MESSAGES_UNDER_WAY} messages of {message} are under way at most "
        f"(flows: {listed(whose, 4)}); Roce(message=...) makes them longer"
        for (window, message), whose in concerned.items()
    ]


def out_of_order(flows: Iterable[Flow]) -> list[str]:
    """Return a warning for each recovery that takes a late packet for a lost one, if packets can be late."""
    ways = FabricCore.current().ways
    if ways is None or not any(plan.settings.is_by_frame for plans in ways.plans.values() for plan in plans):
        return []
    switches = ways.switches()
    concerned: dict[Recovery, dict[str, None]] = {}
    choosing: dict[Recovery, dict[str, By]] = {}
    for flow in flows:
        transport, first = transport_of(flow), FabricCore.current().ports.graph.neighbours.get(flow.source.name)
        if transport.service == Service.UD:
            continue
        recovery = recovery_named(transport.recovery)
        if recovery is Recovery.SELECTIVE_REPEAT or transport.nic_at(source=False).reorder_time.ns or not first:
            continue
        if found := by_frame(switches, first[0][1], flow.target.name):
            concerned.setdefault(recovery, {})[f"{flow.source.name} to {flow.target.name}"] = None
            choosing.setdefault(recovery, {}).update(found)
    return [
        f"{recovery} takes packets in their order alone, and {listed(list(choosing[recovery]), 4)} "
        f"{'gives' if len(choosing[recovery]) == 1 else 'give'} each frame a way of its own "
        f"({' and '.join(repr(str(one)) for one in dict.fromkeys(choosing[recovery].values()))}): what comes late is "
        f"sent again as if it were lost, with all behind it (flows: {listed(whose, 4)}). recovery='selective "
        "repeat' sends again what is missing alone, and Nic(reorder_time='10us') waits for it first"
        for recovery, whose in concerned.items()
    ]


def without_marks(flows: Sequence[Flow]) -> list[str]:
    """Return a warning for each priority and rate control that goes by marks, if nothing marks the packets."""
    fabric = FabricCore.current()
    made: dict[tuple[int, Line], rates.RateControl] = {}
    concerned: dict[tuple[str, int | None], list[Flow]] = {}
    silent: dict[tuple[str, int | None], dict[str, None]] = {}
    for flow in flows:
        line = line_of(flow.source)
        if (id(flow.rate_control), line) not in made:
            made[id(flow.rate_control), line] = rates.control(flow.rate_control, line)
        control, ds = made[id(flow.rate_control), line], ds_field(flow)
        if not control.needs_marks or ds & 3 == Ecn.CE:
            continue
        name = flow.rate_control if isinstance(flow.rate_control, str) else type(control).__name__
        found = None
        if ds & 3 != Ecn.NOT_ECT:
            found = unmarked(fabric.ports, flow.source.name, flow.target.name, flow.priority, ds)
            if found is None:
                continue
        key = name, None if found is None else found.priority
        concerned.setdefault(key, []).append(flow)
        silent.setdefault(key, {}).update((port.name, None) for port in (found.ports if found else ()))
    return [_without_marks(*key, flows, list(silent[key])) for key, flows in concerned.items()]


def without_telemetry(flows: Sequence[Flow]) -> list[str]:
    """Return a warning for each rate control that goes by telemetry, if no port on the way stamps it."""
    fabric = FabricCore.current()
    silent: dict[str, dict[str, None]] = {}
    for flow in flows:
        control = rates.control(flow.rate_control, line_of(flow.source))
        fabric.flows.read_telemetry |= control.needs_telemetry
        ports = unstamped(fabric.ports, flow.source.name, flow.target.name) if control.needs_telemetry else None
        if ports is not None:
            name = flow.rate_control if isinstance(flow.rate_control, str) else type(control).__name__
            silent.setdefault(name, {}).update((port.name, None) for port in ports)
    return [
        f"rate control {name} goes by telemetry alone, and keeps its first window: "
        + (
            f"no port on the way stamps it: {listed(list(ports), 8)}. Port(telemetry=True) makes these ports stamp"
            if ports
            else "there is no switch on the way"
        )
        for name, ports in silent.items()
    ]


def _without_marks(name: str, priority: int | None, flows: Sequence[Flow], ports: Sequence[str]) -> str:
    whose = listed([f"{flow.source.name} to {flow.target.name}" for flow in flows], 4)
    begin = f"rate control {name} of the flow from {whose}" if len(flows) == 1 else f"rate control {name} of {whose}"
    begin = f"{begin} slows down by marks alone, and will not: "
    if priority is None:
        return f"{begin}with ecn={int(Ecn.NOT_ECT)} nothing may mark the packets; leave ecn out"
    if not ports:
        return f"{begin}there is no switch on the way, so nothing marks"
    return (
        f"{begin}no port on the way marks priority {priority}: {listed(ports, 8)}. A curve at these ports does it, as "
        f'in Port(ecn={{{priority}: EcnCurve("40kB", "160kB", "20%")}})'
    )
