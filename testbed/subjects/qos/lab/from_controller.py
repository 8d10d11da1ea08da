"""A network's subnet manager that has its policy from a controller, and reports to it.

with SrController() as controller, network(...) as net, FollowingManager(net.fabric, controller.client) as manager:
    manager.sa.put_policy(policy)
    manager.wait()

It is a process beside the network: every `every` it reads the policy's revision, sweeps the network, and reports the
fabric, drift and drops.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from typing import Any

from testbed.errors import XoffError
from testbed.linux.process.child import Child
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import FabricError
from testbed.rest.client import Client
from testbed.subjects.qos.fabric import Partition
from testbed.subjects.qos.lab.subnet_manager import SubnetManager
from testbed.subjects.qos.rest.client import RestSa
from testbed.subjects.qos.rest.messages import SweepReport
from testbed.subjects.qos.syntax.language import load
from testbed.units import Duration

_PATIENCE_S = 10


class FollowingManager:
    """A subnet manager in a process of its own, and the controller's SA for clients."""

    def __init__(
        self, fabric: Fabric, client: Client, partitions: Sequence[Partition] = (), every: Duration = Duration("100ms")
    ) -> None:
        self.sa = RestSa(client)
        self._fabric, self._client = fabric, client
        self._partitions, self._every = partitions, every
        self._process: Child | None = None

    def __enter__(self) -> FollowingManager:
        self._process = Child(self._follow)
        self.wait()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.signal(signal.SIGTERM)
        self._process.wait()

    def wait(self) -> None:
        """Wait until the ports are set up by the policy in force, and the controller has had the fabric since."""
        deadline = time.monotonic() + _PATIENCE_S
        wanted = self.sa.policy()[0]
        while time.monotonic() < deadline:
            report = self.status()["report"]
            if report is not None and report["revision"] >= wanted:
                return
            time.sleep(0.01)
        raise FabricError(f"the subnet manager has not applied revision {wanted} of the policy in {_PATIENCE_S} s")

    def status(self) -> dict[str, Any]:
        """Return the answer to GET /qos/status."""
        found: dict[str, Any] = self._client.ask("GET", "/qos/status")
        return found

    def _follow(self) -> None:
        """Be the process: follow the policy until the end."""
        manager, revision, reported = SubnetManager(self._fabric, partitions=self._partitions), 0, False
        while True:
            try:
                current, text = self.sa.policy()
                if current != revision:
                    manager.policy, revision = load(text.encode(), f"revision {current}"), current
                swept = manager.sweep()
                if not reported or swept.changes or swept.rerouted:
                    self.sa.put_fabric(manager.subnet)
                drift = tuple(map(str, swept.drift))
                self.sa.put_report(SweepReport(revision, drift, len(swept.changes), manager.dropped()))
                reported = True
            except XoffError as error:  # the controller is away for a while, or a node is
                print(f"subnet manager: {error}", flush=True)
                reported = False
            time.sleep(self._every.ns / 1e9)
