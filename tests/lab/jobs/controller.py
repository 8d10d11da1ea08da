"""The controller in the lab: Open vSwitch connected, hosts that ping through it, and routers that only speak.

h1 ---s1---s2--- h2     the switches are the controller's; R1, R2 and R3 are agents without a network
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fake_routers import FIGURE_3, POLICY, VPN, FakeRouter, Fleet, ask, report, sid

from testbed.lab import Run, experiment
from testbed.subjects.srv6.session.messages import PolicyItem, router_key

OPENFLOW, URL = "127.0.0.1:6653", "http://127.0.0.1:8181"
PRIORITY = 3
ROOT = Path(sys.modules["testbed"].__path__[0]).parent
NAMES = ("R1", "R2", "R3")


@experiment(_in_lab_time=True, timeout="60s", files=("fake_routers.py",))
def controls(run: Run, library: str = "os-ken") -> None:
    """Check policies and switches under one library, through a restart."""
    with leaves() as hosts, controller(library) as (process, token, key):
        fleet = Fleet(
            [FakeRouter(report(name, FIGURE_3, ("R1", "R3")), router_key(key, name)) for name in NAMES],
            ("127.0.0.1", 7179),
        )

        def get(path: str) -> Any:
            return ask(URL, token, "GET", path)[1] or {}

        idle = Fleet([], fleet.address)
        wait(run, idle, "the controller answers", lambda: get("/topology"))
        begun_ns = run.lab_ns
        wait(run, fleet, "all routers have reported", lambda: get("/topology").get("settled"))
        ask(URL, token, "POST", "/vpns", VPN)
        ask(URL, token, "POST", "/policies", POLICY)
        wait(run, fleet, "the policy is active", lambda: get("/policies/R1:100:R3").get("status") == "active")
        run.claim("from connect to the last reverse tunnel, Figure 3", run.lab_ns - begun_ns, at_most=2_000_000_000)
        run.claim(
            "R3's reverse tunnel",
            fleet.routers["R3"].tunnels(),
            equals=["R3 to R1 by fd00:a:3:1::, fd00:a:2:1::, fd00:a:1:f02::"],
        )
        wait(run, fleet, "both switches are here", lambda: len(get("/topology")["leaves"]) == 2)
        wait(run, fleet, "their link is known", lambda: all(leaf["links"] for leaf in get("/topology")["leaves"]))
        run.claim("pings that were answered", pings(hosts, 5), at_least=4)
        run.claim("hosts that were seen", [len(leaf["hosts"]) for leaf in get("/topology")["leaves"]], equals=[1, 1])
        before = queued("s1", PRIORITY)
        run.claim("pings with a priority that were answered", pings(hosts, 3, dscp=PRIORITY * 8), equals=3)
        fleet.run(lambda: queued("s1", PRIORITY) - before >= 6, seconds=3)  # the kernel's counts come in now and then
        run.claim("packets there and back that got its queue", queued("s1", PRIORITY) - before, equals=6)
        learned = [line for line in flows("s1") if "dl_dst=" in line and "table=2" in line]
        run.claim("rules that s1 has learned", len(learned), equals=2)
        fleet.log()
        process.send_signal(signal.SIGTERM)
        run.claim("exit code after SIGTERM", process.wait(10), equals=0)
        run.claim("pings without a controller", pings(hosts, 3), equals=3)
        with again(library) as second:
            wait(run, fleet, "it has learned all anew", lambda: get("/topology").get("settled"))
            wait(run, fleet, "the policy is there", lambda: get("/policies/R1:100:R3").get("status") == "active")
            wait(run, fleet, "the switches are back", lambda: len(get("/topology")["leaves"]) == 2)
            run.claim("what routers had to do for that", fleet.log(), equals=[])
            run.claim("pings under the next controller", pings(hosts, 5), equals=5)
            fleet.routers["R2"].set_link("to3", time.monotonic_ns(), up=False)
            begun_ns = run.lab_ns
            wait(run, fleet, "a failure is noticed", lambda: get("/policies/R1:100:R3").get("status") == "no path")
            run.claim("recomputation after a failure", run.lab_ns - begun_ns, at_most=500_000_000)
            second.send_signal(signal.SIGINT)
            run.claim("exit code after Ctrl-C", second.wait(10), equals=0)
        fleet.close()


@experiment(_in_lab_time=True, timeout="120s", files=("fake_routers.py",))
def fifty(run: Run, library: str = "os-ken") -> None:
    """Measure, with 50 routers and 200 policies, the time until all is installed, and again after a failure.

    All agents are one process on the lab's one core, beside the controller: both are in the times.
    """
    links = [(f"R{n}", f"R{n + 1}", 3) for n in range(1, 50)] + [("R1", "R50", 3)]
    links += [(f"R{n}", f"R{n + 7}", 4) for n in range(1, 43, 3)]
    edges = [f"R{n}" for n in range(1, 51, 5)]
    token, key = secrets()
    routers = [FakeRouter(report(f"R{n}", links, edges), router_key(key, f"R{n}")) for n in range(1, 51)]
    with again(library):
        fleet = Fleet(routers, ("127.0.0.1", 7179))
        wait(run, Fleet([], fleet.address), "the controller answers", lambda: ask(URL, token, "GET", "/topology")[0])
        begun_ns = run.lab_ns
        request_200(token, edges, fleet)
        wait(run, fleet, "200 policies are installed", lambda: len(lists(fleet)) == 200, 60)
        run.claim("with each intent by REST, one after the other", run.lab_ns - begun_ns, at_most=20_000_000_000)
        fleet.run(lambda: False, seconds=2)  # tunnels of lists that are no more go last
        fleet.close()
    # The next controller meets routers that have lost their tunnels, but not the intents.
    tunnels = count_tunnels(fleet)
    run.figure("reverse tunnels", tunnels)
    for fake in routers:
        fake.router.disconnected(time.monotonic_ns())
        fake.router.installed = {key: item for key, item in fake.router.installed.items() if key[0] != "tunnel"}
    with again(library):
        fleet = Fleet(routers, fleet.address)
        wait(run, Fleet([], fleet.address), "the next one answers", lambda: ask(URL, token, "GET", "/topology")[0])
        begun_ns = run.lab_ns
        wait(run, fleet, "every reverse tunnel is there", lambda: count_tunnels(fleet) == tunnels, 60)
        took_ns = run.lab_ns - begun_ns
        run.claim("from connect to the last reverse tunnel, 50 routers", took_ns, at_most=10_000_000_000)
        fleet.run(lambda: False, seconds=2)  # until everybody has heard of everything
        lost = str(sid("R1", "f02").address)
        carried = sum(lost in segments for segments in lists(fleet))
        run.figure("policies that the link carried", carried)
        fleet.log()
        begun_ns = run.lab_ns
        fleet.routers["R1"].set_link("to2", time.monotonic_ns(), up=False)
        wait(run, fleet, "each has a new list", lambda: count_lists(fleet) == carried)
        run.claim("from a failure to the last new list, 50 routers", run.lab_ns - begun_ns, at_most=500_000_000)
        run.claim("policies that still use it", sum(lost in segments for segments in lists(fleet)), equals=0)
        fleet.close()


def count_lists(fleet: Fleet) -> int:
    """Return the number of policies installed since the last look at the log."""
    return sum(line.startswith("install policy") for fake in fleet.routers.values() for line in fake.log)


def request_200(token: str, edges: list[str], fleet: Fleet) -> None:
    """Request three VPNs and 200 policies between the edges, once all routers have reported."""
    fleet.run(lambda: bool((ask(URL, token, "GET", "/topology")[1] or {}).get("settled")), 30)
    for colour in (100, 101, 102):
        sites = [{"router": edge, "interfaces": [], "prefixes": [f"10.{edge[1:]}.{colour}.0/24"]} for edge in edges]
        ask(URL, token, "POST", "/vpns", {"name": f"v{colour}", "colour": colour, "sites": sites})
    intents = [(a, b, colour) for colour in (100, 101, 102) for a in edges for b in edges if a != b]
    for a, b, colour in intents[:200]:
        ask(URL, token, "POST", "/policies", {"headend": a, "colour": colour, "endpoint": b, "vpn": f"v{colour}"})


def lists(fleet: Fleet) -> list[list[str]]:
    """Return the segments of every installed policy that has some."""
    items = [item for fake in fleet.routers.values() for item in fake.items(PolicyItem)]
    return [list(map(str, item.segments)) for item in items if isinstance(item, PolicyItem) and item.segments]


def count_tunnels(fleet: Fleet) -> int:
    return sum(len(fake.tunnels()) for fake in fleet.routers.values())


@experiment(_in_lab_time=True, timeout="60s", files=("fake_routers.py",))
def ryu_manager(run: Run) -> None:
    """Start the application by Ryu's own launcher."""
    token, key = secrets()
    with started(["ryu-manager", "--ofp-listen-host", "127.0.0.1", "controllers.xoff_controller"]):
        fleet = Fleet(
            [FakeRouter(report(name, FIGURE_3, ("R1", "R3")), router_key(key, name)) for name in NAMES],
            ("127.0.0.1", 7179),
        )
        wait(run, fleet, "settled", lambda: (ask(URL, token, "GET", "/topology")[1] or {}).get("settled"))
        run.claim("answer without a token", ask(URL, "not the token at all", "GET", "/topology")[0], equals=401)
        fleet.close()


def wait(run: Run, fleet: Fleet, what: str, until: Callable[[], Any], seconds: float = 15) -> None:
    run.claim(what, fleet.run(lambda: bool(until()), seconds), equals=True)


def secrets() -> tuple[str, bytes]:
    """Make files with token and key, and return their names in the environment of controllers."""
    for name, text in (("key", "a key for the lab and nothing else"), ("token", "a-token-for-the-lab")):
        path = Path(name).absolute()
        path.write_text(text)
        path.chmod(0o600)
        os.environ[f"XOFF_SR_{name.upper()}_FILE"] = str(path)
    routers = Path("routers.toml").absolute()
    routers.write_text("".join(f'[R{n}]\nlocators = ["fd00:a:{n}::/48"]\n' for n in range(1, 51)))
    os.environ["XOFF_SR_ROUTERS"] = str(routers)
    os.environ["PYTHONPATH"] = str(ROOT)
    return Path("token").read_text(), Path("key").read_bytes()


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with Path("controller.log").open("a") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        print(Path("controller.log").read_text()[-3000:], file=sys.stderr)


def again(library: str) -> Any:
    return started([sys.executable, "-m", "controllers", "--library", library, "--openflow", OPENFLOW])


@contextmanager
def controller(library: str) -> Iterator[tuple[subprocess.Popen[bytes], str, bytes]]:
    token, key = secrets()
    with again(library) as process:
        yield process, token, key


@contextmanager
def leaves() -> Iterator[list[Any]]:
    """Make two switches of the controller's, with a host at each."""
    from mininet.link import Link
    from mininet.net import Mininet
    from mininet.node import OVSSwitch, RemoteController

    from testbed.linux import vswitch

    vswitch.ensure_daemons()
    Mininet.inited = True  # its set-up tunes settings of the whole machine, which a sandbox has not
    net = Mininet(controller=None, link=Link, autoSetMacs=True, build=False)
    net.addController("c0", controller=RemoteController, ip="127.0.0.1", port=6653)
    switches = [
        net.addSwitch(name, cls=OVSSwitch, protocols="OpenFlow13", failMode="secure", reconnectms=1000)
        for name in ("s1", "s2")
    ]
    hosts = [net.addHost(name) for name in ("h1", "h2")]
    for host, switch in zip(hosts, switches, strict=True):
        net.addLink(host, switch)
    net.addLink(*switches)
    net.build()
    net.start()
    try:
        yield hosts
    finally:
        net.stop()


def pings(hosts: list[Any], count: int, dscp: int = 0) -> int:
    """Return the number of answered pings."""
    said = hosts[0].cmd(f"ping -c {count} -i 0.2 -W 1 -Q {dscp << 2} {hosts[1].IP()}")
    match = re.search(r"(\d+) received", said)
    return int(match[1]) if match else 0


def flows(switch: str) -> list[str]:
    command = ["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", switch]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def queued(switch: str, queue: int) -> int:
    """Return the number of IPv4 packets that were given this queue."""
    lines = [line for line in flows(switch) if f"set_queue:{queue}," in line and ",ip," in line]
    return sum(int(match[1]) for line in lines if (match := re.search(r"n_packets=(\d+)", line)))
