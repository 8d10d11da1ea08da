"""BIRD's configuration (bird.conf) of a router. BIRD 2 is one daemon for all protocols."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.subjects.routing.protocols import MOST_WAYS, Bfd, Bgp, Ospf, milliseconds, seconds
from testbed.subjects.routing.router import Router, Software, require_addresses

_ADVERTISED = "min ra interval 3; max ra interval 4; default lifetime 0;"


class Bird(Software):
    """BIRD: `Bird(Bgp())`, `Bird(Ospf(), Bfd("50ms"))`, or a file, `Bird(config=Path("r1.conf"))`.

    BIRD names BGP neighbours by address: those of cables without one are the link-local addresses that Linux makes of
    MAC addresses.
    """

    speaks = (Bgp, Ospf, Bfd)
    package = "bird2"

    def made(self, router: Router) -> str:
        return "\n".join(self._lines(router)) + "\n"

    def _lines(self, router: Router) -> Iterator[str]:
        yield from (
            f"router id {router.router_id};", "protocol device { scan time 60; }",
            "protocol direct connected { ipv4; interface "
            + ", ".join(f'"{port.name}"' for port in router.ports if not port.leads_to_router)
            + "; }"
            if router.networks
            else "",
            "protocol kernel { ipv4 { export where source != RTS_DEVICE; };",
            f"  merge paths on limit {MOST_WAYS}; persist off; }}",
        )  # fmt: skip
        bfd: Bfd | None = self.protocols.get(Bfd)
        if bfd is not None:
            yield f'protocol bfd {{ interface "*" {{ interval {milliseconds(bfd.interval)} ms;'
            yield f"  multiplier {bfd.multiplier}; }}; }}"
        if Ospf in self.protocols:
            yield from self._ospf(router, self.protocols[Ospf], bfd is not None)
        if Bgp in self.protocols:
            yield from self._bgp(router, self.protocols[Bgp], bfd is not None)

    def _bgp(self, router: Router, bgp: Bgp, has_bfd: bool) -> Iterator[str]:
        # By router advertisements FRR finds a neighbour that it knows by the port alone. They offer no default route.
        ports = " ".join(f'interface "{port.name}" {{ {_ADVERTISED} }};' for port in router.uplinks)
        yield f"protocol radv {{ {ports} }}"
        for number, port in enumerate(router.uplinks, start=1):
            yield f"protocol bgp neighbour{number} {{"
            yield f"  local as {self.asn(router)};"
            yield f"  neighbor {port.far_link_local}%'{port.name}' external;"
            yield f"  hold time {seconds(bgp.hold)}; keepalive time {seconds(bgp.keepalive)};"
            yield "  connect delay time 1; connect retry time 1; error wait time 1, 10;"
            if has_bfd:
                yield "  bfd on;"
            yield '  ipv4 { extended next hop on; import all; export where source = RTS_BGP || proto = "connected"; };'
            yield "}"

    def _ospf(self, router: Router, ospf: Ospf, has_bfd: bool) -> Iterator[str]:
        require_addresses(router, "OSPF")
        yield f"protocol ospf v2 {{ ecmp on limit {MOST_WAYS}; ipv4 {{ export none; }}; area {ospf.area} {{"
        for port in router.ports:
            if port.address is None:
                continue
            if not port.leads_to_router:
                yield f'  interface "{port.name}" {{ stub on; }};'
                continue
            yield f'  interface "{port.name}" {{ type ptp; hello {seconds(ospf.hello)}; dead {seconds(ospf.dead)};'
            yield f"    cost {port.cost};{' bfd on;' if has_bfd else ''} }};"
        yield "}; }"
