"""Open vSwitch for one switch: a database and a daemon of its own, in the network namespace where its ports are.

Both are children of this process and end with it. Whatever they keep is in a folder that goes with them. Open vSwitch
takes the queueing disciplines off the ports that it gets, unless their QoS record has the type `linux-noop`: these do.

A daemon that dies is started again at once. The kernel keeps its flows meanwhile; the new daemon
clears them, and of a controller's leaf frames are lost until the rules have come again. The database is not watched: a
daemon goes on without it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from testbed.frames import Mac
from testbed.linux import kernel
from testbed.linux.ovs import SCHEMA, OvsError

_PATIENCE_S = 30
_MOST_OFTEN_S = 1.0
"""A daemon that dies sooner than this is not started again before."""
_LOOK_S = 0.002
_RECONNECT_MS = 1000
"""How long to wait at most between two attempts to reach the controller; Open vSwitch takes no less."""
_SELDOM_MS = 3_600_000
"""How often interfaces' counters go into the database. They are not read, and writing them takes the kernel lock that
agents need."""
_KEPT_MS = 300_000
"""How long the kernel keeps an unused flow. A paused lossless flow counts as unused."""


@dataclass(frozen=True)
class Bridge:
    """What Open vSwitch is to be. Without a controller it learns by itself; with one it has that one's rules only, and
    keeps to it when the controller is away.
    """

    name: str
    number: int
    """Of the datapath; its controller identifies it by this."""
    mac: Mac
    ports: Mapping[str, int]
    """Interfaces, and their numbers in OpenFlow."""
    controller: str | None = None
    """unix:PATH or tcp:ADDRESS:PORT. A path is the same in each network namespace, an address is not."""

    def commands(self, controller: str | None) -> list[str]:
        """Of ovs-vsctl, in one transaction."""
        keys = {"datapath-id": f'"{self.number:016x}"', "disable-in-band": "true", "hwaddr": f'"{self.mac}"'}
        mode = "secure" if controller else "standalone"
        made = ["--", "add-br", self.name, "--", "set", "Bridge", self.name, "protocols=OpenFlow13"]
        made += [f"fail_mode={mode}", *(f"other_config:{key}={value}" for key, value in keys.items())]
        made += ["--", "--id=@ours", "create", "QoS", "type=linux-noop"]
        for port, number in self.ports.items():
            made += ["--", "add-port", self.name, port, "--", "set", "Port", port, "qos=@ours"]
            made += ["--", "set", "Interface", port, f"ofport_request={number}"]
        if controller:
            made += ["--", "set-controller", self.name, controller, "--", "set", "Controller", self.name]
            made += [f"max_backoff={_RECONNECT_MS}", "connection_mode=out-of-band"]
        return made


class Vswitch:
    """Runs one. `process` is any process of the network namespace."""

    def __init__(self, bridge: Bridge, process: int) -> None:
        self.bridge = bridge
        self.restarts = 0
        """How often the daemon has died and was started again."""
        self._process = process
        # A job has /run for itself: what a killed one leaves there is gone with it.
        self.folder = Path(tempfile.mkdtemp(prefix=f"xoff-{bridge.name}-", dir="/run"))
        places = dict.fromkeys(("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"), str(self.folder))
        self._environment = os.environ | places
        self._database: subprocess.Popen[bytes] | None = None
        self._daemon: subprocess.Popen[bytes] | None = None
        self._watcher: threading.Thread | None = None
        self._ending = threading.Event()

    @property
    def missed(self) -> int:
        """Frames that had no flow yet, and for which there was no room on the way to the daemon."""
        found = re.search(r"lost:(\d+)", self.appctl("dpctl/show", "-s"))
        assert found is not None
        return int(found[1])

    @property
    def pid(self) -> int:
        """Of the daemon, ovs-vswitchd."""
        assert self._daemon is not None
        return self._daemon.pid

    def start(self) -> None:
        """Until its ports exist; OvsError with the reason if they do not."""
        database, socket = self.folder / "conf.db", self.folder / "db.sock"
        self.run("ovsdb-tool", "create", str(database), SCHEMA)
        self._database = self._spawn("ovsdb-server", f"--remote=punix:{socket}", str(database))
        deadline = time.monotonic() + _PATIENCE_S
        while not socket.exists():
            if self._database.poll() is not None or time.monotonic() > deadline:
                raise OvsError(f"{self.bridge.name}: ovsdb-server does not start: {self._log('ovsdb-server')}")
            time.sleep(_LOOK_S)
        self._start_daemon()
        settings = [f"other_config:stats-update-interval={_SELDOM_MS}", f"other_config:max-idle={_KEPT_MS}"]
        self.vsctl("set", "Open_vSwitch", ".", *settings, *self.bridge.commands(self._reachable()))

    def watch(self) -> None:
        """Start the daemon again whenever it dies, from now on."""
        self._watcher = threading.Thread(target=self._keep, name=f"Open vSwitch of {self.bridge.name}", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """End both, and leave nothing behind but what goes with the namespace."""
        self._ending.set()
        for process in (self._daemon, self._database):
            if process is not None:
                with suppress(ProcessLookupError):
                    process.kill()
                process.wait()
        if self._watcher is not None:
            self._watcher.join()
            if self._daemon is not None:  # it may have been started again while it was ended
                self._daemon.kill()
                self._daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def vsctl(self, *arguments: str) -> str:
        """The database, by ovs-vsctl; it waits until the daemon has done what was asked."""
        return self.run("ovs-vsctl", f"--timeout={_PATIENCE_S}", f"--db=unix:{self.folder}/db.sock", *arguments)

    def ofctl(self, command: str, *arguments: str) -> str:
        """The switch itself, by ovs-ofctl, as in ofctl("dump-flows")."""
        target = f"unix:{self.folder}/{self.bridge.name}.mgmt"
        return self.run("ovs-ofctl", "-O", "OpenFlow13", command, target, *arguments)

    def appctl(self, *arguments: str) -> str:
        """The daemon, by ovs-appctl, as in appctl("dpctl/show")."""
        return self.run("ovs-appctl", f"--target={self.folder}/vswitchd.ctl", *arguments)

    def run(self, *command: str) -> str:
        with kernel.in_network_of(self._process):
            try:
                done = subprocess.run(command, capture_output=True, text=True, env=self._environment, check=False)
            except FileNotFoundError:
                raise OvsError(f"Open vSwitch is not installed: {command[0]} is missing") from None
        if done.returncode:
            logged = self._log("ovs-vswitchd")
            raise OvsError(f"{self.bridge.name}: {' '.join(command)}: {done.stderr.strip()}\n{logged}".strip())
        return done.stdout

    def _reachable(self) -> str | None:
        """The controller as Open vSwitch takes it: sockets only from its own folder."""
        controller = self.bridge.controller
        if controller is None or not controller.startswith("unix:"):
            return controller
        place = self.folder / "controller"
        place.symlink_to(controller.removeprefix("unix:"))
        return f"unix:{place}"

    def _start_daemon(self) -> None:
        self._daemon = self._spawn(
            "ovs-vswitchd", f"--unixctl={self.folder}/vswitchd.ctl", f"unix:{self.folder}/db.sock"
        )

    def _keep(self) -> None:
        while True:
            assert self._daemon is not None
            begun = time.monotonic()
            self._daemon.wait()
            if self._ending.wait(max(0.0, begun + _MOST_OFTEN_S - time.monotonic())):
                return
            self.restarts += 1
            self._start_daemon()

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        quiet = ["-vconsole:off", "-vsyslog:off", "-vfile:warn", f"--log-file={self.folder}/{program}.log"]
        # What is wrong before there is a log goes to standard error; so does that a lab has no name server.
        with kernel.in_network_of(self._process), (self.folder / f"{program}.err").open("ab") as errors:
            try:
                return subprocess.Popen(
                    [program, *quiet, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    env=self._environment,
                    cwd=self.folder,
                    start_new_session=True,  # Ctrl-C in a terminal must not end these
                    preexec_fn=kernel.die_with_parent,  # noqa: PLW1509 - one system call, which takes no lock
                )
            except FileNotFoundError:
                raise OvsError(f"Open vSwitch is not installed: {program} is missing") from None

    def _log(self, program: str) -> str:
        files = [self.folder / f"{program}.{kind}" for kind in ("err", "log")]
        return "\n".join(file.read_text()[-1000:] for file in files if file.exists())
