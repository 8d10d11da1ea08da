"""Options of topologies: Mininet's words for a cable are taken, and unknown ones refused with the nearest name."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from testbed.errors import UsageError, nearest
from testbed.net.build import options
from testbed.net.build.mininet_classes import Host
from testbed.net.build.nodes import RdmaHost
from testbed.net.fabric.cable import Cable
from testbed.net.fabric.port import Buffer, Port
from testbed.net.fabric.ports import type_of_service
from testbed.switch.buffer.settings import Dynamic, Static
from testbed.switch.pfc.settings import PfcSettings
from testbed.switch.priority.settings import PriorityMap, Trust
from testbed.units import Duration, Length, Rate
from topologies.incast import Incast

DEFAULT = Cable("10Gb/s", "500m", loss="1/1000")


def refusal(call: Any, *arguments: Any) -> str:
    with pytest.raises(UsageError) as caught:
        call(*arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "cable"),
    [
        ({"bw": 1, "delay": "5ms", "loss": 10}, Cable("1Mb/s", delay="5ms", loss="1/10")),
        ({"bw": 0.5}, Cable("500kb/s", "500m", loss="1/1000")),
        ({"mtu": 9000}, Cable("10Gb/s", "500m", loss="1/1000", mtu=9000)),
        ({"rate": "25Gb/s"}, Cable("25Gb/s", "500m", loss="1/1000")),
        ({"delay": Duration("1us")}, Cable("10Gb/s", delay="1us", loss="1/1000")),
        ({"length": "5m", "loss": 0}, Cable("10Gb/s", "5m")),
        ({"loss": 0.1}, Cable("10Gb/s", "500m", loss="1/1000")),
        ({"loss": "1/50"}, Cable("10Gb/s", "500m", loss="1/50")),
        ({"loss": Fraction(1, 2)}, Cable("10Gb/s", "500m", loss="1/2")),
        ({"cable": Cable("1Gb/s")}, Cable("1Gb/s")),
        ({"bw": None, "cable": None}, DEFAULT),
    ],
)
def test_mininets_words_describe_a_cable_and_leave_the_rest_as_it_is(given: dict[str, Any], cable: Cable) -> None:
    assert options.cable_of("addLink(h1, s1)", given, DEFAULT) == cable


def test_a_default_with_a_delay_keeps_it() -> None:
    changed = options.cable_of("addLink(h1, s1)", {"bw": 100}, Cable("1Gb/s", delay="3us"))
    assert (changed.rate, changed.delay, changed.length) == (Rate("100Mb/s"), Duration("3us"), None)
    assert options.cable_of("x", {"length": "1m"}, Cable(delay="3us")).length == Length("1m")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bw": 1, "rate": "1Mb/s"}, "addLink(h1, s1): bw and rate are both given; give one of them"),
        ({"delay": "1us", "length": "5m"}, "addLink(h1, s1): delay and length are both given; give one of them"),
        ({"cable": Cable(), "bw": 1}, "addLink(h1, s1): bw and cable are both given; put bw into the cable"),
        ({"cable": "10Gb/s"}, "addLink(h1, s1): the cable is '10Gb/s'; write Cable('10Gb/s', '5m')"),
        ({"bw": "1Gb/s"}, "addLink(h1, s1): bw is '1Gb/s'; it is a number of Mb/s above zero"),
        ({"bw": 0}, "addLink(h1, s1): bw is 0; it is a number of Mb/s above zero"),
        ({"loss": 101}, "addLink(h1, s1): loss is 101; a number is percent, 0 to 100"),
        ({"delay": 5}, "addLink(h1, s1): a duration is read from text with a unit"),
        ({"rate": "fast"}, "addLink(h1, s1): 'fast' is not a rate"),
    ],
)
def test_a_description_that_cannot_be_is_refused_with_the_place(given: dict[str, Any], message: str) -> None:
    assert refusal(options.cable_of, "addLink(h1, s1)", given, DEFAULT).startswith(message)


@pytest.mark.parametrize(
    ("name", "known", "message"),
    [
        ("cabel", options.LINK, "addX: there is no option cabel; did you mean cable?"),
        ("setings2", options.LINK, "addX: there is no option setings2; did you mean settings2?"),
        ("bufer", options.SWITCH, "addX: there is no option bufer; did you mean buffer?"),
        ("prot", options.HOST, "addX: there is no option prot; did you mean port?"),
        ("jitter", options.LINK, "addX: jitter is not an option of lossless networks: a cable has one delay for all"),
        ("use_htb", options.LINK, "addX: use_htb is not an option of lossless networks: queues are those of the ports"),
        ("zzz", options.HOST, "addX: there is no option zzz; there are cls, defaultRoute, defaultRoute6, forwarding"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_one(name: str, known: tuple[str, ...], message: str) -> None:
    assert refusal(options.refuse_unknown, "addX", [known[0], name], known).startswith(message)


def test_known_options_pass() -> None:
    options.refuse_unknown("addLink", options.LINK, (*options.LINK, *options.LINK_OF_MININET))


def test_the_way_out_of_a_wrong_name_is_short() -> None:
    assert nearest("h9", ["h1", "h2"]) == "there are h1, h2"
    assert nearest("leaf01", ["leaf1", "spine1"]) == "did you mean leaf1?"
    assert nearest("zebra", ["h1"]) == "there is h1"
    assert nearest("zebra", [f"h{n:02d}" for n in range(50)]).endswith("h19 and 30 more")
    assert nearest("zebra", []) == "there are none"


@pytest.mark.parametrize(
    ("given", "buffer"),
    [
        ({}, Buffer(total=3000)),
        ({"xoff": 400}, Buffer(total=3000, xoff=Static(400))),
        ({"xoff": 80}, Buffer(total=3000, xoff=Static(80), xon_offset=40)),
        ({"xoff": 80, "xon_offset": 16}, Buffer(total=3000, xoff=Static(80), xon_offset=16)),
        ({"xoff": "25%"}, Buffer(total=3000, xoff=Dynamic("1/4"))),
        ({"xoff": Dynamic(2)}, Buffer(total=3000, xoff=Dynamic(2))),
        ({"xoff": None}, Buffer(total=3000, xoff=None)),
        ({"total": 9000, "headroom": 79, "guaranteed": 10}, Buffer(total=9000, headroom=79, guaranteed=10)),
        ({"buffer": Buffer(total=1)}, Buffer(total=1)),
    ],
)
def test_words_describe_a_buffer_and_leave_the_rest_as_it_is(given: dict[str, Any], buffer: Buffer) -> None:
    assert options.buffer_of("Incast", given, Buffer(total=3000)) == buffer
    assert Incast(2, **{"total": 3000} | given).buffer == buffer if "buffer" not in given else True


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"buffer": Buffer(), "xoff": 1}, "Incast: xoff and buffer are both given; put it into the buffer"),
        ({"buffer": 4000}, "Incast: buffer is 4000; write buffer=Buffer(...)"),
        ({"xoff": "400"}, "Incast: xoff is '400'; write a number of cells, a part of the free cells as in '50%'"),
        ({"xoff": True}, "Incast: xoff is True; write a number of cells"),
        ({"xoff": -1}, "Incast: static threshold is -1"),
        ({"xof": 1}, "Incast: there is no option xof; did you mean xoff?"),
    ],
)
def test_a_buffer_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    assert refusal(lambda: Incast(2, **given)).startswith(message)


def test_hosts_have_soft_roce_only_if_they_are_asked_to() -> None:
    """A host without it has no option and no class for it, so its network is as it was before there was Soft-RoCE."""
    plain, all_hosts = Incast(1), Incast(1, rdma=True)
    assert plain.nodeInfo("h1").keys() == {"port"}
    assert {all_hosts.nodeInfo(host)["cls"] for host in all_hosts.hosts()} == {RdmaHost}
    all_hosts.addHost("x", rdma=False)
    assert "cls" not in all_hosts.nodeInfo("x")
    plain.addHost("y", rdma=True)
    assert plain.nodeInfo("y")["cls"] is RdmaHost


def test_a_class_of_hosts_that_cannot_have_soft_roce_is_refused() -> None:
    class Mine(RdmaHost): ...

    topology = Incast(1)
    topology.addHost("x", rdma=True, cls=Mine)
    assert topology.nodeInfo("x")["cls"] is Mine
    message = "addHost(y): rdma=True needs the class RdmaHost; make Host a subclass of it"
    assert refusal(lambda: topology.addHost("y", rdma=True, cls=Host)) == message
    assert refusal(lambda: Incast(1, rdma="iwarp")).startswith(
        "Incast: rdma is 'iwarp'; False or True or dcqcn or dcqcn-mlx or fixed or siw is expected"
    )


@pytest.mark.parametrize("rdma", [True, "siw"])
def test_a_kernel_without_rdma_is_named_before_a_host_starts(rdma: bool | str) -> None:
    assert refusal(lambda: RdmaHost("h1", rdma=rdma)) == (
        f"host h1: rdma={rdma!r} needs RDMA by software, which the kernel of the engine um has and this one has not; "
        f"run it with --engine um, or leave rdma={rdma!r} out"
    )


def test_connections_get_the_priority_of_the_port_that_is_lossless() -> None:
    assert type_of_service(Port()) == 24 << 2
    assert type_of_service(Port(pfc=PfcSettings(enabled=frozenset({4, 5})))) == 32 << 2
    moved = PriorityMap(Trust.DSCP, dscp_to_dot1p={24: 0})
    assert type_of_service(Port(priorities=moved)) == 25 << 2
    assert type_of_service(Port(pfc=PfcSettings(enabled=frozenset()))) == 0
