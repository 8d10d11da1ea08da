"""A conformance case, and the bench that its function gets. The package's docstring says how to write one.

Not an experiment. A case is an experiment whose parameters are speed and buffer model; its body makes the switch, runs
the case on it, and again on the same switch with a mechanism off.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Annotated, Any

from experiments.conformance._tables import (
    MODELS,
    SPEEDS,
    default_tables,
    without_ecn,
    without_headroom,
    without_pfc,
    without_watchdog,
)
from testbed.errors import warnings_of
from testbed.experiment.run import holds
from testbed.subjects.sonic.lab.settings import CELL, scale_for
from testbed.subjects.sonic.ports_to_test import classes, ports_under_test, split, with_only
from testbed.subjects.sonic.tables import Tables
from xoff import (
    BufferSettings,
    Duration,
    Ecn,
    Experiment,
    File,
    Flow,
    Network,
    OneOf,
    Rate,
    Run,
    Size,
    SonicSwitch,
    SonicTopo,
    UsageError,
    experiment,
    network,
)

__all__ = [
    "FRAME",
    "Bench",
    "CaseError",
    "Change",
    "Control",
    "case",
    "fill_time",
    "frames_to_fill",
    "without_ecn",
    "without_headroom",
    "without_pfc",
    "without_watchdog",
]

Change = Callable[[Tables], Tables]
FRAME = Size("1514B")
FRAME_WIRE = 24
"""Octets of the line beside a frame's own: FCS, preamble and gap."""


class CaseError(UsageError):
    """A case that does not fit the switch."""


@dataclass(frozen=True)
class Control:
    """The same case without what it tests. `fails` are the claims that must not hold then."""

    name: str
    change: Change | None = None
    fails: tuple[str, ...] | list[str] = ()


class Bench:
    """The switch under test with its hosts, and where a case reports what it measured."""

    def __init__(self, run: Run, tables: Tables, given: Tables, control: Control | None, options: dict[str, Any]):
        self.run = run
        self.tables = tables
        self.is_control = control is not None
        self._control = control
        self._judged: dict[str, bool] = {}
        self._options = options
        self.switch = self.switch_of(tables)
        """The switch of the case; in the control with the mechanism off."""
        self.given = self.switch_of(given)
        """The switch with all mechanisms."""
        self.ports = list(ports_under_test(given))
        """The ports under test, by their SONiC names; host h1 is at the first, and so on."""
        self.line = self.given.ports[self.ports[0]].rate
        """The rate of each port."""
        self.lossless = sorted(given.pfc_of(self.ports[0]))
        self.lossy = [p for p in range(8) if p not in self.lossless and _reachable(self.given, p)]
        """Priorities without PFC that a DSCP leads to."""
        if not self.lossy:
            raise CaseError(
                f"{self.given.name}: no DSCP leads to a traffic class without PFC, and cases take one for lossy traffic"
            )

    def switch_of(self, tables: Tables) -> SonicSwitch:
        """Return a switch of other tables, on the same scale."""
        return SonicSwitch.of(tables, **self._options)

    # Network and traffic

    @contextmanager
    def network(self, hosts: int = 2, topo: Any = None, mtu: int = 1500, **options: Any) -> Iterator[Any]:
        """Start the switch with a host at each of its first ports, and links with an MTU; or any other topology."""
        if topo is None:
            topo = SonicTopo(self.switch, hosts=hosts, mtu=mtu)
        case = f"control: {self._control.name}" if self._control else "the switch as it is"
        expected = warnings_of(f"{case}, where this is expected") if self._control else nullcontext()
        with expected, network(topo, case=case, **options) as net:
            yield net

    def port_of(self, host: str) -> str:
        """Return the SONiC name of the port at which a host is."""
        return self.ports[int(host.removeprefix("h")) - 1]

    def port(self, net: Network, host: str) -> str:
        """Return the name in the lab of the switch's port at which a host is, as in s1-eth2."""
        name: str = net.fabric.far_end(net.fabric.port(f"{host}-eth0")).name
        return name

    @staticmethod
    def round_trip(net: Network) -> Duration:
        """Return the round trip of the longest cable: 2 us for 200 m."""
        longest: Duration = max(port.cable.delay for port in net.fabric.ports.values())
        return longest * 2

    def fill_time(self, net: Network, *frames: Size) -> Duration:
        """Return the longest time until frames for one port, beyond its line, have filled the switch."""
        node = net.fabric.port(self.port(net, "h1")).node.name
        return fill_time(net.fabric.buffers[node], self.line, frames or (FRAME,)) + self.round_trip(net)

    def flow(
        self, source: str, target: str, priority: int, frame: Size | str = FRAME, rate: Rate | None = None, **more: Any
    ) -> Flow:
        """Return a flow of ECN-capable frames of a priority, with a DSCP that the switch takes for it."""
        given = {"dscp": self.given.dscp(priority), "ecn": Ecn.ECT_0} | more
        return Flow(source, target, priority, frame, rate, **given)

    def frame_time(self, frame: Size | str = FRAME) -> Duration:
        """Return the time of a frame on the line."""
        return _frame_time(self.line, Size(frame))

    def settle_time(self, fill: Duration) -> Duration:
        """Return the longest time to wait for what a switch holds that is full after this time."""
        return settle_time(fill, self.paced("20ms"))

    # Times

    def paced(self, duration: Duration | str) -> Duration:
        """Return a time that is given for a line of 100 Gb/s as it is for the switch's: a quarter of it on 400 Gb/s.

        In the lab the fastest port has 100 Mb/s on any switch, so such times are the same there.
        """
        return Duration.from_ps(Duration(duration).ps * 1000 // self.switch.scale.k)

    def lab_ns(self, duration: Duration) -> int:
        """Return a time of the hardware in ns of the lab, to add it to a moment of the lab's clock."""
        return self.switch.scale.lab(duration).ns

    def measured(self, lab_ns: int) -> Duration:
        """Return the hardware's time for ns that were measured by the lab's clock, rounded down."""
        return Duration.from_ps(lab_ns * 1000 // self.switch.scale.k)

    # Results

    def claim(self, name: str, measured: Any, **bounds: Any) -> None:
        """Report a measured value beside the one that the plan expects: `equals`, or `at_least` and `at_most`."""
        if self._control is None:
            self.run.claim(name, measured, **bounds)
        elif name in self._control.fails:
            self._judged[name] = self._judged.get(name, True) and holds(measured, **bounds)
            self.figure(name, measured)

    def figure(self, name: str, value: Any) -> None:
        """Report a number that no claim has."""
        self.run.figure(f"{self._control.name}: {name}" if self._control else name, value)

    def judge(self) -> None:
        """Report the claims about the control, at its end."""
        assert self._control is not None
        for name in self._control.fails:
            if name not in self._judged:
                raise CaseError(f"the control {self._control.name} has no claim {name!r}; it has {list(self._judged)}")
            self.run.claim(f"control, {self._control.name}: holds: {name}", self._judged[name], equals=False)


def case(
    *,
    control: Control,
    ports: int = 2,
    timeout: str = "120s",
    tables: Change | None = None,
    watchdog_scale: int | None = None,
) -> Callable[[Callable[[Bench], None]], Experiment]:
    """Make an experiment of a case's function.

    `ports` is how many ports of one kind it takes. `timeout` is in the lab's time, for case and control together on
    Xoff's own switch.
    """

    takes = ports

    def make(function: Callable[[Bench], None]) -> Experiment:
        @functools.wraps(function, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
        def body(
            run: Run,
            speed: Annotated[str, OneOf(*SPEEDS)] = SPEEDS[0],
            buffer: Annotated[str, OneOf(*MODELS)] = MODELS[0],
            switch: File | None = None,
            ports: str | None = None,
        ) -> None:
            found = default_tables(speed, buffer) if switch is None else SonicSwitch.from_config_db(switch.path).tables
            given = with_only(found, split(ports) if ports else classes(found, CELL)[0].places())
            if tables is not None:
                given = tables(given)
            scale = scale_for(replace(given, ports=ports_under_test(given)))
            options: dict[str, Any] = {"scale": scale, "watchdog_scale": watchdog_scale}
            if len(ports_under_test(given)) < takes:
                raise CaseError(
                    f"this case takes {takes} ports that differ in cable, MTU and group profiles alone; the switch has "
                    f"{len(ports_under_test(given))}"
                )
            for off in (None, control):
                changed = off.change(given) if off and off.change else given
                bench = Bench(run, changed, given, off, options)
                function(bench)
            bench.judge()

        body.__signature__ = inspect.signature(body, follow_wrapped=False)  # type: ignore[attr-defined]
        body.ports = ports  # type: ignore[attr-defined]
        return experiment(timeout=timeout)(body)

    return make


def _frame_time(line: Rate, frame: Size) -> Duration:
    return line.time_for(frame + Size.from_bytes(FRAME_WIRE))


def frames_to_fill(buffer: BufferSettings, frame: Size = FRAME) -> int:
    """Return the most frames that a switch can hold, in all its ingress pools."""
    return sum(pool.total for pool in buffer.pools) // buffer.cells(frame.bytes) + 1


def fill_time(buffer: BufferSettings, line: Rate, frames: Iterable[Size]) -> Duration:
    """Return the longest time until a switch is full, where arrivals exceed departures by the rate of one line.

    Among frames of several sizes those that fill cells most slowly decide.
    """
    return max(_frame_time(line, frame) * frames_to_fill(buffer, frame) for frame in frames)


def settle_time(fill: Duration, least: Duration) -> Duration:
    """Return the longest time to wait for what a full switch holds, `least` or more: it empties as slowly as it
    fills.
    """
    return max(least, fill * 2)


def _reachable(switch: SonicSwitch, priority: int) -> bool:
    try:
        switch.dscp(priority)
    except UsageError:
        return False
    return True
