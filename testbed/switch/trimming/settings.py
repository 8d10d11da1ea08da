"""Settings of trimming: which queues' frames are cut instead of dropped, to what size, and where the rests go.

The words are SONiC's (SWITCH_TRIMMING, and `packet_discard_action` of a queue's buffer profile). There they are a
switch's, but for the DSCP, which may differ by port; here each port has its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from testbed.errors import UsageError

SIZES = range(64, 9217)
"""The possible sizes of a rest: with 64 octets the headers of IPv6 and UDP fit, and no frame has more than 9216."""
DEFAULT_SIZE, DEFAULT_DSCP = 128, 48
MOST_EXCEPTIONS = 8
"""The most exceptions of one port."""
PROTOCOLS = {"tcp": 6, "udp": 17}


class TrimmingError(UsageError):
    """Settings of trimming that are out of range."""


@dataclass(frozen=True)
class Trimming:
    """Trimming at a switch's port: frames for some of its queues that find no room are cut, and the rest is sent.

    Only lossy priorities are trimmed: a lossless one has PFC.
    """

    queues: frozenset[int]
    """The queues (local priorities) whose frames are trimmed instead of dropped."""
    size: int = DEFAULT_SIZE
    """The octets of a rest with its Ethernet header, without FCS; a frame that is no longer stays whole."""
    dscp: int = DEFAULT_DSCP
    """The DSCP of a rest."""
    queue: int | None = None
    """The queue that a rest goes into; None: that of its traffic class at the port by which the frame came in."""
    tc: int | None = None
    """The traffic class of a rest, to whose priority group it is charged; None: the one of its DSCP at the port by
    which the frame came in."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "queues", _queues(self.queues))
        _check("size", self.size, SIZES)
        _check("dscp", self.dscp, range(64))
        for name in ("queue", "tc"):
            if getattr(self, name) is not None:
                _check(name, getattr(self, name), range(8))


@dataclass(frozen=True)
class TrimException:
    """Frames that come in by a port and are dropped rather than trimmed: SONiC's ACL rule with DISABLE_TRIM.

    What is left out fits any frame. All frames that fit are counted, whether there was room for them or not.
    """

    source: IPv4Network | IPv6Network | str | None = None
    destination: IPv4Network | IPv6Network | str | None = None
    protocol: int | str | None = None
    """The number of a protocol, "tcp" or "udp"."""
    source_port: int | None = None
    destination_port: int | None = None
    dscp: int | None = None

    def __post_init__(self) -> None:
        for name in ("source", "destination"):
            object.__setattr__(self, name, _network(name, getattr(self, name)))
        if isinstance(self.protocol, str):
            if self.protocol not in PROTOCOLS:
                raise TrimmingError(f"protocol is {self.protocol[:20]!r}; it is a number, 'tcp' or 'udp'")
            object.__setattr__(self, "protocol", PROTOCOLS[self.protocol])
        versions = {one.version for one in (self.source, self.destination) if not isinstance(one, str | None)}
        if len(versions) > 1:
            raise TrimmingError(f"source {self.source} and destination {self.destination} have two versions of IP")
        for name, values in (
            ("protocol", range(256)), ("source_port", range(65536)), ("destination_port", range(65536)),
            ("dscp", range(64)),
        ):  # fmt: skip
            if getattr(self, name) is not None:
                _check(name, getattr(self, name), values)
        if all(getattr(self, name) is None for name in self.__dataclass_fields__):
            raise TrimmingError("this exception fits every frame; leave the port's trimming out instead")

    @property
    def version(self) -> int | None:
        """The version of IP, if an address says it."""
        return next((one.version for one in (self.source, self.destination) if not isinstance(one, str | None)), None)


def _queues(given: Iterable[int]) -> frozenset[int]:
    queues = frozenset(given)
    if not queues:
        raise TrimmingError("trimming names no queue; write with_trimming(3), or leave it out")
    for queue in queues:
        _check("a queue", queue, range(8))
    return queues


def _network(name: str, given: object) -> IPv4Network | IPv6Network | None:
    if given is None or isinstance(given, IPv4Network | IPv6Network):
        return given
    try:
        return ip_network(str(given), strict=False)
    except ValueError:
        raise TrimmingError(
            f"{name} is {str(given)[:60]!r}; it is an address or a network, as in 10.0.0.0/24"
        ) from None


def _check(name: str, value: object, values: range) -> None:
    if type(value) is not int or value not in values:
        raise TrimmingError(f"trimming: {name} is {value!r}; it is {values[0]} to {values[-1]}")
