"""The reverse tunnel: the path of a PFC frame back to the router that has to pause.

The draft's section 3: the frame is put into an IPv6 packet of type 143 (Ethernet) with a segment routing header whose
list leads against the data, {R3.End, R2.End, R1.End.X.PFC} or {R3.End.X, R2.End, R1.End.X.PFC}. Its first segment is a
SID of the sender itself. The sender counts it as done and sends to the next one, since a router does not process its
own SID in packets that it generates (decision 0140); the list still shows it, for readers of the packet on the way.
With a slice, the packet carries the slice's id in a hop-by-hop option (0146).

The extension headers are the same for each packet of a tunnel, and no checksum covers them: they are built once.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Annotated

from testbed.frames import ipv6
from testbed.frames.ipv6 import Packet
from testbed.frames.mac_control import PfcFrame
from testbed.frames.srh import MOST_SEGMENTS, Srh
from testbed.subjects.srv6.protocol.domain import DelayNs, InterfaceName, RouterName, Segments, SliceOrNone, Srv6Error
from testbed.typed_json.meta import Meta, message

NETWORK_CONTROL = 48 << 2
"""The DSCP of the frames, CS6: back-pressure must not wait behind the traffic that it is to stop."""


@message(complete=True)
@dataclass(frozen=True)
class ReverseTunnel:
    """A reverse tunnel, into which a router sends its PFC frames."""

    router: RouterName  # which generates the frames
    pauses: Annotated[RouterName, Meta(description="The router that the last segment belongs to")]
    segments: Annotated[Segments, Meta(min_length=2)]  # an own SID first, an End.X.PFC SID last
    slice_id: SliceOrNone = None
    interface: InterfaceName | None = None  # for the first hop; None: the router's own route decides
    delay_ns: DelayNs | None = None  # one way, if it is known

    def __post_init__(self) -> None:
        if not 2 <= len(self.segments) <= MOST_SEGMENTS:
            raise Srv6Error(
                f"a reverse tunnel of {self.router} has {len(self.segments)} segments; it needs an own SID and the "
                f"End.X.PFC SID that it leads to, and a header has room for {MOST_SEGMENTS}"
            )

    @property
    def identity(self) -> tuple[str, tuple[IPv6Address, ...], int | None]:
        """The fields that make it this tunnel. The rest may change while it is in use."""
        return self.router, self.segments, self.slice_id

    @property
    def target(self) -> IPv6Address:
        """The End.X.PFC SID at its end."""
        return self.segments[-1]


class Encapsulator:
    """Turns PFC frames into the packets of one tunnel."""

    def __init__(
        self,
        tunnel: ReverseTunnel,
        source: IPv6Address,  # an address of the router, inside the SR domain's A/a
        *,
        traffic_class: int = NETWORK_CONTROL,
        flow_label: int = 0,
        slice_option: int = ipv6.SLICE,
    ) -> None:
        self.tunnel = tunnel
        routing = Srh.along(tunnel.segments, ipv6.ETHERNET, done=1)
        headers, first = routing.encode(), ipv6.ROUTING
        if tunnel.slice_id is not None:
            option = ipv6.SliceOption(tunnel.slice_id).option(slice_option)
            headers, first = ipv6.encode_header(first, [option]) + headers, ipv6.HOP_BY_HOP
        self._headers, self._first = headers, first
        self._source = source
        self._traffic_class, self._flow_label = traffic_class, flow_label

    def packet(self, frame: PfcFrame) -> bytes:
        """Return the IPv6 packet, ready for the wire, that carries the frame."""
        return self.carrying(frame.encode())

    def carrying(self, frame: bytes) -> bytes:
        """Return the IPv6 packet that carries another frame, such as one that measures the delay of the way."""
        return Packet(
            self._source,
            self.tunnel.segments[1],
            self._first,
            self._headers + frame,
            traffic_class=self._traffic_class,
            flow_label=self._flow_label,
        ).encode()
