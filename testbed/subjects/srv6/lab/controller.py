"""The SR policy controller as a process beside a lab's network, and its client.

with SrController() as controller, network(Srv6Wan(controller=controller), run) as net:
    ...

Where several kernels have a network, the process is in part 0. What the script asks of it there, all parts get, and
agents and leaves of other parts reach it over a management network (`net/partition/management.py`).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv6Network
from pathlib import Path
from typing import Any

from testbed.errors import XoffError
from testbed.experiment.run import Run
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.ports import is_leaf
from testbed.net.partition.first_part import InFirstPart
from testbed.rest.client import Client
from testbed.subjects.routing.router import Router
from testbed.subjects.srv6.lab.igp_reader import IgpInbox, IgpReader, send
from testbed.subjects.srv6.session.messages import router_key

_PATIENCE_S = 30
_ROUND_NS = 10_000_000
"""An experiment goes on at a whole multiple of this after a controller has started."""
_SHOWN = 2000
_REST = "127.0.0.1:8181"


class ControllerFailed(XoffError):
    """The error of a controller that does not start, or is late."""

    exit_code = 3


@dataclass(frozen=True)
class ControllerAccess:
    """The ways to the controller: its Unix socket and the keys for routers' agents, and the address for leaves."""

    path: str
    admit: Callable[[str, Sequence[IPv6Network]], bytes]
    """Configures a router with its locators, and returns its key."""
    openflow: str
    """The address for leaves, as in unix:PATH."""


class SrController:
    """A controller for one network, with secrets of its own. Routers may be there before it, or after.

    `ways_seed` is that of equal ways of leaves; by default the run's.
    """

    def __init__(self, library: str = "os-ken", ways_seed: int | None = None) -> None:
        run = Run.current()
        seed = ways_seed if ways_seed is not None else run.seed if run else 1
        self._library = library
        self._folder = tempfile.TemporaryDirectory(prefix="xoff-sr-")
        folder = Path(self._folder.name)
        key, token = secrets.token_hex(32), secrets.token_hex(32)
        self.session = ControllerAccess(str(folder / "agents"), self._admit, f"unix:{folder / 'openflow'}")
        self._inbox = str(folder / "inbox")
        self._place = InFirstPart("controller", [self.session.path, str(folder / "openflow"), self._inbox])
        if self._place.is_divided:  # agents of all parts have keys of this one
            key = hashlib.sha256(f"{run.seed if run else 1} {self._place.number}".encode()).hexdigest()
        self._environment = dict(os.environ)
        for name, secret in (("KEY", key), ("TOKEN", token)):
            file = folder / name.lower()
            file.touch(0o600)
            file.write_text(secret)
            self._environment[f"XOFF_SR_{name}_FILE"] = str(file)
        self._environment["PYTHONPATH"] = str(Path(sys.modules["testbed"].__path__[0]).parent)
        self._log = folder / "log"
        self._key, self._locators = key.encode(), dict[str, list[str]]()
        self._routers = folder / "routers.toml"
        self._routers.touch()
        self._environment["XOFF_SR_ROUTERS"] = str(self._routers)
        self._environment["XOFF_SR_WAYS_SEED"] = str(seed)
        self._igp, self._number = folder / "igp.json", folder / "number"
        self._environment["XOFF_SR_IGP"] = str(self._igp)
        self._client = Client(f"http://{_REST}", token)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> SrController:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._place.close()
        self._folder.cleanup()

    @property
    def openflow(self) -> str:
        """The address for leaves, as in unix:PATH."""
        return self.session.openflow

    @property
    def client(self) -> Client:
        """The client of the controller's REST. A network over several kernels has none; its parts use `ask`."""
        self._place.require_one_kernel(
            "the controller's client is in one part of the network; use controller.ask, which tells all parts"
        )
        return self._client

    def start(self) -> None:
        """Start the controller, also again after a stop, and wait until it listens."""
        self._place.do("the controller starts", self._start)

    def _start(self) -> None:
        command = [sys.executable, "-m", "controllers", "--library", self._library]
        command += ["--agents", f"unix:{self.session.path}", "--rest", _REST, "--openflow", self.session.openflow]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=self._environment
            )
        assert self._process.stdout is not None
        self._number.write_text(str(self._process.pid))
        with selectors.DefaultSelector() as ready:
            ready.register(self._process.stdout, selectors.EVENT_READ)
            if not ready.select(_PATIENCE_S) or not self._process.stdout.readline():
                self._kill()
                raise ControllerFailed(f"the controller does not start: {self._end_of_log() or 'its log is empty'}")
        # Its imports take some microseconds of the lab for each module, which is not to be seen in what follows.
        time.sleep((_ROUND_NS - time.monotonic_ns() % _ROUND_NS) / 1e9)

    def following(self, router: Any, routers: Mapping[str, Router]) -> AbstractContextManager[object]:
        """Tell the controller, for the time of a `with` block, what IS-IS says of the routers of a network.

        It is read from the database of one router, `net["r1"]`, whenever that router's routes have changed. `routers`
        are those of the network, `net.routing.routers`, whose names IS-IS does not know.
        """
        names, parts = {one.system_id: name for name, one in routers.items()}, FabricCore.current().parts
        part, take, inbox = parts.part_of(router.name), self._take_igp, None
        if part:
            inbox = IgpInbox(self._inbox, take) if self._place.is_here else None
            parts.meet("following the IGP")  # from now on the inbox is there
            take = partial(send, self._inbox)
        return IgpReader(router, names, take) if parts.number == part else inbox or nullcontext()

    def _take_igp(self, text: str) -> None:
        """Write what the IGP says into the controller's file, and have the controller read it."""
        fresh = self._igp.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self._igp)
        with suppress(OSError):  # it is being replaced by another one, which reads the file when it starts
            os.kill(int(self._number.read_text()), signal.SIGHUP)

    def _admit(self, router: str, locators: Sequence[IPv6Network]) -> bytes:
        """Add a router to the list that the controller reads at its start, and when it is sent SIGHUP."""
        self._locators[router] = list(map(str, locators))
        tables = [
            f"[{json.dumps(name)}]\nlocators = {json.dumps(prefixes)}\n" for name, prefixes in self._locators.items()
        ]
        fresh = self._routers.with_suffix(".new")
        fresh.write_text("\n".join(tables))
        fresh.replace(self._routers)
        if self._process is not None:
            self._process.send_signal(signal.SIGHUP)
        return router_key(self._key, router)

    def stop(self) -> None:
        """End the controller in order. Items on routers stay installed."""
        self._place.do("the controller stops", self._stop)

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._kill()
        self._close()

    def kill(self) -> None:
        """Kill the controller, as if it crashed."""
        self._place.do("the controller is killed", self._kill)

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._close()

    def log(self) -> str:
        """Return what the controller has logged."""
        return self._place.do("the controller's log", self._read_log) or ""

    def _read_log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def _end_of_log(self) -> str:
        return self._read_log()[-_SHOWN:]

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON of the controller's answer. A refusal is an error."""
        return self._place.ask(f"{method} {path}", lambda: self._client.ask(method, path, body))

    def request(self, vpns: list[dict[str, Any]], policies: list[dict[str, Any]]) -> None:
        """Request these policies and VPNs, once all routers have reported."""
        self.wait(lambda: self.ask("GET", "/topology")["settled"], "all routers have reported")
        for vpn in vpns:
            self.ask("POST", "/vpns", vpn)
        for policy in policies:
            self.ask("POST", "/policies", policy)

    def wait(self, until: Callable[[], Any], what: str, seconds: float = 30) -> None:
        """Wait until a condition holds. ControllerFailed, with the end of the log, if that takes too long.

        In a network over several kernels each look at the condition takes an exchange, or two, of all of them.
        """
        deadline = time.monotonic() + seconds

        def require_time() -> None:
            if time.monotonic() > deadline:
                raise ControllerFailed(
                    f"timed out after {seconds:g} s waiting until {what}: {self._read_log()[-2000:]}"
                )

        while not until():
            self._place.do(f"waiting until {what}", require_time)
            time.sleep(0.02)

    def settled(self) -> bool:
        """Return True if every policy is active, all its tunnels are installed, and the leaves have their rules."""
        if not self.installed():
            return False
        leaves = self._leaves()
        return not leaves or leaves <= {leaf["name"] for leaf in self.ask("GET", "/topology")["leaves"]}

    def installed(self) -> bool:
        """Return True if every policy is active and all its tunnels are installed, whatever the leaves have."""
        policies = self.ask("GET", "/policies")["policies"]
        if any(policy["status"] != "active" for policy in policies):
            return False
        reverse = [self.ask("GET", f"/policies/{policy['id']}/reverse")["tunnels"] for policy in policies]
        return all(tunnel["state"] == "installed" for tunnels in reverse for tunnel in tunnels)

    def _leaves(self) -> set[str]:
        """Return the names of the running network's leaves that follow this controller.

        It has sent a leaf its rules before `/topology` has the leaf.
        """
        fabric = FabricCore.running()
        nodes = fabric.ports.known_nodes.values() if fabric else ()
        return {node.name for node in nodes if is_leaf(node) and node.params.get("controller") == self.session.openflow}

    def _close(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
