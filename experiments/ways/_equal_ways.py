"""The loads of equal ways, measured and by their reference in Python. Not an experiment."""

from testbed.switch.ways.model import Fields, Group, seed_of_switch
from xoff import Duration, Network, Rate, Size, Ways

DYNAMIC = range(49_152, 65_536)
"""The UDP ports from which that of a queue pair is drawn."""
_ROCE, _UDP = 4791, 17
_BESIDE = 24
"""The octets that a frame takes on the wire beside those that a switch counts."""


class Reference:
    """The rule of equal ways in Python, for packets of RoCE."""

    def __init__(self, net: Network, ways: Ways, run_seed: int) -> None:
        self._net, self._ways, self._run_seed = net, ways, run_seed

    def way(self, switch: str, many: int, source: str, target: str, source_port: int) -> int:
        """Return which of a switch's ways packets take, as long as all of them are there."""
        seed = seed_of_switch(self._run_seed, switch) if self._ways.seed is None else self._ways.seed
        packet = Fields(self._net[source].IP(), self._net[target].IP(), _UDP, source_port, _ROCE)
        way = Group(self._ways, seed, [1] * many, 1, 1).choose(packet.words())
        assert way is not None
        return way


def given(net: Network, switch: str, unit: Size) -> list[int]:
    """Return how many times `unit`, the data of a flow with its headers, each way of a switch was given.

    Acknowledgements and the connection manager's messages go there too, and are a tenth of it at most.
    """
    return [round(one.octets / unit.bytes) for one in net.ways(switch)]


def filled(net: Network, switch: str, line: Rate, time: Duration) -> list[float]:
    """Return how much of each way of a switch was used in a time, from 0 to 1."""
    octets = [one.octets + one.frames * _BESIDE for one in net.ways(switch)]
    return [round(float(line.time_for(Size.from_bytes(count)) / time), 3) for count in octets]
