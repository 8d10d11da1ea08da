"""Open vSwitch, for one switch or for all of Mininet's own switches.

A `Vswitch` has a database and a daemon of its own, in the network namespace of the switch's ports. Both are children of
this process and end with it. All their files are in one folder, which is removed then. Open vSwitch removes the
queueing disciplines of a port that is added to it, unless the port's QoS record has the type `linux-noop`, as it has
here.

A daemon that dies is restarted at once. The kernel keeps its flows in between; the new daemon deletes them, and a leaf
with a controller loses frames until the controller has sent its rules again. The database is not restarted: a daemon
works on without it.

`ensure_daemons` starts one database and one daemon for all switches of a job, as Mininet expects them. Their sockets
and database are in the sandbox's own /run, and they end when the sandbox does.
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

from testbed.errors import XoffError
from testbed.frames import Mac
from testbed.linux.process import kernel

_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
_DATABASE = "/run/openvswitch/conf.db"
_SOCKET = "/run/openvswitch/db.sock"
_PATIENCE_S = 30
_MOST_OFTEN_S = 1.0
"""The shortest time between two starts of the daemon."""
_LOOK_S = 0.002
_RECONNECT_MS = 1000
"""The longest time between two attempts to reach the controller; Open vSwitch accepts no lower limit."""
_SELDOM_MS = 3_600_000
"""The interval at which counters of interfaces go into the database. Nobody reads them there, and to write them the
daemon takes the kernel lock that agents need."""
_KEPT_MS = 300_000
"""The time after which the kernel removes an unused flow. A paused lossless flow counts as unused."""


class OvsError(XoffError):
    """Open vSwitch did not start."""

    exit_code = 3


@dataclass(frozen=True)
class Bridge:
    """The configuration of one bridge of Open vSwitch.

    Without a controller it is a learning switch. With one it has only the controller's rules, also while the controller
    cannot be reached.
    """

    name: str
    number: int
    """The datapath's ID, by which a controller identifies it."""
    mac: Mac
    ports: Mapping[str, int]
    """The OpenFlow port number of each interface."""
    controller: str | None = None
    """unix:PATH or tcp:ADDRESS:PORT. A path is the same in each network namespace, an address is not."""

    def commands(self, controller: str | None) -> list[str]:
        """Return the arguments of ovs-vsctl that create the bridge in one transaction."""
        keys = {"datapath-id": f'"{self.number:016x}"', "disable-in-band": "true", "hwaddr": f'"{self.mac}"'}
        mode = "secure" if controller else "standalone"
        made = ["--", "add-br", self.name, "--", "set", "Bridge", self.name, "protocols=OpenFlow13,OpenFlow15"]
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
    """A running Open vSwitch. `process` is any process of its network namespace."""

    def __init__(self, bridge: Bridge, process: int) -> None:
        self.bridge = bridge
        self.restarts = 0
        """The number of times that the daemon died and was restarted."""
        self._process = process
        # A job has a /run of its own, so a folder that a killed job leaves there goes with it.
        self.folder = Path(tempfile.mkdtemp(prefix=f"xoff-{bridge.name}-", dir="/run"))
        places = dict.fromkeys(("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"), str(self.folder))
        self._environment = os.environ | places
        self._database: subprocess.Popen[bytes] | None = None
        self._daemon: subprocess.Popen[bytes] | None = None
        self._watcher: threading.Thread | None = None
        self._ending = threading.Event()

    @property
    def missed(self) -> int:
        """The number of frames that had no flow yet and found no room on the way to the daemon."""
        found = re.search(r"lost:(\d+)", self.appctl("dpctl/show", "-s"))
        assert found is not None
        return int(found[1])

    @property
    def pid(self) -> int:
        """The process ID of the daemon, ovs-vswitchd."""
        assert self._daemon is not None
        return self._daemon.pid

    def start(self) -> None:
        """Start database and daemon, and wait until the ports exist; OvsError with the reason if that fails."""
        database, socket = self.folder / "conf.db", self.folder / "db.sock"
        self.run("ovsdb-tool", "create", str(database), _SCHEMA)
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
        """Restart the daemon whenever it dies from now on."""
        self._watcher = threading.Thread(target=self._keep, name=f"Open vSwitch of {self.bridge.name}", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """End database and daemon, and remove their folder. The datapath goes with the network namespace."""
        self._ending.set()
        for process in (self._daemon, self._database):
            if process is not None:
                with suppress(ProcessLookupError):
                    process.kill()
                process.wait()
        if self._watcher is not None:
            self._watcher.join()
            if self._daemon is not None:  # the watcher may have restarted it meanwhile
                self._daemon.kill()
                self._daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def vsctl(self, *arguments: str) -> str:
        """Run ovs-vsctl on the database, and return its output. It waits until the daemon has made the change."""
        return self.run("ovs-vsctl", f"--timeout={_PATIENCE_S}", f"--db=unix:{self.folder}/db.sock", *arguments)

    def ofctl(self, command: str, *arguments: str) -> str:
        """Run ovs-ofctl on the switch, as in ofctl("dump-flows"), and return its output."""
        target = f"unix:{self.folder}/{self.bridge.name}.mgmt"
        return self.run("ovs-ofctl", "-O", "OpenFlow13", command, target, *arguments)

    def appctl(self, *arguments: str) -> str:
        """Run ovs-appctl on the daemon, as in appctl("dpctl/show"), and return its output."""
        return self.run("ovs-appctl", f"--target={self.folder}/vswitchd.ctl", *arguments)

    def run(self, *command: str) -> str:
        """Run a program in the switch's network namespace, and return its output; OvsError if it fails."""
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
        """Return the controller's address as Open vSwitch accepts it: a socket has to be in its own folder."""
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


def ensure_daemons() -> None:
    """Start the daemons if they do not run yet."""
    if Path(_SOCKET).exists():
        return
    daemon = ["--pidfile", "--detach", "--no-chdir", "--log-file=/dev/null", "-vconsole:off", "-vsyslog:off"]
    for command in (
        ["ovsdb-tool", "create", _DATABASE, _SCHEMA],
        ["ovsdb-server", f"--remote=punix:{_SOCKET}", *daemon, _DATABASE],
        ["ovs-vsctl", "--no-wait", "init"],
        ["ovs-vswitchd", *daemon, f"unix:{_SOCKET}"],
    ):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise OvsError(f"Open vSwitch is not installed: {command[0]} is missing") from None
        if done.returncode:
            raise OvsError(f"Open vSwitch did not start: {' '.join(command[:2])}: {done.stderr.strip()}")
