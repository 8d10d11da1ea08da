"""A three-tier Clos, oversubscribed as asked for: clos,PODS,LEAVES,HOSTS,OVERSUBSCRIPTION,CORE_OVERSUBSCRIPTION"""

from fractions import Fraction

from testbed.net.build.topo import LosslessTopo, TopoError
from testbed.switch.ways.settings import Ways


class Clos(LosslessTopo):
    """Pods of leaves below aggregation switches, one from each leaf to each of its pod, and planes of core switches.

    All cables have one rate, so oversubscription is a ratio of counts. A leaf has `hosts` hosts and
    `hosts` / `oversubscription` uplinks, one to each aggregation switch of its pod; an aggregation switch has `leaves`
    cables down and `leaves` / `core_oversubscription` up, one to each core switch of its plane. Plane 1 joins the first
    aggregation switch of each pod, and so on. Hosts h1, h2, ... are in order at the leaves.

    plane 1       plane 2            pods = 2, leaves = 2, hosts = 4, oversubscription = 2
    core1  core2  core3  core4
      |  \\/ ...
    agg1   agg2   |  agg3   agg4     agg1 and agg3 are on core1 and core2, agg2 and agg4 on core3 and core4
     |  X   |     |   |  X   |
    leaf1  leaf2  |  leaf3  leaf4
    h1-h4  h5-h8  |  h9-h12 h13-h16
    """

    ways = Ways()

    def build(
        self,
        pods: int = 2,
        leaves: int = 2,
        hosts: int = 4,
        oversubscription: float | str | Fraction = 2,
        core_oversubscription: float | str | Fraction = 1,
    ) -> None:
        self.require(2, pods=pods)
        self.require(1, leaves=leaves, hosts=hosts)
        aggs = _uplinks("oversubscription", oversubscription, "hosts at a leaf", hosts=hosts)
        cores = _uplinks(
            "core_oversubscription", core_oversubscription, "leaves below an aggregation switch", leaves=leaves
        )
        for number in range(1, aggs * cores + 1):
            self.addSwitch(f"core{number}")
        for pod in range(pods):
            ups = [self.addSwitch(f"agg{pod * aggs + number}") for number in range(1, aggs + 1)]
            for plane, up in enumerate(ups):
                for number in range(1, cores + 1):
                    self.addLink(up, f"core{plane * cores + number}")
            for number in range(pod * leaves + 1, (pod + 1) * leaves + 1):
                leaf = self.addSwitch(f"leaf{number}")
                for up in ups:
                    self.addLink(leaf, up)
                for host in range((number - 1) * hosts + 1, number * hosts + 1):
                    self.addLink(self.addHost(f"h{host}"), leaf)


def _uplinks(name: str, value: float | str | Fraction, of: str, **below: int) -> int:
    """Return how many uplinks make this oversubscription of the cables below."""
    ((counted, many),) = below.items()
    try:
        ratio = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        ratio = Fraction(0)
    if ratio <= 0:
        expected = "a number above zero is expected, such as 1, 1.5 or 2"
        raise TopoError(f"Clos: {name} is {value}; {expected}: the rate of the {of} for each of its uplinks")
    if (uplinks := many / ratio).denominator != 1:
        step = ratio.numerator
        fitting = [number for number in (many // step * step, (many // step + 1) * step) if number]
        choice = " or ".join(f"{counted}={number}" for number in fitting)
        others = " or ".join(str(number) for number in range(1, many + 1) if many % number == 0)
        raise TopoError(
            f"Clos: {many} {of} with {name} {value} need {uplinks} uplinks, which is no whole number; take {choice}, "
            f"or {name}={others}"
        )
    return uplinks.numerator


topos = {"clos": Clos}
