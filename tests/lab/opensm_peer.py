"""The fabric that OpenSM and Xoff are both asked about, and the way to ask OpenSM; for tests and `bench/policy.py`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.subjects.qos.fabric import GBIT, Fabric, Partition, PortCapabilities, PortKey
from testbed.subjects.qos.model import NodeType
from testbed.subjects.qos.records import PathRecordRequest

DRIVER = Path(__file__).parent / "opensm_driver.py"
PROGRAMS = {
    "opensm": "opensm",
    "ibsim": "ibsim-utils",
    "saquery": "infiniband-diags",
    "unshare": "util-linux",
    "ip": "iproute2",
}
_GIGABITS = {"w=1": 2.5, "w=2": 10.0, "w=8": 30.0}

# Hosts with one port in use, and the switch port and width of their cables; ibsim counts GUIDs up in the file's order,
# three for each adapter: the node and its two ports.
HOSTS = {"h1": ("s1", 1, "w=2"), "h2": ("s1", 2, "w=1"), "h3": ("s2", 1, "w=8"), "h4": ("s2", 2, "w=2")}
BETWEEN = ("s1", 8, "s2", 8, "w=2")
FIRST_GUID, GUIDS_EACH = 0x100000, 3
PARTITIONS = (
    "Default=0x7fff, ipoib, sl=0 : ALL=full ;\nPart1=0x1, sl=0 : 0x100001=full, 0x100004=full, 0x100007=limited ;\n"
)


def missing() -> str | None:
    """Why OpenSM cannot be asked here."""
    absent = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    trial = subprocess.run([*namespace(), "true"], capture_output=True, check=False)
    return None if trial.returncode == 0 else "a network namespace of its own cannot be made here"


def namespace() -> list[str]:
    return ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]


def guid(host: str) -> int:
    return FIRST_GUID + GUIDS_EACH * list(HOSTS).index(host) + 1


def fabric() -> Fabric:
    """Return the fabric in the form that Xoff reads."""
    made = Fabric()
    one, one_port, other, other_port, width = BETWEEN
    for number, name in enumerate((one, other)):
        ports = [PortCapabilities(n, 10 * GBIT, 2048, 15) for n in range(1, 9)]
        made.add(name, NodeType.SWITCH, 0x200000 + number, ports)
    for name, (_, _, width_of) in HOSTS.items():
        rate = int(_GIGABITS[width_of] * GBIT)
        made.add(name, NodeType.CA, guid(name) - 1, [PortCapabilities(n, rate, 2048) for n in (1, 2)])
    for name, (switch, port, width_of) in HOSTS.items():
        made.nodes[switch].ports[port] = PortCapabilities(port, int(_GIGABITS[width_of] * GBIT), 2048)
        made.connect(PortKey(name, 1), PortKey(switch, port))
    made.connect(PortKey(one, one_port), PortKey(other, other_port))
    full = frozenset({PortKey("h1", 1), PortKey("h2", 1)})
    made.partition(Partition("Part1", 1, full, frozenset({PortKey("h3", 1)})))
    made.manager = "h1"
    made.route()
    assert width == "w=2"
    return made


def net() -> str:
    """Return the fabric in the form that ibsim reads."""
    one, one_port, other, other_port, width = BETWEEN
    records = []
    for switch, own, far, far_port in ((one, one_port, other, other_port), (other, other_port, one, one_port)):
        ports = [f'[{port}]\t"{name}"[1] {w}' for name, (at, port, w) in HOSTS.items() if at == switch]
        records.append("\n".join([f'Switch\t8 "{switch}"', *ports, f'[{own}]\t"{far}"[{far_port}] {width}']))
    records += [f'Hca\t2 "{name}"\n[1]\t"{at}"[{port}] {w}' for name, (at, port, w) in HOSTS.items()]
    return "\n\n".join(records) + "\n"


@dataclass(frozen=True)
class Query:
    """One path record query, for both."""

    source: str
    destination: str
    service_id: int | None = None
    qos_class: int | None = None
    pkey: int | None = None
    sl: int | None = None

    def request(self, fabric: Fabric) -> PathRecordRequest:
        source, target = (fabric.by_key[PortKey(name, 1)].gid for name in (self.source, self.destination))
        return PathRecordRequest(
            source, target, service_id=self.service_id, qos_class=self.qos_class, pkey=self.pkey, sl=self.sl
        )

    def options(self) -> list[str]:
        """Return the options of saquery."""
        ends = [f"--{name}=fe80::{guid(host) >> 16:x}:{guid(host) & 0xFFFF:x}"
                for name, host in (("sgid", self.source), ("dgid", self.destination))]  # fmt: skip
        fields = {"service_id": self.service_id, "qos_class": self.qos_class, "pkey": self.pkey, "sl": self.sl}
        return ends + [f"--{name}={value:#x}" for name, value in fields.items() if value is not None]


@dataclass(frozen=True)
class Answers:
    """OpenSM's answers under one policy."""

    taken: bool
    found: list[dict[str, str] | None]
    seconds: float


def ask(cases: Sequence[tuple[str, Sequence[Query]]], options: str = "") -> list[Answers]:
    """Each policy with its queries."""
    done = subprocess.run(
        [*namespace(), sys.executable, str(DRIVER)],
        input=json.dumps(job(cases, options)),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"OpenSM could not be asked: {done.stderr[-4000:]}")
    return [Answers(**answer) for answer in json.loads(done.stdout)]


def job(cases: Sequence[tuple[str, Sequence[Query]]], options: str = "") -> dict[str, Any]:
    """Return the job that the driver reads."""
    return {
        "net": net(), "partitions": PARTITIONS, "options": options, "manager": "h1", "client": "h2",
        "cases": [{"policy": policy, "queries": [query.options() for query in queries]} for policy, queries in cases],
    }  # fmt: skip
