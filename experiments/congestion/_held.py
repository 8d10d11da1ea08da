"""A queue that is held at known lengths, for experiments with ECN.

    h1 ---s1--- r     A frame from h1 and one from h2 in each frame time: the queue from s1 to r grows by one.
    h2 ---+           From h2 alone: it keeps its length, and each frame finds the same number waiting.

One frame sets the beat of departures, and all others arrive half a frame time beside it: what a frame finds does not
depend on which of two events of the same moment comes first.
"""

from xoff import Buffer, Cable, Duration, Ecn, EcnCurve, Flow, LosslessTopo, Network, Port, Rate, Report, Size

FRAME = Size("1514B")
LINE = Rate("10Gb/s")
FRAME_TIME = LINE.time_for(FRAME + Size("24B"))
_PRIORITY = 3


class Marking(LosslessTopo):
    """Two senders, and a switch without PFC that marks frames that wait for the receiver."""

    port = Port().without_pfc()
    buffer = Buffer(total=20_000)

    def build(self, curve: EcnCurve | None) -> None:
        self.addSwitch("s1")
        for host in ("h1", "h2"):
            # Faster than the line that they share: else a sender that was late once would stay so.
            self.addLink(self.addHost(host), "s1", cable=Cable("40Gb/s"))
        marks = {} if curve is None else {_PRIORITY: curve}
        self.addLink("s1", self.addHost("r"), settings1=Port(ecn=marks).without_pfc())


class Held:
    """Flows that hold a queue, step by step; each call goes on where the one before ended."""

    def __init__(self, net: Network) -> None:
        self._net = net
        self._names = ["the first frame"]
        self._flows = [self._flow("h1", Ecn.ECT_0, 1, Duration("0s"))]
        self._now = FRAME_TIME // 2

    def grow(self, name: str, frames: int) -> None:
        """Lengthen the queue by so many frames, or as far as it goes; the steps are `name`, h1 and `name`, h2."""
        for host in ("h1", "h2"):
            self._add(f"{name}, {host}", self._flow(host, Ecn.ECT_0, frames, self._now))
        self.rest(frames)

    def hold(self, name: str, frames: int, ecn: Ecn = Ecn.ECT_0, rate: Rate = LINE) -> None:
        """Keep the length of the queue while so many frames pass."""
        self._add(name, self._flow("h2", ecn, frames, self._now, rate))
        self._now += rate.time_for(FRAME + Size("24B")) * frames

    def beside(self, name: str, frames: int, ecn: Ecn, rate: Rate) -> None:
        """Send more, from h1, while the next step takes its time."""
        self._add(name, self._flow("h1", ecn, frames, self._now, rate))

    def rest(self, frames: int) -> None:
        """Send nothing more for so many frame times."""
        self._now += FRAME_TIME * frames

    def run(self) -> dict[str, Report]:
        """Send all of it, and return the report of each step."""
        return dict(zip(self._names, self._net.run(*self._flows).reports, strict=True))

    def _add(self, name: str, flow: Flow) -> None:
        self._names.append(name)
        self._flows.append(flow)

    def _flow(self, host: str, ecn: Ecn, frames: int, start: Duration, rate: Rate = LINE) -> Flow:
        return Flow(host, "r", _PRIORITY, FRAME, rate=rate, count=frames, start=start, ecn=ecn)


def found(report: Report) -> int:
    """Return how many frames those of a step found waiting, by how long they waited themselves."""
    return report.worst_delay // FRAME_TIME
