"""Old names of modules that have moved, which go on working for one version.

`testbed/__init__.py` has Python ask `Finder` for what it does not find itself. A file that imports a module by its old
name gets the module itself, and a warning with the new name. What users need is in `xoff`; its names stay.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MODULES = {
    "agent.standalone": "dcbx.daemon",
    "buffer": "switch.buffer",
    "cli.carry": "cli.house.lab_file",
    "cli.compare": "cli.studies.compare",
    "cli.conformance": "cli.switches.conformance",
    "cli.console": "cli.screen.console",
    "cli.controller": "cli.switches.controller",
    "cli.dcbx": "cli.switches.dcbx",
    "cli.decode": "cli.look.decode",
    "cli.doctor": "cli.house.doctor",
    "cli.export": "cli.look.export",
    "cli.headroom": "cli.switches.headroom",
    "cli.image": "cli.house.image",
    "cli.lesson": "cli.first_steps.lesson",
    "cli.listing": "cli.first_steps.listing",
    "cli.live_network": "cli.screen.live_network",
    "cli.new": "cli.first_steps.new",
    "cli.packages": "cli.house.packages",
    "cli.policy": "cli.switches.policy",
    "cli.qos": "cli.switches.qos",
    "cli.report": "cli.first_steps.report",
    "cli.run": "cli.first_steps.run",
    "cli.serve": "cli.first_steps.serve",
    "cli.shell": "cli.look.shell",
    "cli.site": "cli.house.site",
    "cli.sr": "cli.switches.sr",
    "cli.streams": "cli.screen.streams",
    "cli.suite": "cli.house.tests",
    "cli.sweep": "cli.studies.sweep",
    "cli.switch": "cli.switches.config_db",
    "cli.ui": "cli.screen.progress",
    "cli.verify": "cli.studies.verify",
    "dcbx.changes": "dcbx.events",
    "dcbx.config_dump": "dcbx.config",
    "dcbx.config_warnings": "dcbx.negotiation",
    "dcbx.ladder_svg": "dcbx.ladder.svg",
    "dcbx.ladder_text": "dcbx.ladder.text",
    "dcbx.recommendation": "dcbx.features.recommendation",
    "ecn": "switch.ecn",
    "frames.service_level": "frames.path_record",
    "headroom": "switch.headroom",
    "lab.again": "lab.runs.again",
    "lab.api": "lab.runs.api",
    "lab.batch": "lab.studies.batch",
    "lab.cache": "lab.host.cache",
    "lab.carry": "lab.engines.lab_file",
    "lab.cluster": "lab.studies.cluster",
    "lab.collect": "lab.results.collect",
    "lab.comparison": "lab.studies.comparison",
    "lab.conformance": "lab.studies.conformance",
    "lab.cores": "lab.host.cores",
    "lab.csv_cells": "lab.results.csv_cells",
    "lab.definition": "experiment.definition",
    "lab.erofs": "lab.image.erofs",
    "lab.experiment_run": "experiment.run",
    "lab.fetching": "lab.image.fetching",
    "lab.fidelity": "experiment.fidelity",
    "lab.forecast": "lab.engines.forecast",
    "lab.foreign": "lab.results.foreign",
    "lab.job_stack": "lab.job.job_stack",
    "lab.module_level": "experiment.module_level",
    "lab.ownership": "lab.host.ownership",
    "lab.packages": "lab.image.packages",
    "lab.parameters": "experiment.parameters",
    "lab.parquet": "lab.results.parquet",
    "lab.plain_tar": "lab.image.plain_tar",
    "lab.prerequisites": "lab.host.prerequisites",
    "lab.process_tree": "lab.host.process_tree",
    "lab.qemu": "lab.vm.qemu",
    "lab.recipe": "lab.image.recipe",
    "lab.references": "lab.studies.references",
    "lab.result": "lab.results.result",
    "lab.result_folder": "lab.results.result_folder",
    "lab.run_job": "lab.job.run_job",
    "lab.script": "experiment.script",
    "lab.series": "lab.results.series",
    "lab.snappi_script": "experiment.snappi_script",
    "lab.snapshot": "lab.vm.snapshot",
    "lab.supervisor": "lab.job.supervisor",
    "lab.sweep": "lab.studies.sweep",
    "lab.sweep_tables": "lab.studies.sweep_tables",
    "lab.watchdog": "lab.job.watchdog",
    "lab.wheels": "lab.image.wheels",
    "lab.wire": "experiment.output",
    "linux.child": "linux.process.child",
    "linux.dcb": "linux.netlink.dcb",
    "linux.file_watch": "linux.process.file_watch",
    "linux.kernel": "linux.process.kernel",
    "linux.link_counters": "linux.netlink.link_state",
    "linux.link_state": "linux.netlink.link_state",
    "linux.links": "linux.netlink.links",
    "linux.lldp_socket": "linux.sockets.lldp_socket",
    "linux.mmsg": "linux.sockets.mmsg",
    "linux.ovs": "linux.vswitch",
    "linux.packet_filter": "linux.sockets.packet_filter",
    "linux.packet_tap": "linux.sockets.packet_tap",
    "linux.privileges": "linux.process.privileges",
    "linux.qdiscs": "linux.netlink.qdiscs",
    "linux.raw_socket": "linux.sockets.raw_socket",
    "linux.sandbox": "linux.process.sandbox",
    "linux.seg6": "linux.netlink.seg6",
    "linux.stamped": "linux.sockets.stamped",
    "net.agent_plans": "net.fabric.agent_plans",
    "net.beside": "linux.process.forked_helper",
    "net.bring_up": "net.fabric.bring_up",
    "net.cable": "net.fabric.cable",
    "net.cabling": "net.fabric.cabling",
    "net.captures": "net.watch.captures",
    "net.changes": "net.fabric.changes",
    "net.commands": "net.shell.commands",
    "net.controller": "srv6.lab.controller",
    "net.cpu_limits": "net.build.cpu_limits",
    "net.custom_file": "net.shell.mininet_command",
    "net.deadlocks": "net.fabric.deadlocks",
    "net.description": "net.watch.description",
    "net.following": "net.watch.progress",
    "net.graph": "net.build.graph",
    "net.inspection": "net.fabric.core",
    "net.line_rate": "net.build.line_rate",
    "net.link": "net.build.link",
    "net.load": "lab.engines.load",
    "net.losses": "net.watch.description",
    "net.marks": "net.fabric.marks",
    "net.mininet_classes": "net.build.mininet_classes",
    "net.network": "net.build.network",
    "net.node_commands": "net.build.node_commands",
    "net.node_shells": "net.build.node_shells",
    "net.nodes": "net.build.nodes",
    "net.notebook": "experiment.run",
    "net.options": "net.build.options",
    "net.plugin": "net.shell.mininet_command",
    "net.port": "net.fabric.port",
    "net.ports": "net.fabric.ports",
    "net.qos": "policy.lab.subnet_manager",
    "net.qos_clients": "policy.lab.clients",
    "net.qos_controller": "policy.lab.from_controller",
    "net.qos_discovery": "policy.lab.discovery",
    "net.qos_partitions": "policy.lab.partitions",
    "net.queues": "net.fabric.queues",
    "net.readings": "net.watch.readings",
    "net.replaced": "experiment.replaced",
    "net.routes": "net.fabric.routes",
    "net.scheduling": "net.fabric.queues",
    "net.script": "net.build.script",
    "net.series": "net.watch.series",
    "net.sonic": "sonic.lab.settings",
    "net.sonic_commands": "sonic.lab.commands",
    "net.sonic_export": "sonic.lab.export",
    "net.sonic_places": "sonic.lab.places",
    "net.sonic_run": "sonic.lab.run",
    "net.sonic_topo": "sonic.lab.topo",
    "net.sonic_views": "sonic.lab.views",
    "net.sr_filters": "srv6.lab.filters",
    "net.srv6": "srv6.lab.routers",
    "net.switch_buffer": "net.fabric.switch_buffer",
    "net.test_ports": "otg.lab",
    "net.test_ports.shared": "otg.counting",
    "net.topo": "net.build.topo",
    "net.views": "net.shell.views",
    "net.whole_series": "net.watch.run_series",
    "net.wire": "net.shell.wire",
    "pfc": "switch.pfc",
    "policy.block_text": "policy.syntax.block_text",
    "policy.build": "policy.syntax.build",
    "policy.check": "policy.syntax.check",
    "policy.clients": "policy.rfc_clients",
    "policy.clients.cma": "policy.rfc_clients",
    "policy.clients.connection": "policy.rfc_clients",
    "policy.clients.ipoib": "policy.rfc_clients",
    "policy.clients.iser": "policy.rfc_clients",
    "policy.clients.mpi": "policy.rfc_clients",
    "policy.clients.sdp": "policy.rfc_clients",
    "policy.clients.srp": "policy.rfc_clients",
    "policy.grammar": "policy.syntax.grammar",
    "policy.language": "policy.syntax.language",
    "policy.problems": "policy.syntax.source",
    "policy.ranges": "policy.numbers",
    "policy.rfc_xml": "policy.syntax.rfc_xml",
    "policy.source": "policy.syntax.source",
    "policy.tree": "policy.syntax.grammar",
    "policy.units": "policy.numbers",
    "policy.values": "policy.syntax.values",
    "policy.write": "policy.syntax.write",
    "priority": "switch.priority",
    "report.captures": "report.exports.captures",
    "report.columns": "report.timeline.columns",
    "report.conformance_page": "report.studies.conformance_page",
    "report.damage": "lab.results.damage",
    "report.document": "report.pages.document",
    "report.event_table": "report.exports.event_table",
    "report.exports.figures": "plot.figure",
    "report.figures": "plot.figure",
    "report.folder": "lab.results.folder",
    "report.frame_text": "report.exports.frame_text",
    "report.headroom_budget": "report.pages.headroom_budget",
    "report.ladders": "report.pages.ladders",
    "report.markup": "report.pages.markup",
    "report.page": "report.pages.page",
    "report.panels": "report.pages.panels",
    "report.perfetto": "report.exports.perfetto",
    "report.series": "report.timeline.series",
    "report.states": "report.timeline.states",
    "report.sweep_page": "report.studies.sweep_page",
    "report.tables": "report.pages.tables",
    "report.topology": "report.pages.topology",
    "report.tracks": "report.timeline.tracks",
    "sonic.problems": "strict.problems",
    "sonic.under_test": "sonic.ports_to_test",
    "srv6.controller.desired_state": "srv6.controller.deployment",
    "srv6.controller.event_kinds": "srv6.rest.answers",
    "srv6.protocol.fields": "srv6.protocol.domain",
    "srv6.session.policy": "srv6.session.intents",
    "toml_text": "strict.toml_text",
}
"""The new name of each module or package that has moved, without `testbed.`."""

_IMPORTING = re.compile(r"importlib|moved\.py$")


class Finder:
    """Finds modules of ours by the names that they had."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return how to load a module that has moved; None for every other name."""
        new = new_name(name)
        return None if new is None else ModuleSpec(name, _Loader(new))  # type: ignore[arg-type]  # its class is slow to import


class _Loader:
    """Stands for a module that has moved: it gives the module that is in the new place."""

    def __init__(self, new: str) -> None:
        self._new = new

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        _warn(spec.name, self._new)
        module = importlib.import_module(self._new)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back; it was executed under its new name."""
        module.__spec__ = self._spec


def new_name(name: str) -> str | None:
    """Return the name that a module has now, or None if it has not moved."""
    package, _, rest = name.partition(".")
    if package != "testbed":
        return None
    parts = rest.split(".")
    for length in range(len(parts), 0, -1):
        if (new := MODULES.get(".".join(parts[:length]))) is not None:
            return ".".join([package, new, *parts[length:]])
    return None


def attributes(package: str, module: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module whose names have moved: into a module of this package, or to `testbed....`"""

    def attribute(name: str) -> Any:
        if not name.startswith("__") and not _is_submodule(package, name):
            new = module if module.startswith("testbed.") else f"{package}.{module}"
            found = vars(importlib.import_module(new))
            if name in found:
                _warn(package, new)
                return found[name]
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return attribute


def _is_submodule(package: str, name: str) -> bool:
    """Return whether a package has this module: Python asks for an attribute before it imports a module."""
    return any(os.path.exists(f"{place}/{name}.py") for place in getattr(sys.modules[package], "__path__", ()))  # noqa: PTH110


def _warn(old: str, new: str) -> None:
    """Warn at the line of the import statement, which is below frames of Python's own import system."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _IMPORTING.search(frame.f_code.co_filename):
        frame = frame.f_back
    text = f"{old} is {new} now; the old name works until version 0.2. What most files need is in `xoff`"
    warnings.warn_explicit(text, FutureWarning, frame.f_code.co_filename, frame.f_lineno)
