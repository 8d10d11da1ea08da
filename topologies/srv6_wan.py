"""Two data centres over an SRv6 wide area network with End.X.PFC at its edges: srv6-wan,HOSTS"""

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import Any

from testbed.errors import warn
from testbed.net.build.topo import LosslessTopo, TopoError
from testbed.net.fabric.bring_up import Mismatch
from testbed.net.fabric.cable import MTU, Cable
from testbed.net.fabric.port import ROCE, Port
from testbed.subjects.routing.frr import Frr
from testbed.subjects.routing.protocols import Isis
from testbed.subjects.srv6.agent.plan import ControlPlan, SliceQueues, WanPlan
from testbed.subjects.srv6.lab import routers as srv6
from testbed.subjects.srv6.lab.controller import SrController
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.behaviours import Behaviour
from testbed.subjects.srv6.protocol.endx_pfc import LocalSid
from testbed.subjects.srv6.protocol.pause_refresh import Refresh
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.protocol.sid import Sid
from testbed.subjects.srv6.protocol.tunnel_learning import LearnerSettings
from testbed.switch.ecn.curve import EcnCurve
from testbed.switch.priority.settings import PriorityMap, Trust
from testbed.switch.ways.settings import ways_of
from testbed.units import Duration, Length

FIGURES: Mapping[int, Sequence[tuple[str, str, int]]] = {
    3: (("r1", "r2", 10), ("r2", "r3", 10)),
    2: (("r1", "r2", 10), ("r2", "r5", 10), ("r2", "r3", 6), ("r3", "r4", 6), ("r4", "r5", 6)),
}
"""The draft's figures: links between routers, and how long they are, in tenths of the WAN's cable."""
TENANTS = ("red", "blue", "green", "grey")
HOSTS = (("a", "b"), ("c", "d"), ("e", "f"), ("g", "h"))
"""The letters of a tenant's hosts in data centre 1 and 2."""


class Srv6Wan(LosslessTopo):
    """`n` hosts a1..an in data centre 1 and b1..bn in data centre 2, figure 3 of the draft:

    a1 ---+                                                 +--- b1
    a2 ---s1--- r1 ------wan------ r2 ------wan------ r3 ---s2--- b2
    an ---+   End.X.PFC            End             End.X.PFC  +--- bn

    r2 has plain SRv6 and no PFC. With figure=2 the far edge is r5, and there is a way round by r3 and r4. `back` is
    how back-pressure crosses the WAN: "planned" (tunnels set up beforehand, scenario 1), "learned" (scenario 2),
    "controlled" (VPN, policies and tunnels are those of a `controller`, with which it is the default), or "none".
    `headroom` cells at an edge are for what is on its way; with `measure` they are until it is measured through the
    tunnels.

    `vpn` is the behaviour of VPN SIDs, one for all tenants or one each: "End.DT4", "End.DT6" or "End.DT46", whose hosts
    have IPv4, IPv6 or both. With `ipv6` it is "End.DT46".

    `wan_mtu` is the MTU of the WAN's cables. Where hosts have IPv6 alone or too, it has room for five segments around
    the hosts' longest packets by default. With IPv4 alone it is theirs, and an edge loses packets that do not fit.

    `wan_ecn` is an ECN curve of the lossless queues of the WAN's ports. The edges then copy marks between the headers
    of tunnels, by RFC 6040; with tunnel_ecn=False they do as Linux does, which loses them.

    The switches are Xoff's own or (`leaves="openflow"`) Open vSwitch leaves, the controller's if there is one, which is
    the default then.

    More `tenants` have hosts of their own (c and d, e and f, g and h), switches and VPNs, and lossless traffic in a
    slice each, with its own queue at the edges; `blind`: they share one. `shares` are the slices' parts, in percent, of
    the edges' ports to the WAN; by default equal ones.

    With `igp` routers speak IS-IS, by the FRR of Debian 13 (`@experiment(debs=["trixie:frr"])`), in place of static
    routes, and their End and End.X SIDs are FRR's. The routers between the edges have nothing else, and the controller
    knows them by IS-IS alone (`controller.following`).
    """

    mismatch = Mismatch.IGNORE  # an edge router differs from one side to the other on purpose

    def build(
        self,
        n: int = 2,
        *,
        wan: Length | str = "50km",
        back: str | None = None,
        headroom: int = 0,
        figure: int = 3,
        tenants: int = 1,
        blind: bool = False,
        measure: bool = False,
        shares: Sequence[int] = (),
        leaves: str | None = None,
        controller: SrController | None = None,
        igp: bool = False,
        vpn: str | Sequence[str] | None = None,
        wan_mtu: int | None = None,
        wan_ecn: EcnCurve | None = None,
        tunnel_ecn: bool | None = None,
    ) -> None:
        self.require(1, n=n, tenants=tenants)
        back = back or ("controlled" if controller else "planned")
        self.choose(("planned", "learned", "none", "controlled"), back=back)
        self.choose(FIGURES, figure=figure)
        self.choose(range(1, len(TENANTS) + 1), tenants=tenants)
        if (back == "controlled") != (controller is not None):
            raise TopoError(
                f"Srv6Wan: back is {back!r} and controller {controller!r}; give a controller without back, or neither"
            )
        if igp and controller is None:
            raise TopoError("Srv6Wan: with igp SIDs are the routers' own, and a controller learns them; give one")
        control = controller.session if controller else None
        self.vpns = self._behaviours(vpn, tenants)
        self.choose((None, False, True), tunnel_ecn=tunnel_ecn)
        if wan_ecn is None and tunnel_ecn is not None:
            warn(f"Srv6Wan: tunnel_ecn={tunnel_ecn} has no effect, as no port of the WAN marks; give wan_ecn a curve")
        self.tunnel_ecn = wan_ecn is not None and tunnel_ecn is not False
        self.igp = igp
        leaves = leaves or ("openflow" if control else "own")
        self.choose(("own", "openflow"), leaves=leaves)
        self.open_leaves = leaves == "openflow"
        self.n, self.back, self.control, self.tenants, self.measure = n, back, control, tenants, measure
        cable = Cable(self.cable.rate, wan)
        self.delay, self.rate = cable.delay, cable.rate
        lab = cable.in_lab(self.scale)
        self.lab_delay, self.lab_rate = lab.delay, lab.rate
        self.edges = ("r1", "r3" if figure == 3 else "r5")
        spans = [(one, other, _tenths(self.lab_delay, length)) for one, other, length in FIGURES[figure]]
        self.graph = srv6.WanGraph(spans, dict.fromkeys(self.edges, tenants))
        sliced = tenants > 1 and not blind
        self.slices = tuple(
            SliceQueues(10 * (place + 1), TENANTS[place], {ROCE: ROCE + place if sliced else ROCE})
            for place in range(tenants if sliced else 0)
        )
        self.queues = tuple(ROCE + place for place in range(tenants)) if sliced else (ROCE,)
        if shares and len(shares) != len(self.slices):
            raise TopoError(f"Srv6Wan: shares is {shares!r}; there are {len(self.slices)} slices, and each has one")
        sids = {router: self._sids(router) for router in self.graph.routers}
        directory = tuple(sid for own in sids.values() for sid in own)
        for router in self.graph.routers:
            commands = self.graph.setup(router, sids[router], ways_of(self.ways), has_igp=igp)
            if igp:
                prefix = srv6.locator(srv6.router_number(router))
                self._routing = Frr(Isis(locator=str(prefix)), release="trixie")
                if router not in self.edges:
                    assert control is not None
                    control.admit(router, [prefix])
                    self.addRouter(router, ip=None, commands=commands)
                    continue
            if router not in self.edges:
                plan = WanPlan(
                    srv6.source_address(srv6.router_number(router)), (), control=self._control(router, sids[router])
                )
                self.addRouter(router, ip=None, commands=commands, wan=srv6.Wan(plan, ()) if control else None)
                continue
            self._add_edge(router, commands, sids[router], directory, headroom)
        self._add_data_centres()
        if wan_mtu is None and any(behaviour.takes_ipv6 for behaviour in self.vpns):
            wan_mtu = self.cable.mtu + srv6.LONGEST_TUNNEL
        parts = dict(zip(self.queues, shares, strict=True)) if shares else {}
        curves = dict.fromkeys(self.queues, wan_ecn) if wan_ecn else {}
        silent, obeys = Port(ecn=curves).without_pfc(), Port(shares=parts, ecn=curves).with_pfc(*self.queues)
        for one, other, length in FIGURES[figure]:
            ends = [obeys if router in self.edges else silent for router in (one, other)]
            long = Cable(self.cable.rate, delay=_tenths(cable.delay, length), mtu=MTU if wan_mtu is None else wan_mtu)
            metric = _tenths(self.lab_delay, length).ns // 1000 if igp else 1
            self.addLink(one, other, cable=long, settings1=ends[0], settings2=ends[1], cost=metric)

    def intents(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the requests to the controller: a VPN of each tenant, and policies there and back."""
        vpns, policies = [], []
        for place in range(self.tenants):
            colour = 100 * (place + 1)
            slice_id = self.slices[place].id if self.slices else None
            sites = [
                {"router": edge, "interfaces": [f"{edge}-eth{place}"], "prefixes": self._centre(place, centre).prefixes}
                for centre, edge in enumerate(self.edges, 1)
            ]
            behaviour = self.vpns[place].name
            vpn = {"name": TENANTS[place], "colour": colour, "behaviour": behaviour, "slice": slice_id, "sites": sites}
            vpns.append(vpn)
            for headend, endpoint in (self.edges, self.edges[::-1]):
                policies.append({"headend": headend, "colour": colour, "endpoint": endpoint, "vpn": TENANTS[place]})
        return vpns, policies

    def _sids(self, router: str) -> tuple[Sid, ...]:
        legs = self.graph.legs[router]
        found = [srv6.end_sid(router), *(srv6.end_x_sid(router, place, leg) for place, leg in enumerate(legs))]
        if self.igp:
            found = []
        if router in self.edges:
            for place, leg in enumerate(legs):
                found += [srv6.end_x_pfc_sid(router, place, leg, one.id) for one in self.slices] or [
                    srv6.end_x_pfc_sid(router, place, leg, beside_igp=self.igp)
                ]
            if self.back != "controlled":
                found += [self._vpn_sid(router, place) for place in range(self.tenants)]
        return tuple(found)

    def _control(self, router: str, sids: Sequence[Sid]) -> ControlPlan | None:
        if self.control is None:
            return None
        edge = router in self.edges
        legacy = set(self.graph.routers) - set(self.edges) if self.igp else ()
        rate_bps = self.lab_rate.bps // max(1, self.tenants)
        report = self.graph.report(router, sids, edge, self.slices, rate_bps, legacy=legacy)
        key = self.control.admit(router, [srv6.locator(srv6.router_number(router))])
        return ControlPlan(self.control.path, key, report, self.graph.legs[router][0].interface)

    def _add_edge(
        self, edge: str, commands: list[srv6.Setup], sids: Sequence[Sid], directory: tuple[Sid, ...], headroom: int
    ) -> None:
        far = self.edges[self.edges[0] == edge]
        way = self.graph.path(edge, far)
        between = [srv6.end_sid(router) for router in way[1:-1]]
        delay = sum((self.graph.leg(one, two)[1].delay for one, two in pairwise(way)), Duration("0s"))
        refresh = Refresh.of(self.lab_rate, delay, Duration("5ms"))
        out = self.graph.leg(edge, way[1])[1]
        tunnels = []
        for place in range(self.tenants):
            slice_id = self.slices[place].id if self.slices else None
            near, other = self._pausing(edge, slice_id, far), self._pausing(far, slice_id, edge)
            inside, own = f"{edge}-eth{place}", 1 if edge == self.edges[0] else 2
            commands += self._centre(place, own).port_commands(inside)
            if self.back != "controlled":
                site = srv6.Site(TENANTS[place], srv6.FIRST_TABLE + place, inside, self._vpn_sid(edge, place))
                segments = [sid.address for sid in (near, *between, self._vpn_sid(far, place))]
                commands.append(site)
                prefixes = self._centre(place, 3 - own).prefixes
                commands += [site.route(prefix, segments, out.interface) for prefix in prefixes]
            if place and slice_id is None:
                continue  # one for all
            back = tuple(sid.address for sid in (srv6.end_sid(edge), *between, other))
            tunnels.append(ReverseTunnel(edge, far, back, slice_id, out.interface, delay.ns))
        plan = WanPlan(
            source=srv6.source_address(srv6.router_number(edge)),
            sids=tuple(
                LocalSid(sid, srv6.DOMAIN, measures=self.measure)
                for sid in sids
                if sid.behaviour is behaviours.END_X_PFC
            ),
            tunnels=tuple((tunnel, refresh) for tunnel in tunnels) if self.back == "planned" else (),
            learner=LearnerSettings(srv6.end_sid(edge), srv6.DOMAIN) if self.back == "learned" else None,
            directory=directory,
            learned_refresh=refresh,
            measures=self.measure,
            slices=self.slices,
            fastest=self.lab_rate,
            control=self._control(edge, sids),
        )
        wan_ports = [self.tenants + place for place in range(len(self.graph.legs[edge]))]
        # The longest way, there and back; and what a frame waits for in each router.
        needed = srv6.headroom(self.lab_rate, self.graph.longest(edge, far), len(self.graph.routers) - 2)
        cells = headroom or needed
        self.addRouter(
            edge,
            ip=None,
            commands=commands,
            wan=srv6.Wan(plan, tuple(leg.interface for leg in self.graph.legs[edge])) if self.back != "none" else None,
            buffer=srv6.edge_buffer(product(wan_ports, self.queues), cells, needed * 5 // 4),
            **({"tunnel_ecn": True} if self.tunnel_ecn else {}),
        )

    def _pausing(self, router: str, slice_id: int | None, far: str) -> Sid:
        """The SID that pauses a router's port on the way to the other edge."""
        place, leg = self.graph.leg(router, self.graph.path(router, far)[1])
        return srv6.end_x_pfc_sid(router, place, leg, slice_id, beside_igp=self.igp)

    def _behaviours(self, vpn: str | Sequence[str] | None, tenants: int) -> list[Behaviour]:
        """Return the behaviour of each tenant's VPN SIDs."""
        usual = srv6.vpn_for("Srv6Wan", self._ipv6)
        if vpn is None:
            vpn = usual.name
        names = [vpn] * tenants if isinstance(vpn, str) else list(vpn)
        if len(names) != tenants:
            raise TopoError(f"Srv6Wan: vpn is {vpn!r}; there are {tenants} tenants, and each has one")
        found = [srv6.vpn_behaviour("Srv6Wan", name) for name in names]
        if self._ipv6 and not any(behaviour.takes_ipv6 for behaviour in found):
            raise TopoError(f"Srv6Wan: ipv6 is True, and {vpn!r} carries no IPv6; leave one of them out")
        return found

    def _vpn_sid(self, router: str, place: int) -> Sid:
        return srv6.vpn_sid(router, place, self.vpns[place])

    def _centre(self, place: int, centre: int) -> srv6.DataCentre:
        return srv6.DataCentre(2 * place + centre, self.vpns[place].decapsulates)

    def _add_data_centres(self) -> None:
        for place in range(self.tenants):
            for centre, (edge, letter) in enumerate(zip(self.edges, HOSTS[place], strict=True), 1):
                addresses, switch = self._centre(place, centre), f"s{2 * place + centre}"
                if self.open_leaves:
                    self.addLeaf(switch, self.control.openflow if self.control else None)
                else:
                    self.addSwitch(switch)
                port = Port().with_pfc(ROCE)
                if self.slices:  # in the WAN the tenant's priority is the one that has a queue of the slice's own
                    queue = self.slices[place].queues[ROCE]
                    inside = PriorityMap(Trust.DSCP, dot1p_to_local={ROCE: queue}, rewrite_dscp={ROCE: queue * 8})
                    port = Port(priorities=inside).with_pfc(ROCE)
                self.addLink(edge, switch, params1=addresses.port(), settings1=port)
                for host in range(1, self.n + 1):
                    name = self.addHost(f"{letter}{host}", **addresses.host(host))
                    self.addLink(name, switch)


def _tenths(whole: Duration, tenths: int) -> Duration:
    return Duration.from_ps(whole.ps * tenths // 10)


topos = {"srv6-wan": Srv6Wan}
