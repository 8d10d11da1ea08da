"""A link with Link Layer Retry between the switch under test and a tester, for the cases of SONiC's LLR plan.

Not an experiment. Hosts are at the switch as in all cases; the cables of some have LLR. h1 is the traffic generator,
and h2 at the link under test is the plan's tester: it counts as an analyzer does, and the cable is its jammer. In the
control of most cases the cables have no LLR.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from experiments.conformance._case import FRAME, Bench, Control
from testbed.subjects.sonic.lab.topo import host_port
from xoff import Cable, Duration, Flow, Flows, Jam, Llr, LlrReport, Network, Size, SonicTopo

READY = ("ADVANCE", "SEND_ACKS")
LARGE = Llr(frames=1000, octets=2_000_000)
"""A buffer for all frames of a case."""


_NOTHING = LlrReport({}, "OFF", "OFF", 0, 0, 0, 0, 0, 0, 0, 0, 0)


def no_llr(*fails: str) -> Control:
    """Return the control of most cases: the same cables without LLR."""
    return Control("no LLR", None, fails)


class _Topo(SonicTopo):
    """The switch with its hosts, and with other options of the cables to some of them."""

    def build(self, switches: Any, hosts: Any = None, places: Any = None, mtu: int = 1500, links: Any = None) -> None:
        self._options_of: Mapping[str, Mapping[str, Any]] = links or {}
        super().build(switches, hosts, places, mtu)

    def _host(self, name: str, node: str, port: Any, mtu: int) -> None:
        self.at[name] = node, port.name
        cable = Cable(port.rate, port.length, mtu=mtu, **self._options_of.get(name, {}))
        host = self.addHost(name, port=host_port(port.settings))
        self.addLink(host, node, None, port.number, cable=cable, settings2=self._settings(port))


class Link:
    """The link under test in a running network: `with link(bench) as on:`."""

    def __init__(self, bench: Bench, net: Network) -> None:
        self.bench, self.net, self.fabric = bench, net, net.fabric
        self.priority = bench.lossless[0]
        self.dut, self.tester = bench.port(net, "h2"), "h2-eth0"
        """The ports at the ends of the link: that of the switch, and the tester's."""

    # Traffic

    def flow(self, count: int, frame: Size | str = FRAME, **more: Any) -> Flow:
        """Return a flow from the generator through the switch over the link, as fast as the line."""
        given: dict[str, Any] = {"source": "h1", "target": "h2", "priority": self.priority, "frame": frame} | more
        return self.bench.flow(count=count, **given)

    def send(self, count: int, frame: Size | str = FRAME, **more: Any) -> Any:
        """Send frames over the link, and return the report of their flow."""
        (report,) = self.net.run(self.flow(count, frame, **more)).reports
        return report

    @contextmanager
    def sending(self, *flows: Flow) -> Iterator[None]:
        """Send while the block lasts."""
        with Flows(list(flows)):
            yield

    def wait(self, duration: Duration | str) -> None:
        """Wait for a time that is given for 100 Gb/s."""
        self.net.sleep(self.bench.paced(duration))

    @staticmethod
    def now_ns() -> int:
        """Return the moment by the lab's clock."""
        return time.monotonic_ns()

    def until(self, done: Callable[[], bool], within: Duration | str = "200us") -> int:
        """Wait until something is so; return the moment by the lab's clock, or -1 if it was not so in that time."""
        end = time.monotonic_ns() + self.bench.lab_ns(self.bench.paced(within))
        while not done():
            if time.monotonic_ns() > end:
                return -1
            self.wait("100ns")
        return time.monotonic_ns()

    # The jammer

    def jam(self, port: str, *jams: Jam) -> None:
        """Disturb what leaves a port, in place of what was named before; nothing in the control, which has no LLR."""
        if not self.bench.is_control or self._has_llr(port):
            self.fabric.core.cabling.jam(port, *jams)

    def jam_frames(self, fate: str, after: int, count: int = 1) -> None:
        """Disturb frames of the switch: those behind so many more."""
        found = self.counters(self.dut)
        self.jam(self.dut, Jam("frame", fate, found["LLR_TX_OK"] + found["LLR_TX_POISONED"] + after + 1, count))

    def drop_acks(self, is_on: bool = True, fate: str = "lost") -> None:
        """Drop, or freeze, all acknowledgements of the tester, or no longer."""
        first = self.counters(self.tester)["LLR_TX_ACK_CTL_OS"] + 1
        self.jam(self.tester, *((Jam("ack", fate, first, 10**6),) if is_on else ()))

    # What is read

    def _has_llr(self, port: str) -> bool:
        return bool(self.fabric.port(port).lab_cable.llr)

    def report(self, port: str) -> LlrReport:
        """Return what an end has counted; nothing, and OFF, if its cable has no LLR."""
        return self.fabric.llr(port) if self._has_llr(port) else _NOTHING

    def counters(self, port: str) -> Counter[str]:
        return Counter(self.report(port).counters)

    def of(self, port: str, *names: str) -> list[int]:
        """Return counters of an end."""
        found = self.counters(port)
        return [found[f"LLR_{name}"] for name in names]

    def states(self, sender: str, receiver: str) -> tuple[str, str]:
        """Return the state of the sender at one port, and of the receiver at the other one."""
        return self.report(sender).state, self.report(receiver).receiver

    def measured(self, lab_ns: int) -> Duration:
        return self.bench.measured(lab_ns)

    # What most cases claim

    def whole(self, report: Any, name: str = "frames lost, doubled, out of order") -> None:
        """Claim that a flow arrived whole and in order."""
        self.bench.claim(name, (report.lost, report.doubled, report.out_of_order), equals=(0, 0, 0))

    def ready(self, name: str = "states of sender and receiver") -> None:
        """Claim that the link's sender and receiver are as in normal operation."""
        self.bench.claim(name, self.states(self.dut, self.tester), equals=READY)


@contextmanager
def link(
    bench: Bench, llr: Llr | bool = LARGE, *, hosts: int = 2, mtu: int = 1500, others: bool = False,
    in_control: bool = False, **cable: Any
) -> Iterator[Link]:  # fmt: skip
    """Start the switch with LLR on the cable of h2, or with `others` on those of all hosts.

    The control has none, unless it is another one: `in_control`.
    """
    retry = {} if bench.is_control and not in_control else {"llr": llr}
    names = [f"h{number}" for number in range(1 if others else 2, hosts + 1 if others else 3)]
    topo = _Topo(bench.switch, hosts=hosts, mtu=mtu, links=dict.fromkeys(names, retry | cable))
    with bench.network(topo=topo) as net:
        yield Link(bench, net)
