"""FRR's configuration (frr.conf) of a router, and which of its daemons that needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testbed.errors import UsageError, listed
from testbed.subjects.routing.protocols import MOST_WAYS, Bfd, Bgp, Isis, Ospf, milliseconds, seconds
from testbed.subjects.routing.router import Router, RouterPort, Software, require_addresses

SID_INTERFACE = "sr0"
"""The interface, without a cable, of the kernel's routes for SIDs that are of no neighbour."""
_STATEMENTS = (
    ("bgpd", r"^router bgp\b"), ("ospfd", r"^router ospf\b"), ("ospf6d", r"^router ospf6\b"),
    ("isisd", r"^router isis\b"), ("bfdd", r"^bfd\b|^ *(?:ip |ipv6 )?(?:ospf |isis )?bfd\b|\bbfd$"),
    ("ripd", r"^router rip\b"), ("ripngd", r"^router ripng\b"), ("staticd", r"^(?:ip|ipv6) route\b"),
    ("pathd", r"^ *traffic-eng\b"), ("pbrd", r"^pbr-map\b"), ("vrrpd", r"^ *vrrp\b"), ("eigrpd", r"^router eigrp\b"),
    ("babeld", r"^router babel\b"),
)  # fmt: skip
"""The lines of a configuration by which a daemon is needed."""


_RELEASES = ("trixie",)


class Frr(Software):
    """FRR: `Frr(Bgp())`, `Frr(Ospf(), Bfd("50ms"))`, `Frr(Isis())`, or a file, `Frr(config=Path("r1.conf"))`.

    `release="trixie"` is the FRR 10.3 of Debian 13, which runs in a root of its own, in place of the FRR 8.4 of the
    lab's Debian 12. SRv6 needs it: `Frr(Isis(locator="fd00:5:1::/48"), release="trixie")`.
    """

    speaks = (Bgp, Ospf, Isis, Bfd)

    def __init__(self, *protocols: Any, config: str | Path = "", release: str = "") -> None:
        super().__init__(*protocols, config=config)
        if release not in ("", *_RELEASES):
            raise UsageError(f"Frr: release is {release!r}; there is {listed(_RELEASES)}, or none for the lab's own")
        self.release = release
        isis: Isis | None = self.protocols.get(Isis)
        if isis is not None and isis.locator and not release:
            raise UsageError('Frr: the FRR 8.4 of the lab knows no SRv6; add release="trixie", or leave locator out')

    @property
    def package(self) -> str:  # type: ignore[override]
        return f"{self.release}:frr" if self.release else "frr"

    def made(self, router: Router) -> str:
        return "\n".join(self._lines(router)) + "\n"

    def daemons(self, text: str) -> tuple[str, ...]:
        """Return the daemons that a configuration needs, in the order in which they are started."""
        needed = [daemon for daemon, pattern in _STATEMENTS if re.search(pattern, text, re.MULTILINE)]
        if self.release:  # FRR 10 gives zebra its interfaces, and staticd all it has, by way of mgmtd
            needed = ["mgmtd", *needed]
        return ("zebra", *(["staticd"] if "staticd" in needed else []), *(one for one in needed if one != "staticd"))

    def _lines(self, router: Router) -> Iterator[str]:
        yield f"hostname {router.name}"
        # The kernel removes its next hop objects with a port's carrier, and zebra goes on using them.
        yield "no zebra nexthop kernel enable"
        bfd: Bfd | None = self.protocols.get(Bfd)
        if bfd is not None:
            yield from (
                "bfd", " profile cables", f"  receive-interval {milliseconds(bfd.interval)}",
                f"  transmit-interval {milliseconds(bfd.interval)}", f"  detect-multiplier {bfd.multiplier}",
                " exit", "exit",
            )  # fmt: skip
        for protocol, lines in ((Isis, self._isis), (Ospf, self._ospf), (Bgp, self._bgp)):
            if protocol in self.protocols:
                yield from lines(router, self.protocols[protocol], bfd is not None)

    def _bgp(self, router: Router, bgp: Bgp, has_bfd: bool) -> Iterator[str]:
        yield from (
            f"router bgp {self.asn(router)}", f" bgp router-id {router.router_id}", " no bgp ebgp-requires-policy",
            " bgp bestpath as-path multipath-relax", f" timers bgp {seconds(bgp.keepalive)} {seconds(bgp.hold)}",
        )  # fmt: skip
        for port in router.uplinks:
            yield f" neighbor {port.name} interface remote-as external"
            yield f" neighbor {port.name} timers connect 1"
            yield f" neighbor {port.name} advertisement-interval 0"
            if has_bfd:
                yield f" neighbor {port.name} bfd profile cables"
        yield " address-family ipv4 unicast"
        yield from (f"  network {network}" for network in router.networks)
        yield from (f"  maximum-paths {MOST_WAYS}", " exit-address-family", "exit")

    def _ospf(self, router: Router, ospf: Ospf, has_bfd: bool) -> Iterator[str]:
        require_addresses(router, "OSPF")
        for port in router.ports:
            if port.address is None:
                continue
            yield f"interface {port.name}"
            yield f" ip ospf area {ospf.area}"
            if not port.leads_to_router:
                yield " ip ospf passive"
                yield "exit"
                continue
            yield " ip ospf network point-to-point"
            yield f" ip ospf hello-interval {seconds(ospf.hello)}"
            yield f" ip ospf dead-interval {seconds(ospf.dead)}"
            yield f" ip ospf cost {port.cost}"
            if has_bfd:
                yield " ip ospf bfd profile cables"
            yield "exit"
        yield from ("router ospf", f" ospf router-id {router.router_id}", f" maximum-paths {MOST_WAYS}", "exit")

    def _isis(self, router: Router, isis: Isis, has_bfd: bool) -> Iterator[str]:
        if isis.locator:
            yield from (
                "segment-routing", " srv6", "  locators", "   locator lab",
                f"    prefix {isis.locator} block-len 32 node-len 16 func-bits 16",
                "   exit", "  exit", " exit", "exit", "interface lo", " ipv6 router isis lab", " isis passive", "exit",
            )  # fmt: skip
        else:
            require_addresses(router, "IS-IS")
        for port in router.uplinks if isis.locator else router.ports:
            if not port.leads_to_router and port.address is None:
                continue
            yield from self._isis_port(port, isis, has_bfd)
        yield from (
            "router isis lab", f" net 49.0001.{router.system_id}.00", " is-type level-2-only", " lsp-gen-interval 1",
            " no hostname dynamic", " metric-style wide",
        )  # fmt: skip
        if isis.locator:
            yield from (" topology ipv6-unicast", " segment-routing srv6", "  locator lab")
            yield from (f"  interface {SID_INTERFACE}", " exit")
        yield "exit"

    def _isis_port(self, port: RouterPort, isis: Isis, has_bfd: bool) -> Iterator[str]:
        yield f"interface {port.name}"
        if port.address is not None and not isis.locator:
            yield " ip router isis lab"
        if not port.leads_to_router:
            yield from (" isis passive", "exit")
            return
        yield " ipv6 router isis lab"
        yield from (
            " isis network point-to-point", f" isis hello-interval {seconds(isis.hello)}",
            f" isis hello-multiplier {isis.lost_after}", f" isis metric {port.cost}",
        )  # fmt: skip
        if has_bfd:
            yield from (" isis bfd", " isis bfd profile cables")
        yield "exit"
