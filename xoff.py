"""Xoff's public face: what an experiment, a topology, a rate control, a test or a notebook imports.

    from xoff import Flow, Incast, experiment, network

Names are loaded on demand, and on any machine with Python alone: Mininet is needed to start a network and not to
describe one. docs/reference/api.md describes every name in `__all__`, and says which of them are stable.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from testbed.agent.event_log import LoggedEvent
    from testbed.errors import UsageError, XoffError
    from testbed.experiment.definition import Experiment, experiment
    from testbed.experiment.fidelity import Thresholds
    from testbed.experiment.parameters import Between, File, OneOf
    from testbed.experiment.run import Run
    from testbed.frames import Mac
    from testbed.frames.dcbx.values import AppEntry, DcbxVersion, Ets, EtsRecommendation
    from testbed.frames.dcbx.values import Selector as AppSelector
    from testbed.frames.lldp_timers import LldpTimers
    from testbed.frames.mac_control import LONGEST_PAUSE, Meaning, PauseFrame, PfcFrame
    from testbed.frames.telemetry import Stamp
    from testbed.lab.engines.engine import Engine, PreparedEngine
    from testbed.lab.engines.table import prepare
    from testbed.lab.job.job import Limits
    from testbed.lab.results.result import Claim, Exit, Result, Status
    from testbed.lab.runs.api import Watcher, run
    from testbed.lab.studies.batch import Task, TaskOutcome
    from testbed.lab.studies.cluster.client import Cluster
    from testbed.lab.studies.sweep import Sweep
    from testbed.lab.studies.sweep import run as sweep
    from testbed.lab.studies.sweep_tables import Failure as SweepFailure
    from testbed.lab.studies.sweep_tables import Row as SweepRow
    from testbed.linux.port_program.records import (
        BufferCounters,
        Deaths,
        GroupCounters,
        GroupLimits,
        PortCounters,
        QueueCounters,
    )
    from testbed.linux.port_program.trimming_tables import Trimmed
    from testbed.linux.port_program.tunnel_ecn import TunnelMarks
    from testbed.linux.vswitch import Vswitch
    from testbed.measures.frames import FrameCounts
    from testbed.measures.outcome import (
        Progress,
        RoceOutcome,
        jain_index,
        marking,
        percentages,
        progress,
        roce_outcome,
        steady_rates,
        total_rate,
    )
    from testbed.measures.random_flows import FlowCompletion, flow_completions, flow_sizes, random_flows
    from testbed.measures.stopped_queue import StoppedQueue
    from testbed.net.build.graph import Topo
    from testbed.net.build.network import Network, NetworkBlock, network
    from testbed.net.build.nodes import LosslessLeaf, LosslessRouter, LosslessSwitch, RdmaHost
    from testbed.net.build.topo import LeafController, LosslessTopo, TopoError
    from testbed.net.fabric.cable import Cable
    from testbed.net.fabric.cabling import Cabling
    from testbed.net.fabric.deadlocks import FoundDeadlock
    from testbed.net.fabric.fabric import Fabric, Mismatch
    from testbed.net.fabric.link.credits import CreditCounters, VcCounters
    from testbed.net.fabric.port import ROCE as ROCE_PRIORITY
    from testbed.net.fabric.port import Buffer, Port, Reaction
    from testbed.net.fabric.ports import PortState
    from testbed.net.fabric.rules.at_ports import MarkingReading
    from testbed.net.fabric.rules.at_switches import WayRuleReading, way_rule
    from testbed.net.shell.wire import RawPort, Tap, capture
    from testbed.net.traffic import Flow, Flows, Report, flowing, ping, probe
    from testbed.net.traffic.roce import Roce, RoceReport
    from testbed.net.traffic.roce_flow import UsedQueuePair
    from testbed.net.traffic.tcp import Tcp, TcpReport
    from testbed.net.traffic.transport import Endpoint, EndpointControl, Outcome, Transport
    from testbed.net.traffic.transport import register as register_transport
    from testbed.net.traffic.udp import Udp
    from testbed.net.traffic.workload import flows as roce_flows
    from testbed.net.watch.tunnels import tunnel_marks
    from testbed.plot.figure import Plot, plot
    from testbed.report.exports.sql import sql
    from testbed.report.notebook.widget import widget
    from testbed.rest.client import Client as ControllerClient
    from testbed.roce.nic import Nic, Recovery
    from testbed.roce.rates import Acknowledgement, Dcqcn, Fixed, Line, RateControl, Swift, SwiftParameters, Timely
    from testbed.roce.rates import register as register_rate_control
    from testbed.roce.rates.dcqcn import PAPER as DCQCN_PAPER
    from testbed.roce.rates.dcqcn import DcqcnParameters
    from testbed.roce.rates.hpcc import Hpcc, HpccParameters
    from testbed.roce.rates.timely import TimelyParameters
    from testbed.roce.settings import CnpModeration, CnpScope
    from testbed.roce.settings import Settings as RoceSettings
    from testbed.strict.problems import Severity
    from testbed.subjects.dcbx.features.congestion_notification import CnAdmin
    from testbed.subjects.dcbx.features.link_layer import LinkLayer
    from testbed.subjects.dcbx.features.recommendation import Shares as RecommendedShares
    from testbed.subjects.dcbx.features.virtual_channels import VirtualChannels
    from testbed.subjects.dcbx.lab.running import configure_dcbx, dcbx_state, measure_headroom
    from testbed.subjects.dcbx.machines import TieBreak
    from testbed.subjects.dcbx.settings import ApplicationAdmin, DcbxSettings, EtsAdmin, PfcAdmin, Recommend
    from testbed.subjects.qos.fabric import Partition as QosPartition
    from testbed.subjects.qos.fabric import PortKey
    from testbed.subjects.qos.lab.subnet_manager import SubnetManager
    from testbed.subjects.qos.lab.subnet_manager import Sweep as SubnetSweep
    from testbed.subjects.qos.model import Policy
    from testbed.subjects.qos.plan import Difference as PlanDifference
    from testbed.subjects.qos.setup import Finding as QosFinding
    from testbed.subjects.qos.syntax.check import load as load_policy
    from testbed.subjects.qos.syntax.grammar import Syntax as PolicySyntax
    from testbed.subjects.routing.bird import Bird
    from testbed.subjects.routing.frr import Frr
    from testbed.subjects.routing.protocols import Bfd, Bgp, Isis, Ospf
    from testbed.subjects.routing.router import Router
    from testbed.subjects.sonic.lab.settings import Switch as SonicSwitch
    from testbed.subjects.sonic.lab.topo import SonicTopo
    from testbed.subjects.srv6.lab.controller import ControllerAccess, SrController
    from testbed.subjects.srv6.lab.running import wan_filtered, wan_state
    from testbed.switch.buffer.headroom import DynamicSharedHeadroom, HeadroomPolicy, SharedHeadroomPool
    from testbed.switch.buffer.settings import (
        BufferSettings,
        Dynamic,
        GroupSettings,
        Pool,
        QueueSettings,
        Static,
        split_evenly,
    )
    from testbed.switch.credits.settings import CreditMode, PortCredits
    from testbed.switch.ecn.curve import EcnCurve
    from testbed.switch.ecn.field import Ecn
    from testbed.switch.headroom.exchange import Points as MeasurementPoints
    from testbed.switch.headroom.exchange import Settings as MeasurementSettings
    from testbed.switch.link.counters import LlrReport
    from testbed.switch.link.errors import BitErrors, FecErrors
    from testbed.switch.link.jam import Jam, LineFate, LineUnit
    from testbed.switch.link.retry import Llr, LlrAction
    from testbed.switch.pfc.settings import Action as WatchdogAction
    from testbed.switch.pfc.settings import Kind as WatchdogKind
    from testbed.switch.pfc.settings import PfcSettings, WatchdogSettings
    from testbed.switch.priority.negotiation import Negotiation
    from testbed.switch.priority.settings import PriorityMap, Trust
    from testbed.switch.rules.choosing import ForwardedFrame, SwitchLine, WayLoad, WayRule
    from testbed.switch.rules.hooks import OfferedFrame, PortRule, StampedPacket
    from testbed.switch.rules.marking import Marking, MarkingRule, PortLine, QueuedFrame
    from testbed.switch.rules.model import MarkedPort, SentFrame
    from testbed.switch.trimming.settings import TrimException, Trimming
    from testbed.switch.ways.settings import HashField, Ways
    from testbed.units import Duration, Length, Rate, Scale, Size
    from testbed.units.quantity import Quantity
    from testbed.workload.sizes import Distribution as FlowSizes
    from testbed.workload.statistics import percentile
    from testbed.workload.transfers import (
        Transfer,
        all_to_all,
        halving_doubling_all_reduce,
        incast,
        on_off,
        permutation,
        request_response,
        ring_all_gather,
        ring_all_reduce,
        tree_all_reduce,
    )
    from topologies.back_to_back import BackToBack
    from topologies.chain import Chain
    from topologies.clos import Clos
    from topologies.dc1_wan_dc2 import Dc1WanDc2
    from topologies.dragonfly import Dragonfly
    from topologies.dumbbell import Dumbbell
    from topologies.fat_tree import FatTree
    from topologies.incast import Incast
    from topologies.leaf_spine import LeafSpine
    from topologies.parking_lot import ParkingLot
    from topologies.rail import Rail
    from topologies.ring import Ring
    from topologies.routed_fat_tree import RoutedFatTree
    from topologies.routed_leaf_spine import RoutedLeafSpine
    from topologies.srv6_ring import Srv6Ring
    from topologies.srv6_wan import Srv6Wan
    from topologies.star import Star
    from topologies.three_links import ThreeLinks

__all__ = [
    "DCQCN_PAPER",
    "LONGEST_PAUSE",
    "ROCE_PRIORITY",
    "Acknowledgement",
    "AppEntry",
    "AppSelector",
    "ApplicationAdmin",
    "BackToBack",
    "Between",
    "Bfd",
    "Bgp",
    "Bird",
    "BitErrors",
    "Buffer",
    "BufferCounters",
    "BufferSettings",
    "Cable",
    "Cabling",
    "Chain",
    "Claim",
    "Clos",
    "Cluster",
    "CnAdmin",
    "CnpModeration",
    "CnpScope",
    "ControllerAccess",
    "ControllerClient",
    "CreditCounters",
    "CreditMode",
    "Dc1WanDc2",
    "DcbxSettings",
    "DcbxVersion",
    "Dcqcn",
    "DcqcnParameters",
    "Deaths",
    "Dragonfly",
    "Dumbbell",
    "Duration",
    "Dynamic",
    "DynamicSharedHeadroom",
    "Ecn",
    "EcnCurve",
    "Endpoint",
    "EndpointControl",
    "Engine",
    "Ets",
    "EtsAdmin",
    "EtsRecommendation",
    "Exit",
    "Experiment",
    "Fabric",
    "FatTree",
    "FecErrors",
    "File",
    "Fixed",
    "Flow",
    "FlowCompletion",
    "FlowSizes",
    "Flows",
    "ForwardedFrame",
    "FoundDeadlock",
    "FrameCounts",
    "Frr",
    "GroupCounters",
    "GroupLimits",
    "GroupSettings",
    "HashField",
    "HeadroomPolicy",
    "Hpcc",
    "HpccParameters",
    "Incast",
    "Isis",
    "Jam",
    "LeafController",
    "LeafSpine",
    "Length",
    "Limits",
    "Line",
    "LineFate",
    "LineUnit",
    "LinkLayer",
    "LldpTimers",
    "Llr",
    "LlrAction",
    "LlrReport",
    "LoggedEvent",
    "LosslessLeaf",
    "LosslessRouter",
    "LosslessSwitch",
    "LosslessTopo",
    "Mac",
    "MarkedPort",
    "Marking",
    "MarkingReading",
    "MarkingRule",
    "Meaning",
    "MeasurementPoints",
    "MeasurementSettings",
    "Mismatch",
    "Negotiation",
    "Network",
    "NetworkBlock",
    "Nic",
    "OfferedFrame",
    "OneOf",
    "Ospf",
    "Outcome",
    "ParkingLot",
    "PauseFrame",
    "PfcAdmin",
    "PfcFrame",
    "PfcSettings",
    "PlanDifference",
    "Plot",
    "Policy",
    "PolicySyntax",
    "Pool",
    "Port",
    "PortCounters",
    "PortCredits",
    "PortKey",
    "PortLine",
    "PortRule",
    "PortState",
    "PreparedEngine",
    "PriorityMap",
    "Progress",
    "QosFinding",
    "QosPartition",
    "Quantity",
    "QueueCounters",
    "QueueSettings",
    "QueuedFrame",
    "Rail",
    "Rate",
    "RateControl",
    "RawPort",
    "RdmaHost",
    "Reaction",
    "Recommend",
    "RecommendedShares",
    "Recovery",
    "Report",
    "Result",
    "Ring",
    "Roce",
    "RoceOutcome",
    "RoceReport",
    "RoceSettings",
    "RoutedFatTree",
    "RoutedLeafSpine",
    "Router",
    "Run",
    "Scale",
    "SentFrame",
    "Severity",
    "SharedHeadroomPool",
    "Size",
    "SonicSwitch",
    "SonicTopo",
    "SrController",
    "Srv6Ring",
    "Srv6Wan",
    "Stamp",
    "StampedPacket",
    "Star",
    "Static",
    "Status",
    "StoppedQueue",
    "SubnetManager",
    "SubnetSweep",
    "Sweep",
    "SweepFailure",
    "SweepRow",
    "Swift",
    "SwiftParameters",
    "SwitchLine",
    "Tap",
    "Task",
    "TaskOutcome",
    "Tcp",
    "TcpReport",
    "ThreeLinks",
    "Thresholds",
    "TieBreak",
    "Timely",
    "TimelyParameters",
    "Topo",
    "TopoError",
    "Transfer",
    "Transport",
    "TrimException",
    "Trimmed",
    "Trimming",
    "Trust",
    "TunnelMarks",
    "Udp",
    "UsageError",
    "UsedQueuePair",
    "VcCounters",
    "VirtualChannels",
    "Vswitch",
    "WatchdogAction",
    "WatchdogKind",
    "WatchdogSettings",
    "Watcher",
    "WayLoad",
    "WayRule",
    "WayRuleReading",
    "Ways",
    "XoffError",
    "all_to_all",
    "capture",
    "configure_dcbx",
    "dcbx_state",
    "experiment",
    "flow_completions",
    "flow_sizes",
    "flowing",
    "halving_doubling_all_reduce",
    "incast",
    "jain_index",
    "load_policy",
    "marking",
    "measure_headroom",
    "network",
    "on_off",
    "percentages",
    "percentile",
    "permutation",
    "ping",
    "plot",
    "prepare",
    "probe",
    "progress",
    "random_flows",
    "register_rate_control",
    "register_transport",
    "request_response",
    "ring_all_gather",
    "ring_all_reduce",
    "roce_flows",
    "roce_outcome",
    "run",
    "split_evenly",
    "sql",
    "steady_rates",
    "sweep",
    "total_rate",
    "tree_all_reduce",
    "tunnel_marks",
    "wan_filtered",
    "wan_state",
    "way_rule",
    "widget",
]

_PLACES: dict[str, dict[str, str]] = {
    "Experiments and runs": {
        "testbed.experiment.definition": "experiment Experiment",
        "testbed.experiment.parameters": "Between OneOf File",
        "testbed.experiment.run": "Run",
        "testbed.lab.runs.api": "run Watcher",
        "testbed.lab.engines.table": "prepare",
        "testbed.lab.engines.engine": "Engine PreparedEngine",
        "testbed.lab.job.job": "Limits",
        "testbed.experiment.fidelity": "Thresholds",
        "testbed.lab.results.result": "Result Claim Status Exit",
        "testbed.lab.studies.sweep": "sweep=run Sweep",
        "testbed.lab.studies.batch": "Task TaskOutcome",
        "testbed.lab.studies.cluster.client": "Cluster",
        "testbed.lab.studies.sweep_tables": "SweepRow=Row SweepFailure=Failure",
        "testbed.plot.figure": "plot Plot",
        "testbed.report.exports.sql": "sql",
        "testbed.report.notebook.widget": "widget",
    },
    "Quantities and errors": {
        "testbed.units": "Duration Length Rate Scale Size",
        "testbed.units.quantity": "Quantity",
        "testbed.errors": "XoffError UsageError",
    },
    "Networks": {
        "testbed.net.build.network": "network Network NetworkBlock",
        "testbed.net.fabric.fabric": "Fabric Mismatch",
        "testbed.net.fabric.ports": "PortState",
        "testbed.net.fabric.cabling": "Cabling",
        "testbed.net.fabric.deadlocks": "FoundDeadlock",
        "testbed.linux.port_program.records": (
            "GroupCounters GroupLimits QueueCounters PortCounters Deaths BufferCounters"
        ),
        "testbed.agent.event_log": "LoggedEvent",
        "testbed.net.build.topo": "LosslessTopo TopoError LeafController",
        "testbed.net.build.graph": "Topo",
        "testbed.net.build.nodes": "LosslessSwitch LosslessLeaf LosslessRouter RdmaHost",
        "testbed.linux.vswitch": "Vswitch",
        "testbed.net.fabric.cable": "Cable",
        "testbed.net.fabric.port": "Port Buffer Reaction ROCE_PRIORITY=ROCE",
        "testbed.switch.headroom.exchange": "MeasurementSettings=Settings MeasurementPoints=Points",
        "testbed.switch.buffer.headroom": "HeadroomPolicy DynamicSharedHeadroom SharedHeadroomPool",
        "testbed.switch.buffer.settings": "Static Dynamic GroupSettings QueueSettings Pool BufferSettings split_evenly",
        "testbed.switch.ecn.curve": "EcnCurve",
        "testbed.switch.link.counters": "LlrReport",
        "testbed.switch.link.errors": "BitErrors FecErrors",
        "testbed.switch.link.jam": "Jam LineUnit LineFate",
        "testbed.switch.link.retry": "Llr LlrAction",
        "testbed.switch.rules.marking": "MarkingRule PortLine QueuedFrame Marking",
        "testbed.switch.rules.hooks": "PortRule OfferedFrame StampedPacket",
        "testbed.switch.rules.choosing": "WayRule SwitchLine ForwardedFrame WayLoad",
        "testbed.switch.rules.model": "MarkedPort SentFrame",
        "testbed.net.fabric.rules.at_ports": "MarkingReading",
        "testbed.net.fabric.rules.at_switches": "WayRuleReading way_rule",
        "testbed.switch.trimming.settings": "TrimException Trimming",
        "testbed.linux.port_program.trimming_tables": "Trimmed",
        "testbed.linux.port_program.tunnel_ecn": "TunnelMarks",
        "testbed.net.watch.tunnels": "tunnel_marks",
        "testbed.switch.credits.settings": "CreditMode PortCredits",
        "testbed.net.fabric.link.credits": "CreditCounters VcCounters",
        "testbed.switch.ways.settings": "Ways HashField",
        "testbed.switch.pfc.settings": "PfcSettings WatchdogSettings WatchdogAction=Action WatchdogKind=Kind",
        "testbed.switch.priority.settings": "PriorityMap Trust",
        "testbed.frames.dcbx.values": "DcbxVersion Ets EtsRecommendation AppEntry AppSelector=Selector",
        "testbed.subjects.dcbx.features.link_layer": "LinkLayer",
        "testbed.subjects.dcbx.features.virtual_channels": "VirtualChannels",
        "testbed.subjects.dcbx.settings": "DcbxSettings PfcAdmin EtsAdmin ApplicationAdmin Recommend",
        "testbed.frames.lldp_timers": "LldpTimers",
        "testbed.switch.priority.negotiation": "Negotiation",
        "testbed.subjects.dcbx.machines": "TieBreak",
        "testbed.subjects.dcbx.lab.running": "dcbx_state configure_dcbx measure_headroom",
        "testbed.subjects.dcbx.features.recommendation": "RecommendedShares=Shares",
        "testbed.subjects.dcbx.features.congestion_notification": "CnAdmin",
    },
    "Topologies": {
        "topologies.back_to_back": "BackToBack",
        "topologies.chain": "Chain",
        "topologies.clos": "Clos",
        "topologies.dc1_wan_dc2": "Dc1WanDc2",
        "topologies.dragonfly": "Dragonfly",
        "topologies.dumbbell": "Dumbbell",
        "topologies.fat_tree": "FatTree",
        "topologies.incast": "Incast",
        "topologies.leaf_spine": "LeafSpine",
        "topologies.parking_lot": "ParkingLot",
        "topologies.rail": "Rail",
        "topologies.ring": "Ring",
        "topologies.routed_fat_tree": "RoutedFatTree",
        "topologies.routed_leaf_spine": "RoutedLeafSpine",
        "topologies.srv6_ring": "Srv6Ring",
        "topologies.srv6_wan": "Srv6Wan",
        "topologies.star": "Star",
        "topologies.three_links": "ThreeLinks",
        "testbed.subjects.sonic.lab.topo": "SonicTopo",
    },
    "Routing daemons": {
        "testbed.subjects.routing.frr": "Frr",
        "testbed.subjects.routing.bird": "Bird",
        "testbed.subjects.routing.protocols": "Bgp Ospf Isis Bfd",
        "testbed.subjects.routing.router": "Router",
    },
    "Traffic": {
        "testbed.net.traffic": "Flow Flows flowing Report ping probe",
        "testbed.net.traffic.transport": "Transport Endpoint EndpointControl Outcome register_transport=register",
        "testbed.net.traffic.tcp": "Tcp TcpReport",
        "testbed.net.traffic.udp": "Udp",
        "testbed.net.traffic.roce": "Roce RoceReport",
        "testbed.net.traffic.roce_flow": "UsedQueuePair",
        "testbed.roce.settings": "RoceSettings=Settings CnpScope CnpModeration",
        "testbed.roce.rates": (
            "RateControl Line Acknowledgement register_rate_control=register Dcqcn Fixed Timely Swift SwiftParameters"
        ),
        "testbed.roce.rates.timely": "TimelyParameters",
        "testbed.frames.telemetry": "Stamp",
        "testbed.roce.rates.hpcc": "Hpcc HpccParameters",
        "testbed.roce.nic": "Nic Recovery",
        "testbed.roce.rates.dcqcn": "DcqcnParameters DCQCN_PAPER=PAPER",
        "testbed.switch.ecn.field": "Ecn",
    },
    "Workloads": {
        "testbed.measures.random_flows": "random_flows flow_sizes flow_completions FlowCompletion",
        "testbed.workload.sizes": "FlowSizes=Distribution",
        "testbed.workload.statistics": "percentile",
        "testbed.workload.transfers": (
            "Transfer incast permutation all_to_all ring_all_reduce ring_all_gather halving_doubling_all_reduce "
            "tree_all_reduce request_response on_off"
        ),
        "testbed.net.traffic.workload": "roce_flows=flows",
    },
    "Frames on the wire": {
        "testbed.net.shell.wire": "RawPort Tap capture",
        "testbed.frames": "Mac",
        "testbed.frames.mac_control": "PfcFrame PauseFrame Meaning LONGEST_PAUSE",
    },
    "Measures": {
        "testbed.measures.outcome": "steady_rates total_rate jain_index percentages roce_outcome RoceOutcome marking"
        " progress Progress",
        "testbed.measures.frames": "FrameCounts",
        "testbed.measures.stopped_queue": "StoppedQueue",
    },
    "Controllers and policies": {
        "testbed.subjects.srv6.lab.controller": "SrController ControllerAccess",
        "testbed.subjects.srv6.lab.running": "wan_state wan_filtered",
        "testbed.rest.client": "ControllerClient=Client",
        "testbed.subjects.sonic.lab.settings": "SonicSwitch=Switch",
        "testbed.subjects.qos.lab.subnet_manager": "SubnetManager SubnetSweep=Sweep",
        "testbed.subjects.qos.setup": "QosFinding=Finding",
        "testbed.strict.problems": "Severity",
        "testbed.subjects.qos.plan": "PlanDifference=Difference",
        "testbed.subjects.qos.fabric": "QosPartition=Partition PortKey",
        "testbed.subjects.qos.model": "Policy",
        "testbed.subjects.qos.syntax.check": "load_policy=load",
        "testbed.subjects.qos.syntax.grammar": "PolicySyntax=Syntax",
    },
}
"""The modules that have the names, by the sections of the page about them; `sweep=run` is a name's other name there."""


def __getattr__(name: str) -> Any:
    for modules in _PLACES.values():
        for module, names in modules.items():
            for word in names.split():
                public, _, own = word.partition("=")
                if public == name:
                    found = getattr(importlib.import_module(module), own or name)
                    globals()[name] = found
                    return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def _register_with_ipython() -> None:
    """Have results and sweeps show themselves in the cells of a notebook, if this is its process."""
    if "IPython" in sys.modules:
        importlib.import_module("testbed.report.notebook.shell").register()


_register_with_ipython()
