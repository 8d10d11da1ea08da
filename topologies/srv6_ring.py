"""Three data centres round an SRv6 ring with End.X.PFC at its edges: srv6-ring,HOSTS"""

from collections.abc import Sequence
from itertools import pairwise, product

from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.bring_up import Mismatch
from testbed.net.fabric.cable import MTU, Cable
from testbed.net.fabric.port import ROCE, Port
from testbed.subjects.srv6.agent.plan import WanPlan
from testbed.subjects.srv6.lab import routers as srv6
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.endx_pfc import LocalSid
from testbed.subjects.srv6.protocol.pause_refresh import Refresh
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.protocol.sid import Sid
from testbed.switch.pfc.settings import PfcSettings, WatchdogSettings
from testbed.switch.ways.settings import ways_of
from testbed.units import Duration, Length

EDGES = {"r1": "a", "r3": "b", "r5": "c"}
"""The edge routers, and the letter of the hosts behind each."""
ROUND = ("r1", "r2", "r3", "r4", "r5", "r6", "r1")
VPN = "ring"
INSIDE = "eth0"
"""An edge's port to its data centre."""


class Srv6Ring(LosslessTopo):
    """`n` hosts in each of three data centres, a1..an, b1..bn and c1..cn, in one VPN over a ring of six routers:

             a1..an
               |
               s1
               |
    r6 ------- r1 ------- r2
    |                     |
    r5 ------- r4 ------- r3
    |                     |
    s3                    s2
    |                     |
    c1..cn                b1..bn

    r1, r3 and r5 have End.X.PFC, and each of them a reverse tunnel to both others ("planned"; "none": no tunnels). The
    routers between have plain SRv6 and no PFC. Each way from one edge to another is the short one: over the one router
    between. `headroom` cells at an edge are for what is on its way.

    With `clockwise` everything goes r1, r2, ... r6, r1, so that each edge also passes on what another one sends to the
    third, over its own End.X.PFC SID. `queues` are the lossless priorities, by which traffic can be distinguished, and
    `watchdog` is that of the edges' ports to the WAN.

    With `ipv6` hosts have both versions of IP, the VPN's SIDs are End.DT46, and the ring's cables have room for the
    segments around the hosts' longest packets.
    """

    mismatch = Mismatch.IGNORE  # an edge router differs from one side to the other on purpose

    def build(
        self,
        n: int = 2,
        *,
        wan: Length | str = "10km",
        back: str = "planned",
        headroom: int = 0,
        clockwise: bool = False,
        queues: Sequence[int] = (ROCE,),
        watchdog: WatchdogSettings | None = None,
    ) -> None:
        self.require(1, n=n)
        self.choose(("planned", "none"), back=back)
        self.choose((0, 1), clockwise=clockwise)
        self.n, self.back, self.headroom, self.clockwise, self.queues = n, back, headroom, clockwise, queues
        self.vpn = srv6.vpn_for(type(self).__name__, self._ipv6)
        cable = Cable(self.cable.rate, wan)
        self.delay, self.rate = cable.delay, cable.rate
        lab = cable.in_lab(self.scale)
        self.lab_delay, self.lab_rate = lab.delay, lab.rate
        spans = [(one, other, self.lab_delay) for one, other in pairwise(ROUND)]
        self.graph = srv6.WanGraph(spans, dict.fromkeys(EDGES, 1))
        sids = {router: self._sids(router) for router in self.graph.routers}
        directory = tuple(sid for own in sids.values() for sid in own)
        for router in self.graph.routers:
            commands = self.graph.setup(router, sids[router], ways_of(self.ways))
            if router in EDGES:
                self._add_edge(router, commands, sids[router], directory)
            else:
                self.addRouter(router, ip=None, commands=commands)
        for edge in EDGES:
            self._add_data_centre(edge)
        mtu = self.cable.mtu + srv6.LONGEST_TUNNEL if self.vpn.takes_ipv6 else MTU
        between = Cable(self.cable.rate, wan, mtu=mtu)
        silent, obeys = Port().without_pfc(), Port(pfc=PfcSettings(watchdog=watchdog)).with_pfc(*queues)
        for one, other in pairwise(ROUND):
            ends = [obeys if router in EDGES else silent for router in (one, other)]
            self.addLink(one, other, cable=between, settings1=ends[0], settings2=ends[1])

    def _sids(self, router: str) -> tuple[Sid, ...]:
        legs = self.graph.legs[router]
        found = [srv6.end_sid(router), *(srv6.end_x_sid(router, place, leg) for place, leg in enumerate(legs))]
        if router in EDGES:
            found += [srv6.end_x_pfc_sid(router, place, leg) for place, leg in enumerate(legs)]
            found.append(srv6.vpn_sid(router, behaviour=self.vpn))
        return tuple(found)

    def _add_edge(
        self, edge: str, commands: list[srv6.Setup], sids: tuple[Sid, ...], directory: tuple[Sid, ...]
    ) -> None:
        site = srv6.Site(VPN, srv6.FIRST_TABLE, f"{edge}-{INSIDE}", srv6.vpn_sid(edge, behaviour=self.vpn))
        commands += [*self._centre(edge).port_commands(site.interface), site]
        refresh = Refresh.of(self.lab_rate, self.lab_delay * 2, Duration("5ms"))
        tunnels = []
        for far in EDGES:
            if far == edge:
                continue
            (_, middle, _) = self.graph.path(edge, far)
            there = self._there(edge, far)
            first = there[0].adjacencies[0].interface
            segments = [sid.address for sid in there]
            commands += [site.route(prefix, segments, first) for prefix in self._centre(far).prefixes]
            out = self.graph.leg(edge, middle)[1]
            # The frame comes to the far edge by the port that it is to pause.
            back = [srv6.end_sid(edge), srv6.end_sid(middle), srv6.end_x_pfc_sid(far, *self.graph.leg(far, middle))]
            way = tuple(sid.address for sid in back)
            tunnels.append((ReverseTunnel(edge, far, way, None, out.interface, self.lab_delay.ns * 2), refresh))
        plan = WanPlan(
            source=srv6.source_address(srv6.router_number(edge)),
            sids=tuple(LocalSid(sid, srv6.DOMAIN) for sid in sids if sid.behaviour is behaviours.END_X_PFC),
            tunnels=tuple(tunnels),
            directory=directory,
            fastest=self.lab_rate,
        )
        interfaces = tuple(leg.interface for leg in self.graph.legs[edge])
        cells = self.headroom or srv6.headroom(self.lab_rate, self.lab_delay * 2, 1)
        self.addRouter(
            edge,
            ip=None,
            commands=commands,
            wan=srv6.Wan(plan, interfaces) if self.back == "planned" else None,
            buffer=srv6.edge_buffer(product(range(1, 1 + len(interfaces)), self.queues), cells),
        )

    def _there(self, edge: str, far: str) -> list[Sid]:
        """The segments from one edge to another: edges pass on by their End.X.PFC, other routers by End."""
        way = self.graph.path(edge, far)
        if self.clockwise:
            twice = ROUND[:-1] * 2
            start = twice.index(edge)
            way = list(twice[start : twice.index(far, start) + 1])
        found = []
        for router, neighbour in pairwise(way):
            able = router in EDGES
            found.append(
                srv6.end_x_pfc_sid(router, *self.graph.leg(router, neighbour)) if able else srv6.end_sid(router)
            )
        return [*found, srv6.vpn_sid(far, behaviour=self.vpn)]

    def _centre(self, edge: str) -> srv6.DataCentre:
        return srv6.DataCentre(list(EDGES).index(edge) + 1, self.vpn.decapsulates)

    def _add_data_centre(self, edge: str) -> None:
        centre = self._centre(edge)
        switch = f"s{centre.number}"
        self.addSwitch(switch)
        inside = Port().with_pfc(*self.queues)
        self.addLink(edge, switch, params1=centre.port(), settings1=inside, settings2=inside)
        for host in range(1, self.n + 1):
            name = self.addHost(f"{EDGES[edge]}{host}", **centre.host(host))
            self.addLink(name, switch, settings1=inside, settings2=inside)


topos = {"srv6-ring": Srv6Ring}
