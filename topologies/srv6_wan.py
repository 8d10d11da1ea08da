"""Two data centres over an SRv6 wide area network with End.X.PFC at its edges: srv6-wan,HOSTS"""

from testbed.agent.plan import WanPlan
from testbed.buffer.settings import GroupSettings, Static
from testbed.net import srv6
from testbed.net.cable import Cable
from testbed.net.fabric import Mismatch
from testbed.net.port import Buffer, Port
from testbed.net.topo import LosslessTopo
from testbed.srv6.endx_pfc import LocalSid
from testbed.srv6.learning import LearnerSettings
from testbed.srv6.refresh import Refresh
from testbed.srv6.reverse import ReverseTunnel
from testbed.units import Duration


class Srv6Wan(LosslessTopo):
    """`n` hosts a1..an in data centre 1 and b1..bn in data centre 2, figure 3 of the draft:

    a1 ---+                                                 +--- b1
    a2 ---s1--- r1 ------wan------ r2 ------wan------ r3 ---s2--- b2
    an ---+   End.X.PFC            End             End.X.PFC  +--- bn

    r2 knows plain SRv6 and no PFC. `back` says how back-pressure crosses the WAN: "planned" (tunnels that somebody has
    set up, scenario 1), "learned" (scenario 2), or "none". `headroom` cells at an edge are for what is on its way.
    """

    mismatch = Mismatch.IGNORE  # an edge router differs from one side to the other on purpose

    def build(self, n: int = 2, wan: str = "50km", back: str = "planned", headroom: int = 0) -> None:
        self.require(1, n=n)
        self.choose(("planned", "learned", "none"), back=back)
        cable = Cable(self.cable.rate, wan)
        lab = cable.in_lab(self.scale)
        # One way, twice: two cables there, two back; and what a frame takes in r2.
        round_trip = lab.delay * 4 + Duration("10ms")
        cells = headroom or -(-lab.rate.size_in(round_trip).bytes // 1000) * 5 + 100
        names = {1: "r1", 2: "r2", 3: "r3"}
        # The first port of r1 and r3 leads to their data centre.
        addresses = {
            1: {"r1-eth1": srv6.link_address(1, 1)},
            2: {"r2-eth0": srv6.link_address(1, 2), "r2-eth1": srv6.link_address(2, 1)},
            3: {"r3-eth1": srv6.link_address(2, 2)},
        }
        to_r2 = {1: ("r1-eth1", srv6.link_address(1, 2)), 3: ("r3-eth1", srv6.link_address(2, 1))}
        ways = {
            1: {2: to_r2[1], 3: to_r2[1]},
            2: {1: ("r2-eth0", srv6.link_address(1, 1)), 3: ("r2-eth1", srv6.link_address(2, 2))},
            3: {2: to_r2[3], 1: to_r2[3]},
        }
        ends = {number: srv6.end(name, number) for number, name in names.items()}
        pausing = {number: srv6.pfc(names[number], number, 0, *to_r2[number]) for number in (1, 3)}
        services = {number: srv6.vpn(names[number], number) for number in (1, 3)}
        directory = (*ends.values(), *pausing.values(), *services.values())
        refresh = Refresh.of(lab.rate, lab.delay * 2, Duration("5ms"))
        for number, name in names.items():
            own = [sid for sid in directory if sid.node == name]
            cables = {1: {2: 2}, 2: {}, 3: {1: 2}}[number]
            commands = srv6.router_commands(number, addresses[number], ways[number], own, cables)
            if number == 2:
                self.addRouter(name, ip=None, commands=commands)
                continue
            far = 4 - number
            interface = to_r2[number][0]
            segments = (pausing[number].address, ends[2].address, services[far].address)
            prefix = f"10.{2 if number == 1 else 1}.0.0/16"
            commands += srv6.site_commands(f"{name}-eth0", prefix, segments, interface, services[number])
            tunnel = ReverseTunnel(
                name,
                names[far],
                (ends[number].address, ends[2].address, pausing[far].address),
                interface=interface,
                delay_ns=(lab.delay * 2).ns,
            )
            plan = WanPlan(
                source=srv6.source(number),
                sids=(LocalSid(pausing[number], srv6.DOMAIN),),
                tunnels=((tunnel, refresh),) if back == "planned" else (),
                learner=LearnerSettings(ends[number], srv6.DOMAIN) if back == "learned" else None,
                directory=directory,
                learned_refresh=refresh,
            )
            waiting = GroupSettings(lossless=True, threshold=Static(100), xon_offset=32, headroom=cells)
            buffer = Buffer(total=cells + 1500, xoff=Static(100), xon_offset=32, groups={(1, 3): waiting})
            self.addRouter(
                name,
                ip=None,
                commands=commands,
                wan=srv6.Wan(plan, (interface,)) if back != "none" else None,
                buffer=buffer,
            )
        for centre, edge, hosts in ((1, "r1", "a"), (2, "r3", "b")):
            self.addSwitch(f"s{centre}")
            gateway = f"10.{centre}.255.254"
            self.addLink(edge, f"s{centre}", params1={"ip": f"{gateway}/16"})
            for number in range(1, n + 1):
                address = f"10.{centre}.{number >> 8}.{number & 255}/16"
                host = self.addHost(f"{hosts}{number}", ip=address, defaultRoute=f"via {gateway}")
                self.addLink(host, f"s{centre}")
        silent, obeys = Port().with_pfc(), Port()
        self.addLink("r1", "r2", cable=cable, settings1=obeys, settings2=silent)
        self.addLink("r2", "r3", cable=cable, settings1=silent, settings2=obeys)


topos = {"srv6-wan": Srv6Wan}
