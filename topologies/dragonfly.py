"""Groups of switches, each group a mesh with cables to all others: dragonfly,GROUPS,SWITCHES,HOSTS,CABLES"""

from itertools import combinations

from testbed.net.build.topo import LosslessTopo, TopoError
from testbed.switch.ways.settings import Ways


class Dragonfly(LosslessTopo):
    """Groups whose switches are all joined with each other; each switch has `cables` cables to other groups.

    The cables of a group are divided evenly among the others, over its switches in turn. Switch 2 of group 1 is g1s2;
    hosts h1, h2, ... are in order at the switches, `hosts` at each. Frames take minimal ways: at most one cable between
    groups, and the fewest in them. So that no way leads through a third group, a cable between groups costs as much as
    three in a group.

    Not modelled: ways through a random group (Valiant), the choice between such a way and a minimal one by load, and a
    second virtual channel after the cable between groups. Without that buffers can wait for each other in a circle, so
    under heavy load PFC can deadlock, as it would in hardware; `deadlock_poll` tells.

    h1 h2     h3 h4        groups = 3, switches = 2, hosts = 2, cables = 1
     g1s1 ---- g1s2
      |          |         g1s1 has the cable to group 2, and g1s2 that to group 3
    group 2 -- group 3
    """

    ways = Ways()

    def build(self, groups: int = 3, switches: int = 2, hosts: int = 2, cables: int = 1) -> None:
        self.require(2, groups=groups)
        self.require(1, switches=switches, hosts=hosts, cables=cables)
        others, all_cables = groups - 1, switches * cables
        if all_cables % others:
            possible = [number + 1 for number in range(1, all_cables + 1) if all_cables % number == 0]
            near = sorted(sorted(possible, key=lambda number: abs(number - groups))[:2])
            raise TopoError(
                f"Dragonfly: {switches} switches with {cables} cables each to other groups have {all_cables} for "
                f"{others} groups, which cannot be divided evenly; take groups={' or '.join(map(str, near))}, or make "
                f"switches * cables a multiple of {others}"
            )
        for group in range(groups):
            names = [self.addSwitch(f"g{group + 1}s{number}") for number in range(1, switches + 1)]
            for place, switch in enumerate(names):
                for host in range(hosts):
                    self.addLink(self.addHost(f"h{(group * switches + place) * hosts + host + 1}"), switch)
                for other in names[:place]:
                    self.addLink(other, switch)
        each = all_cables // others
        for first, second in combinations(range(groups), 2):
            for cable in range(each):
                place, far = ((distance - 1) * each + cable for distance in (second - first, groups - second + first))
                one, end = f"g{first + 1}s{place % switches + 1}", f"g{second + 1}s{far % switches + 1}"
                self.addLink(one, end, cost=3)


topos = {"dragonfly": Dragonfly}
