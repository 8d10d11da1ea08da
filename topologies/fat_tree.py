"""A fat tree of switches with K ports, for K*K*K/4 hosts: fat-tree,K"""

from testbed.net.build.topo import LosslessTopo, TopoError
from testbed.switch.ways.settings import By, Ways, ways_of


class FatTree(LosslessTopo):
    """K pods of K/2 edge and K/2 aggregation switches below K*K/4 core switches, with full bisection.

    Hosts h1, h2, ... are in order at the edge switches, K/2 at each. Switches choose the way up by a hash of each flow.
    With `ways="host number"` the number of the host to which frames go decides: host n is reached by aggregation switch
    n modulo K/2 of the sender's pod, and the quotient decides the core switch in the same way, so that all cores are
    used.

    core1  core2  core3  core4       K = 4
      |  \\/ ...
    agg1  agg2   |  agg3  agg4   |  ...
     |  X  |     |   |  X  |     |
    edge1 edge2  |  edge3 edge4  |  ...
    h1 h2 h3 h4  |  h5 h6 h7 h8  |  ... h16
    """

    ways = Ways()

    def build(self, k: int = 4) -> None:
        self.require(2, k=k)
        if k % 2:
            raise TopoError(
                f"FatTree: k is {k}; an even number is expected, as half of a switch's ports go up and half down, such "
                f"as {k - 1} or {k + 1}"
            )
        self.half = half = k // 2
        for number in range(1, half * half + 1):
            self.addSwitch(f"core{number}")
        for pod in range(k):
            ups = [self.addSwitch(f"agg{pod * half + number}") for number in range(1, half + 1)]
            for place, up in enumerate(ups):
                for number in range(1, half + 1):
                    self.addLink(up, f"core{place * half + number}")
            for number in range(1, half + 1):
                edge_number = pod * half + number
                edge = self.addSwitch(f"edge{edge_number}")
                for up in ups:
                    self.addLink(edge, up)
                for host in range((edge_number - 1) * half + 1, edge_number * half + 1):
                    self.addLink(self.addHost(f"h{host}"), edge)

    def next_hop(self, switch: str, host: str) -> str | None:
        """Return the switch above by which frames to a host go up; the way down is the shortest.

        With another rule in `ways` than the host's number the switches choose.
        """
        if ways_of(self.ways).by is not By.HOST_NUMBER:
            return None
        half = self.half
        kind, number = switch.rstrip("0123456789"), int(switch.lstrip("abcdefghijklmnopqrstuvwxyz"))
        place = int(host[1:]) - 1
        edge, pod = place // half + 1, place // (half * half)
        up, core = place % half, place // half % half
        if kind == "edge" and number != edge:
            return f"agg{(number - 1) // half * half + up + 1}"
        if kind == "agg" and (number - 1) // half != pod:
            return f"core{(number - 1) % half * half + core + 1}"
        return None


topos = {"fat-tree": FatTree}
