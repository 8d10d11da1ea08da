"""What a run on `um` is forecast to take of the CPU, beside what it takes: within a factor of two."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest

from bench.cpu import Meter
from testbed import lab
from testbed.lab import Run, experiment
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.runs.api import ForesightedWatcher
from testbed.lab.runs.outlook import Outlook

from .conftest import Output

MARKS = {"*": [("engines", "um")]}
FRAMES = {"udp": 8000, "roce": 5000}


@experiment(timeout="300s")
def incast(run: Run, transport: str = "udp", senders: int = 4) -> None:
    """Flows from several hosts to one, which are stopped by pauses."""
    from testbed.net import traffic
    from testbed.units import Size
    from xoff import Incast, network

    frames = FRAMES[transport]
    with network(Incast(senders)):
        flows = [
            traffic.Flow(f"h{number + 1}", "r", count=frames)
            if transport == "udp"
            else traffic.Flow(f"h{number + 1}", "r", transport="roce", size=Size.from_bytes(1024 * frames))
            for number in range(senders)
        ]
        with run.measuring(), traffic.Flows(flows) as running:  # in a measured part nothing else is told of the flows
            running.wait()
    run.claim("lost", running.lost, equals=0)


@experiment(timeout="60s")
def idle(run: Run, hosts: int = 64) -> None:
    """Many hosts that do nothing."""
    from testbed.net.build.topo import LosslessTopo
    from xoff import network

    class Switch(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            for number in range(hosts):
                self.addLink(self.addHost(f"h{number + 1}"), "s1")

    with network(Switch()) as net:
        time.sleep(1)
    run.claim("hosts", len(net.hosts), equals=hosts)


class Seen(Output):
    """A watcher that keeps the first outlook of each part of a run."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: dict[str, Outlook] = {}
        self.left: list[Outlook] = []

    def outlook(self, outlook: Outlook | None) -> None:
        if outlook is not None:
            self.parts.setdefault(outlook.what, outlook)
            self.left.append(outlook)


@pytest.mark.parametrize(
    ("what", "parameters", "nodes"),
    [
        (incast, {"transport": "udp"}, 6),
        (incast, {"transport": "roce", "senders": "2"}, 4),
        (idle, {}, 65),
    ],
)
def test_a_run_takes_what_was_forecast(
    what: lab.Experiment, parameters: dict[str, str], nodes: int, ready: PreparedEngine, tmp_path: Path
) -> None:
    costs, seen = ready.costs, Seen()
    assert costs is not None
    assert isinstance(seen, ForesightedWatcher)
    with closing(Meter()) as meter:
        lab.run(what, parameters=parameters, on=ready, out=tmp_path, watcher=seen).check()
        took_s = meter.read_s()
    set_up = seen.parts[f"network of {nodes} nodes"]
    assert set_up.takes_s is not None
    forecast_s = set_up.takes_s * (1 + costs.job_s / costs.set_up_s(nodes))
    if what is incast:
        flows = seen.parts["flows"]
        assert flows.takes_s is not None
        assert flows.lab_s is not None
        forecast_s += flows.takes_s
        done = [one.done for one in seen.left if one.what == "flows" and one.done is not None]
        assert done == sorted(done)
        assert done[-1] > 0.8, "the time that the flows take in the lab was foreseen"
    assert 0.5 < took_s / forecast_s < 2, f"{took_s:.2f} s of CPU, and {forecast_s:.2f} s were foreseen"
