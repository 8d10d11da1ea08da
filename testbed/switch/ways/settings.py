"""Settings of equal ways: by what a switch chooses among them, and what of a frame it looks at."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.errors import UsageError, nearest
from testbed.units import Duration

MEMBERS = 64
"""The most ways that a switch chooses among."""
TABLE = 256
"""The most entries of the table that maps hashes to ways."""


class By(enum.StrEnum):
    """The rules by which a switch chooses."""

    HOST_NUMBER = "host number"
    """The destination's number: all frames to a host go by one way."""
    HASH = "hash"
    """A hash of the frame's fields: all frames of a flow go by one way. A lost way moves most flows."""
    RESILIENT = "resilient"
    """The same over a table of fixed size: a lost way moves only the flows that it had."""
    FLOWLET = "flowlet"
    """A flow that was silent for `gap` may take another way, which is drawn by chance."""
    ADAPTIVE_FLOWLET = "adaptive flowlet"
    """A flow that was silent for `gap` takes the way with the least load."""
    SPRAY = "spray"
    """Each frame takes the next way."""
    RANDOM = "random"
    """Each frame takes a way that is drawn by chance."""
    LEAST_LOADED = "least loaded"
    """Each frame takes the way with the least load: what waits at the port, and what it was given lately."""
    RULE = "rule"
    """Each frame takes the way that a rule of one's own chooses: a class that is given as `rule`."""


class WaysSource(enum.Enum):
    """The source of a switch's settings; what nobody asked for is not warned of."""

    DEFAULT = enum.auto()
    TOPOLOGY = enum.auto()
    SWITCH = enum.auto()


class HashField(enum.IntFlag):
    """The parts of a frame that can be hashed."""

    SOURCE = 1
    DESTINATION = 2
    PROTOCOL = 4
    SOURCE_PORT = 8
    DESTINATION_PORT = 16
    FLOW_LABEL = 32
    QUEUE_PAIR = 64
    SOURCE_MAC = 128
    DESTINATION_MAC = 256
    INNER = 512
    """Look at the packet in a tunnel (IP in IP, SRv6) instead of the outer one."""


FIVE_TUPLE = ("source", "destination", "protocol", "source port", "destination port")
_FIELDS = {one.name.lower().replace("_", " ").replace("mac", "MAC"): one for one in HashField if one.name}
_BY_HASH = (By.HASH, By.RESILIENT, By.FLOWLET, By.ADAPTIVE_FLOWLET, By.RULE)
_BY_FLOWLET = (By.FLOWLET, By.ADAPTIVE_FLOWLET)
_BY_LOAD = (By.ADAPTIVE_FLOWLET, By.LEAST_LOADED, By.RULE)
_WEIGHED = (By.HASH, By.RESILIENT, By.FLOWLET, By.SPRAY, By.RANDOM)


@dataclass(frozen=True)
class Ways:
    """The choice of a switch among equally short ways to a station."""

    by: str = By.HASH
    fields: str | tuple[str, ...] = FIVE_TUPLE
    """The fields of a frame that are hashed: "source", "destination", "protocol", "source port", "destination port",
    "flow label", "queue pair", "source MAC", "destination MAC"; "inner" looks into tunnels."""
    seed: int | None = None
    """The seed of the hash; None: another one for each switch, drawn from the run's seed."""
    weights: Mapping[str, int] = field(default_factory=dict, hash=False)
    """The shares of the flows that the ways have, by the neighbour's name; 1 where it is not given."""
    buckets: int = 128
    """The entries of a resilient table."""
    gap: Duration | str = "20us"
    """The silence after which a flow may take another way."""
    half_life: Duration | str = "10us"
    """The time after which octets that a way was given count half as load."""
    gone_after: Duration | str = "10us"
    """The time from the loss of a way's carrier until the switch chooses among the others. Its frames are lost until
    then. A way that comes back is used at once."""
    rule: Callable[..., Any] | None = None
    """The rule of one's own that chooses: a subclass of WayRule, or a function that makes one of a SwitchLine."""

    def __post_init__(self) -> None:
        self._check_rule()
        for name in ("gap", "half_life", "gone_after"):
            time = Duration(getattr(self, name))
            object.__setattr__(self, name, time)
            if not time.ps and name != "gone_after":
                raise UsageError(f"Ways: {name} is 0; write a time such as '20us'")
        if self.by not in list(By):
            raise UsageError(f"Ways: by is {self.by!r}; {nearest(str(self.by), [str(one) for one in By])}")
        object.__setattr__(self, "by", By(self.by))
        object.__setattr__(self, "fields", (self.fields,) if isinstance(self.fields, str) else tuple(self.fields))
        for one in self.fields:
            if one not in _FIELDS:
                raise UsageError(f"Ways: there is no field {one}; {nearest(str(one), _FIELDS)}")
        if self.by in _BY_HASH and not self.mask & ~HashField.INNER:
            raise UsageError(f"Ways: without fields each frame has the same hash; leave them out for {FIVE_TUPLE}")
        if self.seed is not None and (type(self.seed) is not int or not 0 <= self.seed < 1 << 32):
            raise UsageError(f"Ways: seed is {self.seed!r}; write a whole number below 2^32, or leave it out")
        for neighbour, weight in self.weights.items():
            if type(weight) is not int or weight < 1:
                advice = "write a whole number, 1 or more; without a cable to it, there is no way"
                raise UsageError(f"Ways: the weight of {neighbour} is {weight!r}; {advice}")
        if self.by is By.RESILIENT and (type(self.buckets) is not int or not 1 <= self.buckets <= TABLE):
            raise UsageError(f"Ways: buckets is {self.buckets!r}; write a whole number from 1 to {TABLE}")

    def _check_rule(self) -> None:
        if self.rule is not None and self.by == By.HASH:
            object.__setattr__(self, "by", By.RULE)
        if self.rule is not None and self.by != By.RULE:
            raise UsageError(f"Ways: by={str(self.by)!r} and a rule are both given; a rule chooses by itself")
        if self.by == By.RULE and not callable(self.rule):
            given = "no rule is given" if self.rule is None else f"the rule is {self.rule!r}"
            raise UsageError(f"Ways: {given}; write Ways(rule=MyRule) with a subclass of WayRule")

    def times(self) -> tuple[Duration, Duration, Duration]:
        """Return `gap`, `half_life` and `gone_after`."""
        return Duration(self.gap), Duration(self.half_life), Duration(self.gone_after)

    @property
    def mask(self) -> HashField:
        """The fields as bits."""
        found = HashField(0)
        for one in self.fields:
            found |= _FIELDS[one]
        return found

    @property
    def is_by_frame(self) -> bool:
        """True if each frame gets a way of its own, so that frames of a flow can overtake each other."""
        return self.by in (By.SPRAY, By.RANDOM, By.LEAST_LOADED)

    @property
    def hashes(self) -> bool:
        """True if the choice goes by fields of the frame."""
        return self.by in _BY_HASH

    def unused(self) -> list[str]:
        """Return the names of settings that were given and have no effect."""
        plain, found = Ways(), []
        for name, effective in (
            ("fields", _BY_HASH), ("seed", tuple(set(By) - {By.HOST_NUMBER, By.SPRAY, By.LEAST_LOADED})),
            ("weights", _WEIGHED), ("buckets", (By.RESILIENT,)), ("gap", _BY_FLOWLET), ("half_life", _BY_LOAD),
        ):  # fmt: skip
            if getattr(self, name) != getattr(plain, name) and self.by not in effective:
                found.append(name)
        return found


def ways_of(value: Ways | str) -> Ways:
    """Return settings as they can be given to a topology: `Ways(...)`, or the rule alone."""
    if isinstance(value, Ways):
        return value
    if not isinstance(value, str):
        raise UsageError(f"ways is {value!r}; write Ways(...) or a rule such as 'hash'")
    return Ways(by=value)
