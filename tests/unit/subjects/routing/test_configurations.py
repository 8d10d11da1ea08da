"""Configurations of routing daemons, as they are made of a topology."""

from __future__ import annotations

from ipaddress import IPv4Interface
from pathlib import Path

import pytest

from testbed.errors import UsageError
from testbed.subjects.routing.bird import Bird
from testbed.subjects.routing.frr import Frr
from testbed.subjects.routing.protocols import Bfd, Bgp, Isis, Ospf
from testbed.subjects.routing.router import Router, RouterPort

HOST = RouterPort("r1-eth0", "h1", "h1-eth0", False, IPv4Interface("10.1.1.1/30"))
BARE = RouterPort("r1-eth1", "r2", "r2-eth1", True, far_mac="02:00:00:00:00:07")
NUMBERED = RouterPort("r1-eth1", "r2", "r2-eth1", True, IPv4Interface("10.9.1.1/30"), cost=3)


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def test_bgp_needs_no_addresses_and_tells_networks_of_hosts() -> None:
    text = Frr(Bgp(asn=65001)).text(Router("r1", 1, (HOST, BARE)))
    found = lines(text)
    assert "router bgp 65001" in found
    assert "neighbor r1-eth1 interface remote-as external" in found
    assert "network 10.1.1.0/30" in found
    assert not any("r1-eth0" in line for line in found)
    assert Frr(Bgp()).daemons(text) == ("zebra", "bgpd")


def test_bfd_is_asked_for_by_each_protocol() -> None:
    router = Router("r1", 1, (HOST, NUMBERED))
    for protocol, line in ((Bgp(), "neighbor r1-eth1 bfd profile cables"), (Ospf(), "ip ospf bfd profile cables")):
        software = Frr(protocol, Bfd("50ms", 4))
        text = software.text(router)
        assert {line, "transmit-interval 50", "detect-multiplier 4"} <= set(lines(text))
        assert "bfdd" in software.daemons(text)


def test_costs_of_cables_are_those_of_the_igp() -> None:
    router = Router("r1", 1, (HOST, NUMBERED))
    assert "ip ospf cost 3" in lines(Frr(Ospf()).text(router))
    assert "isis metric 3" in lines(Frr(Isis()).text(router))
    assert "cost 3; };" in lines(Bird(Ospf()).text(router))


def test_a_locator_makes_sids_and_needs_no_ipv4_addresses() -> None:
    software = Frr(Isis(locator="fd00:5:1::/48"), release="trixie")
    text = software.text(Router("r1", 1, (HOST, BARE), locator="fd00:5:1::/48"))
    found = lines(text)
    assert {"prefix fd00:5:1::/48 block-len 32 node-len 16 func-bits 16", "interface sr0", "interface lo"} <= set(found)
    assert "ip router isis lab" not in found and not any("r1-eth0" in line for line in found)
    assert software.daemons(text) == ("zebra", "mgmtd", "isisd")
    assert software.package == "trixie:frr"
    assert Router("r1", 1, (HOST, BARE), locator="fd00:5:1::/48").networks == ("fd00:5:1::/48",)


def test_bird_names_its_neighbour_by_the_address_that_linux_makes() -> None:
    found = lines(Bird(Bgp()).text(Router("r1", 2, (HOST, BARE))))
    assert "neighbor fe80::0:ff:fe00:7%'r1-eth1' external;" in found
    assert "local as 4200000002;" in found


def test_a_protocol_that_needs_addresses_names_the_port_without() -> None:
    for software in (Frr(Ospf()), Bird(Ospf()), Frr(Isis())):
        with pytest.raises(UsageError, match="needs an IPv4 address at r1-eth1, which leads to r2"):
            software.text(Router("r1", 1, (HOST, BARE)))


def test_a_configuration_of_ones_own_is_taken_as_it_is(tmp_path: Path) -> None:
    router, file = Router("r1", 1, (BARE,)), tmp_path / "r1.conf"
    file.write_text("router ospf6\n")
    software = Frr(config=file)
    assert software.text(router) == "router ospf6\n"
    assert software.daemons(software.text(router)) == ("zebra", "ospf6d")
    with pytest.raises(UsageError, match=r"nothing\.conf cannot be read: No such file"):
        Frr(config=tmp_path / "nothing.conf").text(router)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Frr, "give it what it is to speak"),
        (lambda: Frr(Bgp(), config="router bgp 1"), "not both"),
        (lambda: Frr(Isis(locator="fd00:5:1::/48")), 'add release="trixie"'),
        (lambda: Isis(locator="fd00:5:1::/64"), "an IPv6 prefix of 48 bits is expected"),
        (lambda: Frr(Bgp(), release="sid"), "there is trixie"),
        (lambda: Frr(Bfd()), "BFD alone makes no routes"),
        (lambda: Frr(Bgp(), Bgp()), "Bgp is given twice"),
        (lambda: Bird(Isis()), "no protocol that it speaks"),
        (lambda: Frr(Bgp), "'Bgp' is no protocol"),
        (lambda: Bgp(asn=0), "asn is 0"),
        (lambda: Bgp(hold="2s", keepalive="1s"), "BGP takes 3s or more"),
        (lambda: Bgp(keepalive="9s"), "shorter than hold"),
        (lambda: Ospf(dead="1500ms"), "whole seconds"),
        (lambda: Bfd("1ms"), "from 10ms"),
        (lambda: Bfd(multiplier=1), "from 2 to 255"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(UsageError, match=message) as raised:
        make()
    assert "\n" not in str(raised.value)
