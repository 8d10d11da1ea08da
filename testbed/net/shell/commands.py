"""The commands that Xoff adds to Mininet's command line. Only the lab can import this.

The views (`views.py`) show the running network; clear resets its counters; traffic sends lossless flows; capture writes
the frames at a port into a file; iperf measures by iperf3; mn runs Mininet's own command beside this network. Subjects
add theirs. A command that fails prints one line.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from mininet.cli import CLI

import testbed
from testbed import subject
from testbed.errors import UsageError, XoffError, nearest
from testbed.net import traffic
from testbed.net.build.network import network
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.fabric import Fabric
from testbed.net.shell import topologies, views, wire
from testbed.net.shell.mininet_command import with_xoff_file
from testbed.net.shell.views import View, table
from testbed.net.traffic import Flow, Flows, Report
from testbed.net.traffic.tcp import TcpReport
from testbed.net.watch.readings import Reading, since
from testbed.strict.numbers import whole
from testbed.units import Duration

_CLEAR_SCREEN = "\033[H\033[2J"
_FLOW_WORDS = {"rate": "rate", "for": "duration", "count": "count", "priority": "priority", "frame": "frame",
               "dscp": "dscp", "ecn": "ecn", "size": "size", "transport": "transport", "control": "rate_control",
               }  # fmt: skip
_LAB_DURATION = Duration("1s")
_MN = Path(testbed.__path__[0]) / "mn.py"


def shell(wanted: str) -> None:
    """Build the topology that `wanted` names, as in `star,4`, and run Mininet's command line on it."""
    topo = topologies.build(wanted)
    install()
    with network(topo, log="output") as net:
        has = f"{len(net.hosts)} hosts, {len(net.switches)} switches"
        print(f"*** {topologies.shown(wanted)}: {has}; `help` for commands, `exit` to end")
        try:
            CLI(net)
        finally:
            end()


def install() -> None:
    """Add the commands to Mininet's CLI; its `help` lists them."""
    for name, view in views.every().items():
        _add(name, _showing(name, view), f"{view.show.__doc__}\n\n{name} [NODE|PORT] [--watch [SECONDS]] [--json]")
    for do in (_clear, _traffic, _capture, _iperf, _iperfudp, _mn):
        _add(do.__name__.removeprefix("_"), do, do.__doc__ or "")
    for commands in subject.loaded("shell"):
        for name, perform in commands.items():
            _add(name, _printing(perform), perform.__doc__ or "")
    shell = CLI.do_sh

    def do_sh(cli: CLI, line: str) -> None:
        if re.match(r"mn(\s|$)", line):
            cli.onecmd(line)
        else:
            shell(cli, line)

    do_sh.__doc__ = shell.__doc__
    setattr(CLI, "do_sh", do_sh)  # noqa: B010


def _printing(perform: Callable[[Sequence[str]], str]) -> Callable[[CLI, list[str]], None]:
    return lambda _, words: print(perform(words), end="")


def _add(name: str, do: Callable[[CLI, list[str]], None], help_: str) -> None:
    def command(cli: CLI, line: str) -> None:
        try:
            do(cli, shlex.split(line))
        except (XoffError, ValueError, OSError) as error:
            print(f"*** {name}: {error}")

    command.__doc__ = help_
    setattr(CLI, f"do_{name}", command)


def end() -> None:
    """End the traffic and the captures that still run."""
    _RUNNING.stop()
    for name in list(_CAPTURES):
        _CAPTURES.pop(name).close()


# Showing and clearing

_CLEARED: dict[str, Reading] = {}


def _showing(name: str, view: View) -> Callable[[CLI, list[str]], None]:
    def show(_: CLI, words: list[str]) -> None:
        wanted, period_s, as_json = _options(words)
        while True:
            fabric, before = Fabric.current(), _CLEARED.get(name)
            if as_json:
                text = json.dumps(since(view.read(fabric, wanted), before)) + "\n"
            else:
                text = view.show(fabric, wanted, before) if view.counts else view.show(fabric, wanted)
            if period_s is None:
                print(text, end="")
                return
            head = "" if as_json else f"{_CLEAR_SCREEN}{' '.join([name, wanted]).strip()} every {period_s:g} s\n"
            print(f"{head}{text}", end="", flush=True)
            try:
                time.sleep(period_s)
            except KeyboardInterrupt:
                print()
                return

    return show


def _options(words: Sequence[str]) -> tuple[str, float | None, bool]:
    """Return the node or port, the seconds between two tables or None, and True if JSON is wanted."""
    wanted, period_s, as_json = "", None, False
    for word in words:
        if word == "--json":
            as_json = True
        elif word == "--watch":
            period_s = 1.0
        elif word.startswith("-"):
            raise UsageError(f"there is no option {word}; {nearest(word, ['--watch', '--json'])}")
        elif period_s is not None and re.fullmatch(r"[0-9]*\.?[0-9]+s?", word):
            period_s = max(0.1, float(word.removesuffix("s")))
        elif wanted:
            raise UsageError(f"{wanted} and {word}: one node or port is expected, or none for all")
        else:
            wanted = word
    return wanted, period_s, as_json


def _clear(_: CLI, words: list[str]) -> None:
    """Reset the counters that other commands show; states and high-water marks stay.

    clear"""
    if words:
        raise UsageError("it takes no arguments: it resets all counters")
    fabric = Fabric.current()
    _CLEARED.update({name: view.read(fabric, "") for name, view in views.every().items() if view.counts})


# Traffic


class _Running:
    """The flows in the background; there is one set of them at a time."""

    def __init__(self) -> None:
        self.flows: list[Flow] = []
        self._running: Flows | None = None

    def start(self, flows: list[Flow]) -> None:
        if self._running is not None:
            raise UsageError("there is traffic already; `traffic stop` ends it and shows its results")
        running = Flows(flows)
        running.__enter__()
        self._running, self.flows = running, flows

    def so_far(self) -> str:
        if self._running is None:
            return "no traffic; `help traffic`\n"
        rows = [
            (flow.source, flow.target, flow.priority, self._running.sent_by(number), self._running.received_by(number))
            for number, flow in enumerate(self.flows)
        ]
        return table(("from", "to", "prio", "sent", "received"), rows)

    def stop(self) -> list[Report]:
        running, self._running = self._running, None
        if running is None:
            return []
        running.__exit__(None, None, None)
        return running.reports


_RUNNING = _Running()


def _traffic(_: CLI, words: list[str]) -> None:
    """Send UDP flows and count every datagram at both ends; a priority is lossless where its ports have PFC for it.

    traffic SOURCE[,SOURCE...] TARGET [rate=4Gb/s] [for=1ms|count=1000] [priority=3] [frame=1514B] [dscp=24] [ecn=1] [&]
    traffic              show what the traffic in the background has sent so far
    traffic stop         end it, and show its results

    Rates and times are those of the hardware. Without rate a flow sends as fast as its port lets it. With & at the end
    the flows run in the background."""
    if not words:
        print(_RUNNING.so_far(), end="")
        return
    if words == ["stop"]:
        flows = _RUNNING.flows
        print(_reported(flows, _RUNNING.stop()), end="")
        return
    background = words[-1] == "&"
    flows = _flows(words[: len(words) - background])
    if background:
        _RUNNING.start(flows)
        return
    with Flows(flows) as running:
        try:
            running.wait()
        except KeyboardInterrupt:
            print()
    print(_reported(flows, running.reports), end="")


def _flows(words: Sequence[str]) -> list[Flow]:
    ends, options = [word for word in words if "=" not in word], [word for word in words if "=" in word]
    if len(ends) != 2:
        raise UsageError("a source and a target are expected, as in: traffic h1,h2 r for=2ms")
    chosen: dict[str, Any] = {}
    for option in options:
        name, _, value = option.partition("=")
        if name not in _FLOW_WORDS:
            raise UsageError(f"there is no option {name}; {nearest(name, _FLOW_WORDS)}")
        number = name in ("count", "priority", "dscp", "ecn")
        found = whole(value, 10**18) if number else value
        if found is None:
            raise UsageError(f"{option[:60]}: a whole number is expected")
        chosen[_FLOW_WORDS[name]] = found
    if not chosen.keys() & {"count", "duration"}:
        chosen["duration"] = Fabric.current().units.nearest_real(_LAB_DURATION)
    nodes = FabricCore.current().ports
    return [Flow(nodes.node(source), nodes.node(ends[1]), **chosen) for source in ends[0].split(",")]


def _reported(flows: Sequence[Flow], reports: Sequence[Report]) -> str:
    if not reports:
        return "no traffic; `help traffic`\n"
    rows = [
        (flow.source, flow.target, flow.priority, one.sent, one.received, one.lost, one.out_of_order, one.goodput,
         f"{one.worst_delay.ps / 1e9:.3f}")
        for flow, one in zip(flows, reports, strict=True)
    ]  # fmt: skip
    heads = ("from", "to", "prio", "sent", "received", "lost", "out of order", "goodput", "longest way ms")
    return table(heads, rows)


def _iperf(cli: CLI, words: list[str]) -> None:
    """Measure one TCP flow by iperf3, from the first host to the second, for the given duration, or 1 s of the lab.

    iperf [SOURCE TARGET [DURATION]]"""
    hosts = [host.name for host in cli.mn.hosts]
    source, target, *rest = words or [hosts[0], hosts[-1]] if len(words) != 1 else [words[0], ""]
    if not target or len(rest) > 1:
        raise UsageError("two hosts are expected, as in: iperf h1 h2 5ms")
    nodes = FabricCore.current().ports
    duration = Duration(rest[0]) if rest else nodes.units.nearest_real(_LAB_DURATION)
    one, other = nodes.node(source), nodes.node(target)
    traffic.ping(one, other)  # fails if there is no answer; a connection would be waited for much longer
    with Flows([Flow(one, other, priority=0, transport="tcp", duration=duration)]) as running:
        running.wait()
    (found,) = running.reports_of(TcpReport)
    print(f"{source} -> {target}: {found.goodput} of TCP over {duration}, {found.retransmits} retransmitted")


def _iperfudp(*_: Any) -> None:
    """Use `traffic` in its place: it sends UDP, and counts every datagram.

    traffic SOURCE TARGET rate=10Gb/s for=5ms"""
    raise UsageError("UDP flows are sent by: traffic h1 h2 rate=10Gb/s for=5ms")


# Captures

_CAPTURES: dict[str, ExitStack] = {}


def _capture(_: CLI, words: list[str]) -> None:
    """Write the frames at a port into a file, with PFC frames; the files reach your machine when the shell ends.

    capture PORT [FILE] [FILTER...]   start, as in: capture s1-eth1 pauses.pcap ether proto 0x8808
    capture                           list the ports that are being captured
    capture stop [PORT]               end one capture, or all"""
    fabric = Fabric.current()
    if not words:
        print("".join(f"{port}\n" for port in _CAPTURES) or "no captures; `help capture`\n", end="")
    elif words[0] == "stop":
        for port in words[1:] or list(_CAPTURES):
            if port not in _CAPTURES:
                raise UsageError(f"{port} is not being captured; {nearest(port, _CAPTURES)}")
            _CAPTURES.pop(port).close()
    else:
        port, *rest = words
        if port in _CAPTURES:
            raise UsageError(f"{port} is being captured already; `capture stop {port}` ends that")
        file = rest[0] if rest else f"{port}.pcap"
        with ExitStack() as stack:
            stack.enter_context(wire.capture(fabric.port(port).node, port, Path(file), " ".join(rest[1:])))
            _CAPTURES[port] = stack.pop_all()
        print(f"{port} -> {file}, until `capture stop`")


# Mininet's own command


def _mn(_: CLI, words: list[str]) -> None:
    """Run Mininet's own command with Xoff's topologies, switch, link and test, beside this network.

    mn --topo incast,4 --link lossless --switch lossless [--test lossless]"""
    given = with_xoff_file(words)
    # It runs in namespaces of its own: when Mininet fails, it kills every process that is named like one of its nodes.
    own = ["unshare", "--fork", "--kill-child", "--pid", "--net", "--mount", "--mount-proc"]
    with _interrupts_are_its_own():
        code = subprocess.run(
            [*own, "sh", "-c", 'ip link set lo up; exec mn "$@"', "mn", *given],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(_MN.parents[1]), *sys.path]))},
            check=False,
        ).returncode
    if code:
        print(f"*** mn ended with {code}")


@contextmanager
def _interrupts_are_its_own() -> Iterator[None]:
    """Leave Ctrl-C, which reaches all processes at the terminal, to the program that runs now."""
    before = signal.signal(signal.SIGINT, lambda *_: None)  # not SIG_IGN, which the program would inherit
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
