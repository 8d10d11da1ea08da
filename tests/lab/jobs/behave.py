"""Jobs that show what the lab is: its time, its chance, its output."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from testbed.lab import Run, experiment
from testbed.units import Duration


@experiment(_in_lab_time=True, timeout="1000s")
def waits(run: Run, how_long: Duration = Duration("20s")) -> None:
    """Sleeps, and looks at the clock."""
    before = run.lab_ns
    time.sleep(how_long.ns / 1e9)
    run.figure("slept", run.lab_ns - before, "ns")


@experiment(_in_lab_time=True)
def says(run: Run, lines: int = 3) -> None:
    """Prints, and leaves files of several kinds."""
    for number in range(lines):
        print(f"line {number}")
    print("to standard error", file=sys.stderr)
    print("no end of line", end="")
    Path("empty").touch()
    Path("deep/er").mkdir(parents=True)
    Path("deep/er/binary").write_bytes(bytes(range(256)) * 8192)
    Path("link").symlink_to("/etc/passwd")
    Path("result.json").write_text("not the real one")


@experiment(_in_lab_time=True)
def draws(run: Run) -> None:
    """Asks every source of chance that a job may meet."""
    run.figure("run.rng", run.rng.random())
    run.figure("random", random.random())
    run.figure("os.urandom", os.urandom(16).hex())
    run.figure("kernel uuid", Path("/proc/sys/kernel/random/uuid").read_text().strip())
    child = "import os, random; print(os.urandom(8).hex(), hash('x'))"
    run.figure("child", said(sys.executable, "-c", child).strip())
    # netem draws its losses in the kernel.
    subprocess.run(["tc", "qdisc", "add", "dev", "lo", "root", "netem", "loss", "50%"], check=True)
    answers = said("ping", "-c", "40", "-i", "0.01", "-W", "1", "127.0.0.1").splitlines()
    run.figure("answers", [line.split("icmp_seq=")[1].split()[0] for line in answers if "icmp_seq" in line])


def said(*command: str) -> str:
    """The standard output of a command."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@experiment(_in_lab_time=True, timeout="60s")
def calls(run: Run, percent: int = 100, lasts: Duration = Duration("1200ms")) -> None:
    """System calls for a part of each 9.37 ms, which is no divisor of a kernel's tick."""
    period_ns = 9_370_000
    with run.measuring():
        begin_ns = time.monotonic_ns()
        for number in range(lasts.ns // period_ns):
            until_ns = begin_ns + number * period_ns + period_ns * percent // 100
            while time.monotonic_ns() < until_ns:
                pass
            if (left_ns := begin_ns + (number + 1) * period_ns - time.monotonic_ns()) > 0:
                time.sleep(left_ns / 1e9)


@experiment(_in_lab_time=True)
def works(run: Run, measured: bool = True) -> None:
    """Keeps the CPU busy for half a second, and rests for as long."""
    with run.measuring():
        end = run.lab_ns + 500_000_000
        while measured and run.lab_ns < end:
            pass
        time.sleep(0.5)
    while not measured and run.lab_ns < end + 1_000_000_000:
        pass


@experiment(_in_lab_time=True)
def mixes(run: Run) -> None:
    """A bit of everything that could differ from run to run: TCP, timers, processes, chance, memory."""
    from testbed.net import traffic
    from testbed.net.build.network import network
    from topologies.star import Star

    with network(Star(n=2, rate="100Mb/s", delay="500us")) as net:
        first, last = net.hosts
        capture = last.popen(
            "tcpdump",
            "-w",
            str(run.directory / "last.pcap"),
            "-i",
            f"{last.name}-eth0",
            "-s",
            "96",
            "--time-stamp-precision=nano",
            "-U",
        )
        time.sleep(0.2)
        run.figure("round trip", traffic.ping(first, last))
        with traffic.Flows([traffic.Flow(first, last, priority=0, transport="tcp", duration="1s")]) as flows:
            flows.wait()
        run.figure("goodput", flows.reports[0].goodput)
        capture.terminate()
        capture.wait()
    late = []
    for _ in range(50):
        due = time.monotonic_ns() + 1_000_000
        time.sleep(0.001)
        late.append(time.monotonic_ns() - due)
    run.figure("lateness of timers", late)
    run.figure("chance", os.urandom(8).hex())
    run.figure("addresses", id(object()))


@experiment(_in_lab_time=True)
def controllers_start(run: Run) -> None:
    """Starts Ryu 4.34 and os-ken with an OpenFlow app each, and a switch that connects to them."""
    from testbed.linux import vswitch

    vswitch.ensure_daemons()
    app = Path("app.py")
    for name, library in (("ryu", "ryu"), ("os-ken", "os_ken")):
        app.write_text(_APP.format(library=library, base="RyuApp" if name == "ryu" else "OSKenApp"))
        launcher = ["ryu-manager", "app.py"] if name == "ryu" else [sys.executable, "-c", _OS_KEN]
        with Path(f"{name}.log").open("w") as log:
            process = subprocess.Popen(launcher, stdout=log, stderr=log)
        subprocess.run(
            ["ovs-vsctl", "--may-exist", "add-br", "s1", "--", "set-controller", "s1", "tcp:127.0.0.1:6653"], check=True
        )
        deadline = run.lab_ns + 15_000_000_000
        seen = Path(f"{name}.seen")
        while not seen.exists() and run.lab_ns < deadline:
            time.sleep(0.1)
        run.claim(f"{name}: a switch has connected", seen.exists(), equals=True)
        process.kill()
        process.wait()
        subprocess.run(["ovs-vsctl", "del-br", "s1"], check=True)


_APP = """
from {library}.base import app_manager
from {library}.controller import ofp_event
from {library}.controller.handler import CONFIG_DISPATCHER, set_ev_cls
from {library}.ofproto import ofproto_v1_3

class App(app_manager.{base}):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def seen(self, event):
        name = "os-ken" if "{library}" == "os_ken" else "ryu"
        open(name + ".seen", "w").write(str(event.msg.datapath_id))
"""

_OS_KEN = """
import sys
sys.path.insert(0, ".")
from os_ken import cfg
from os_ken.base.app_manager import AppManager
import os_ken.controller.ofp_handler
from os_ken.lib import hub
cfg.CONF([], project="os_ken", version="4")
manager = AppManager.get_instance()
manager.load_apps(["app", "os_ken.controller.ofp_handler"])
contexts = manager.create_contexts()
hub.joinall(manager.instantiate_apps(**contexts))
"""


@experiment(_in_lab_time=True)
def leaves(run: Run, megabytes: int = 1) -> None:
    """Leaves a large file."""
    print("leaving", flush=True)
    Path("large").write_bytes(bytes(megabytes << 20))


@experiment(_in_lab_time=True)
def looks_around(run: Run) -> None:
    """Sees what of the machine is visible."""
    run.figure("interfaces", sorted(path.name for path in Path("/sys/class/net").iterdir()))
    run.figure("processes", len(list(Path("/proc").glob("[0-9]*"))))
    run.figure("run", sorted(path.name for path in Path("/run").iterdir()))


@experiment(_in_lab_time=True)
def needs_vrf(run: Run) -> None:
    """Uses something that not every kernel has."""
    subprocess.run(["ip", "link", "add", "red", "type", "vrf", "table", "10"], check=True)


@experiment(_in_lab_time=True)
def imports(run: Run, modules: str = "") -> None:
    """Two hosts send to one, in a network that begins after more or fewer modules have been imported."""
    import importlib

    for module in modules.split():
        importlib.import_module(module)
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    with network(Incast(2)) as net:
        begin_ns = time.monotonic_ns()
        *hosts, target = net.hosts
        with Flows([Flow(host, target, 3, count=50) for host in hosts]) as flows:
            flows.wait()
        run.figure("last frames", [report.last_lab_ns - begin_ns for report in flows.reports])
        run.figure("setuptools", "setuptools" in sys.modules)
