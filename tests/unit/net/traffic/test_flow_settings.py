"""Parameters of a flow: rates, sizes and times as people write them, and nothing that cannot be sent."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import FabricError
from testbed.net.traffic import Flow, Flows
from testbed.switch.ecn.field import Ecn
from testbed.units import Duration, Rate, Size


def test_a_flow_reads_what_people_write() -> None:
    flow = Flow("h1", "h2", frame="64B", rate="4Mb/s", duration="1s", start="10ms", buffer="32kB", ecn=1)  # type: ignore[arg-type]
    assert (flow.frame, flow.rate, flow.duration) == (Size("64B"), Rate("4Mb/s"), Duration("1s"))
    assert (flow.start, flow.buffer, flow.ecn) == (Duration("10ms"), Size("32kB"), Ecn(1))
    assert flow == Flow("h1", "h2", 3, Size("64B"), rate=Rate("4Mb/s"), duration=Duration("1s"), ecn=Ecn(1),
                        start=Duration("10ms"), buffer=Size("32kB"))  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"duration": "1"}, "'1' is not a duration: it has no unit"),
        ({"duration": 1}, "a duration is read from text with a unit"),
        ({"rate": "4Mb"}, "'4Mb' is not a rate"),
        ({"rate": "0b/s"}, "a rate of 0b/s sends nothing"),
        ({"priority": 9}, "priority is 9; 0 to 7 is expected"),
        ({"priority": True}, "priority is True; 0 to 7 is expected"),
        ({"dscp": 64}, "dscp is 64; 0 to 63"),
        ({"count": "1000"}, "count is '1000'; a whole number of datagrams"),
        ({"count": -1}, "count is -1; a whole number of datagrams"),
        ({"frame": "10kB"}, "its frames are 10kB long"),
        ({"frame": "59B"}, "its frames are 59B long"),
        ({"ecn": 7}, "7 is not a valid Ecn"),
        ({"source_port": 70_000}, "source_port is 70000; 1 to 65535 is expected, or range(first, last + 1) of them"),
        ({"source_port": 0}, "source_port is 0; 1 to 65535"),
        ({"source_port": True}, "source_port is True; 1 to 65535"),
        ({"source_port": range(5, 5)}, "source_port is range(5, 5); 1 to 65535"),
        ({"source_port": range(0, 9)}, "source_port is range(0, 9); 1 to 65535"),
        ({"source_port": "hash"}, "source_port is 'hash'; transport udp takes a number or a range, and has no rules"),
        (
            {"source_port": "hsh", "transport": "roce"},
            "source_port is 'hsh'; transport roce takes a number, a range or one of 'queue pair', 'hash'",
        ),
        ({"source_port": 4791, "transport": "roce"}, "source_port is 4791; 4791 is the port at which RoCE arrives"),
        (
            {"source_port": 9, "transport": "tcp", "duration": "1s"},
            "source_port is 9; transport tcp chooses its own",
        ),
        ({"sizes": "1MB"}, "there is no option sizes; did you mean size?"),
        (
            {"transport": "roce", "queue_pairs": 2},
            "queue_pairs is an option of transport roce; write transport=Roce(queue_pairs=...)",
        ),
        ({"rate": "4Mb/s", "colour": 1}, "there is no option colour; there are buffer, count, dscp"),
    ],
)
def test_a_flow_that_cannot_be_is_refused_in_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Flow("h1", "h2", **given)
    assert str(caught.value).startswith(f"flow from h1 to h2: {message}")
    assert "\n" not in str(caught.value)


def test_a_port_is_drawn_by_seed_and_flow() -> None:
    flow = Flow("h1", "h2", source_port=range(49_152, 65_536))
    drawn = [flow.with_drawn_port(seed, number).source_port for seed in (1, 2) for number in range(50)]
    assert drawn == [flow.with_drawn_port(seed, number).source_port for seed in (1, 2) for number in range(50)]
    assert len(set(drawn)) > 95
    assert Flow("h1", "h2", source_port=7).with_drawn_port(1, 1).source_port == 7


class Node:
    """Mininet's object, as far as it is looked at."""

    pid = 1

    def __init__(self, name: str) -> None:
        self.name = name


def test_hosts_may_be_named_and_unknown_ones_are_refused_with_the_nearest() -> None:
    fabric = Fabric.current()
    try:
        fabric.core.ports.known_nodes = {name: Node(name) for name in ("h1", "h2")}
        Flows([Flow("h1", fabric.core.ports.known_nodes["h2"])])
        with pytest.raises(FabricError, match=r"there is no node hh1 in this network; did you mean h1\?"):
            Flows([Flow("hh1", "h2")])
        with pytest.raises(FabricError, match="7 is not a node; a name is expected"):
            Flows([Flow("h1", 7)])
    finally:
        fabric.core.stop()


class Running:
    """A port program, and its buffers, that would read memory beyond its tables for a priority above 7."""

    def __init__(self) -> None:
        self.buffers = self

    def group(self, slot: int, priority: int) -> None: ...
    def limits(self, slot: int, priority: int) -> None: ...


@pytest.mark.parametrize("priority", [9, -1, "3", True])
def test_the_fabric_refuses_a_priority_that_does_not_exist(priority: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = Fabric(FabricCore())
    monkeypatch.setattr(fabric.core, "running_program", Running)
    monkeypatch.setattr(fabric, "port", lambda _: type("Port", (), {"slot": 0, "node": Node("s1")}))
    monkeypatch.setattr(fabric, "snapshot", lambda _: {"ports": {"s1-eth1": {"priorities": [{}] * 8}}})
    for ask in (fabric.group, fabric.limits, fabric.pfc):
        with pytest.raises(FabricError, match=f"priority {priority!r} does not exist"):
            ask("s1-eth1", priority)
    with pytest.raises(FabricError, match="priority"):
        fabric.held(priority)
