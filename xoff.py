"""Xoff's public face: what an experiment, a topology, a rate control, a test or a notebook imports.

    from xoff import Flow, Incast, experiment, network

Names are loaded on demand, and on any machine with Python alone: Mininet is needed to start a network and not to
describe one. docs/reference/api.md describes every name in `__all__`, and says which of them are stable.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from testbed.agent.event_log import LoggedEvent
    from testbed.errors import UsageError, XoffError
    from testbed.experiment.definition import Experiment, experiment
    from testbed.experiment.parameters import Between, File, OneOf
    from testbed.experiment.run import Run
    from testbed.frames import Mac
    from testbed.frames.dcbx.values import DcbxVersion
    from testbed.frames.mac_control import LONGEST_PAUSE, PauseFrame, PfcFrame
    from testbed.lab.engines.table import prepare
    from testbed.lab.results.result import Claim, Result, Status
    from testbed.lab.runs.api import run
    from testbed.lab.studies.sweep import run as sweep
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
    from testbed.measures.stopped_queue import StoppedQueue
    from testbed.net.build.graph import Topo
    from testbed.net.build.network import Network, network
    from testbed.net.build.nodes import LosslessLeaf, LosslessRouter, LosslessSwitch, RdmaHost
    from testbed.net.build.topo import LosslessTopo, TopoError
    from testbed.net.fabric.cable import Cable
    from testbed.net.fabric.fabric import Fabric, Mismatch
    from testbed.net.fabric.port import ROCE as ROCE_PRIORITY
    from testbed.net.fabric.port import Buffer, Port
    from testbed.net.shell.wire import RawPort, Tap, capture
    from testbed.net.traffic import Flow, Flows, Report, Transport, flowing, ping, probe
    from testbed.net.traffic import register as register_transport
    from testbed.net.traffic.roce import Roce, RoceReport
    from testbed.net.traffic.tcp import TcpReport
    from testbed.plot.figure import Plot, plot
    from testbed.roce.nic import Nic
    from testbed.roce.rates import (
        Acknowledgement,
        Dcqcn,
        Fixed,
        Hpcc,
        HpccParameters,
        Line,
        RateControl,
        Swift,
        SwiftParameters,
        Timely,
    )
    from testbed.roce.rates.dcqcn import PAPER as DCQCN_PAPER
    from testbed.roce.rates.dcqcn import DcqcnParameters
    from testbed.subjects.dcbx.settings import ApplicationAdmin, DcbxSettings, EtsAdmin, PfcAdmin, Recommend
    from testbed.subjects.qos.lab.subnet_manager import SubnetManager
    from testbed.subjects.qos.model import Policy
    from testbed.subjects.qos.syntax.check import load as load_policy
    from testbed.subjects.routing.bird import Bird
    from testbed.subjects.routing.frr import Frr
    from testbed.subjects.routing.protocols import Bfd, Bgp, Isis, Ospf
    from testbed.subjects.sonic.lab.topo import SonicTopo
    from testbed.subjects.srv6.lab.controller import SrController
    from testbed.switch.buffer.headroom import DynamicSharedHeadroom, SharedHeadroomPool
    from testbed.switch.buffer.settings import Dynamic, GroupSettings, Static, split_evenly
    from testbed.switch.ecn.curve import EcnCurve
    from testbed.switch.ecn.field import Ecn
    from testbed.switch.pfc.settings import Action as WatchdogAction
    from testbed.switch.pfc.settings import Kind as WatchdogKind
    from testbed.switch.pfc.settings import PfcSettings, WatchdogSettings
    from testbed.switch.priority.settings import PriorityMap, Trust
    from testbed.switch.ways.settings import Ways
    from testbed.units import Duration, Length, Rate, Scale, Size
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
    "ApplicationAdmin",
    "BackToBack",
    "Between",
    "Bfd",
    "Bgp",
    "Bird",
    "Buffer",
    "Cable",
    "Chain",
    "Claim",
    "Clos",
    "Dc1WanDc2",
    "DcbxSettings",
    "DcbxVersion",
    "Dcqcn",
    "DcqcnParameters",
    "Dragonfly",
    "Dumbbell",
    "Duration",
    "Dynamic",
    "DynamicSharedHeadroom",
    "Ecn",
    "EcnCurve",
    "EtsAdmin",
    "Experiment",
    "Fabric",
    "FatTree",
    "File",
    "Fixed",
    "Flow",
    "Flows",
    "FrameCounts",
    "Frr",
    "GroupSettings",
    "Hpcc",
    "HpccParameters",
    "Incast",
    "Isis",
    "LeafSpine",
    "Length",
    "Line",
    "LoggedEvent",
    "LosslessLeaf",
    "LosslessRouter",
    "LosslessSwitch",
    "LosslessTopo",
    "Mac",
    "Mismatch",
    "Network",
    "Nic",
    "OneOf",
    "Ospf",
    "ParkingLot",
    "PauseFrame",
    "PfcAdmin",
    "PfcFrame",
    "PfcSettings",
    "Plot",
    "Policy",
    "Port",
    "PriorityMap",
    "Progress",
    "Rail",
    "Rate",
    "RateControl",
    "RawPort",
    "RdmaHost",
    "Recommend",
    "Report",
    "Result",
    "Ring",
    "Roce",
    "RoceOutcome",
    "RoceReport",
    "RoutedFatTree",
    "RoutedLeafSpine",
    "Run",
    "Scale",
    "SharedHeadroomPool",
    "Size",
    "SonicTopo",
    "SrController",
    "Srv6Ring",
    "Srv6Wan",
    "Star",
    "Static",
    "Status",
    "StoppedQueue",
    "SubnetManager",
    "Swift",
    "SwiftParameters",
    "Tap",
    "TcpReport",
    "ThreeLinks",
    "Timely",
    "Topo",
    "TopoError",
    "Transport",
    "Trust",
    "UsageError",
    "WatchdogAction",
    "WatchdogKind",
    "WatchdogSettings",
    "Ways",
    "XoffError",
    "capture",
    "experiment",
    "flowing",
    "jain_index",
    "load_policy",
    "marking",
    "network",
    "percentages",
    "ping",
    "plot",
    "prepare",
    "probe",
    "progress",
    "register_transport",
    "roce_outcome",
    "run",
    "split_evenly",
    "steady_rates",
    "sweep",
    "total_rate",
]

_PLACES: dict[str, dict[str, str]] = {
    "Experiments and runs": {
        "testbed.experiment.definition": "experiment Experiment",
        "testbed.experiment.parameters": "Between OneOf File",
        "testbed.experiment.run": "Run",
        "testbed.lab.runs.api": "run",
        "testbed.lab.engines.table": "prepare",
        "testbed.lab.results.result": "Result Claim Status",
        "testbed.lab.studies.sweep": "sweep=run",
        "testbed.plot.figure": "plot Plot",
    },
    "Quantities and errors": {
        "testbed.units": "Duration Length Rate Scale Size",
        "testbed.errors": "XoffError UsageError",
    },
    "Networks": {
        "testbed.net.build.network": "network Network",
        "testbed.net.fabric.fabric": "Fabric Mismatch",
        "testbed.agent.event_log": "LoggedEvent",
        "testbed.net.build.topo": "LosslessTopo TopoError",
        "testbed.net.build.graph": "Topo",
        "testbed.net.build.nodes": "LosslessSwitch LosslessLeaf LosslessRouter RdmaHost",
        "testbed.net.fabric.cable": "Cable",
        "testbed.net.fabric.port": "Port Buffer ROCE_PRIORITY=ROCE",
        "testbed.switch.buffer.headroom": "DynamicSharedHeadroom SharedHeadroomPool",
        "testbed.switch.buffer.settings": "Static Dynamic GroupSettings split_evenly",
        "testbed.switch.ecn.curve": "EcnCurve",
        "testbed.switch.ways.settings": "Ways",
        "testbed.switch.pfc.settings": "PfcSettings WatchdogSettings WatchdogAction=Action WatchdogKind=Kind",
        "testbed.switch.priority.settings": "PriorityMap Trust",
        "testbed.frames.dcbx.values": "DcbxVersion",
        "testbed.subjects.dcbx.settings": "DcbxSettings PfcAdmin EtsAdmin ApplicationAdmin Recommend",
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
    },
    "Traffic": {
        "testbed.net.traffic": "Flow Flows flowing Report ping probe Transport register_transport=register",
        "testbed.net.traffic.tcp": "TcpReport",
        "testbed.net.traffic.roce": "Roce RoceReport",
        "testbed.roce.rates": "RateControl Line Acknowledgement Dcqcn Fixed Timely Swift SwiftParameters",
        "testbed.roce.rates.hpcc": "Hpcc HpccParameters",
        "testbed.roce.nic": "Nic",
        "testbed.roce.rates.dcqcn": "DcqcnParameters DCQCN_PAPER=PAPER",
        "testbed.switch.ecn.field": "Ecn",
    },
    "Frames on the wire": {
        "testbed.net.shell.wire": "RawPort Tap capture",
        "testbed.frames": "Mac",
        "testbed.frames.mac_control": "PfcFrame PauseFrame LONGEST_PAUSE",
    },
    "Measures": {
        "testbed.measures.outcome": "steady_rates total_rate jain_index percentages roce_outcome RoceOutcome marking"
        " progress Progress",
        "testbed.measures.frames": "FrameCounts",
        "testbed.measures.stopped_queue": "StoppedQueue",
    },
    "Controllers and policies": {
        "testbed.subjects.srv6.lab.controller": "SrController",
        "testbed.subjects.qos.lab.subnet_manager": "SubnetManager",
        "testbed.subjects.qos.model": "Policy",
        "testbed.subjects.qos.syntax.check": "load_policy=load",
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
