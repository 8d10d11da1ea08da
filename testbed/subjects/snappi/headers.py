"""The headers of frames: a table of their fields, bit by bit, as they lie on the wire.

A header that is added here is supported everywhere: in configurations, in frames, and in the table of docs/snappi.md,
which a test compares with this one. A field's `auto` names what the generator finds by itself: the type of the next
header, a length, or a checksum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MAC_CONTROL = 0x8808
VLAN_TYPE = 0x8100
_ALL_STATIONS_OF_THE_LINK = 0x0180C2000001


@dataclass(frozen=True)
class Field:
    """One field. `name` is a path in the header's object: `priority.dscp.phb`; empty for bits that have no name."""

    name: str
    bits: int
    default: int = 0
    kind: str = ""
    """The model's form of values: `mac`, `ipv4`, `ipv6`; empty for a number."""
    auto: str = ""
    """The value that the generator finds: `next`, `length`, `checksum`, `words` for the header's own length, or `zero`.
    Between devices also `station` and `destination` for MAC addresses, `source` and `target` for IP addresses."""
    has_auto: bool = True
    """True if `auto` is among the choices of the model. If not, it holds for an absent field."""


@dataclass(frozen=True)
class Choice:
    """Fields that have one form or another in a configuration. All forms have the same length."""

    name: str
    """The object with the choice; empty for the header's own."""
    default: str
    forms: Mapping[str, tuple[Field, ...]]
    """The fields of each form. Their names are paths in that object."""


@dataclass(frozen=True)
class Header:
    """A kind of header."""

    name: str
    fields: tuple[Field | Choice, ...]
    types: tuple[tuple[str, int], ...] = ()
    """The value for this header in the field `next` of the header before, by that header's family."""
    family: str = ""
    """The kind of values in its own `next` field: `ether` types or `ip` protocols."""
    none: int = 0
    """The value of `next` if no header follows, or one without such a type."""
    covers_payload: str = ""
    """The part that its checksum covers: `header`, `message` (all that follows too), or `pseudo` (the IP addresses
    too).
    """

    @property
    def octets(self) -> int:
        return sum(field.bits for field in self.usual()) // 8

    def names(self) -> list[str]:
        """The names of all fields, in all forms, as the model has them."""
        fields = []
        for field in self.fields:
            if isinstance(field, Choice):
                fields += [f"{field.name}.{one.name}".strip(".") for form in field.forms.values() for one in form]
            elif field.name:
                fields.append(field.name)
        return fields

    def usual(self) -> Iterator[Field]:
        """The fields, with those of a choice in its default form."""
        for field in self.fields:
            yield from field.forms[field.default] if isinstance(field, Choice) else (field,)


def _flags(names: str) -> tuple[Field, ...]:
    return tuple(Field(name, 1) for name in names.split())


def _echo(kind: int) -> Choice:
    fields = (
        Field("echo.type", 8, kind),
        Field("echo.code", 8),
        Field("echo.checksum", 16, auto="checksum"),
        Field("echo.identifier", 16),
        Field("echo.sequence_number", 16),
    )
    return Choice("", "echo", {"echo": fields})


ETHERNET = Header(
    "ethernet",
    (
        Field("dst", 48, kind="mac", auto="destination"),
        Field("src", 48, kind="mac", auto="station", has_auto=False),
        Field("ether_type", 16, auto="next"),
    ),
    family="ether",
    none=0xFFFF,
)
VLAN = Header(
    "vlan",
    (Field("priority", 3), Field("cfi", 1), Field("id", 12), Field("tpid", 16, auto="next", has_auto=False)),
    types=(("ether", VLAN_TYPE),),
    family="ether",
    none=0xFFFF,
)
ARP = Header(
    "arp",
    (
        Field("hardware_type", 16, 1),
        Field("protocol_type", 16, 0x0800),
        Field("hardware_length", 8, 6),
        Field("protocol_length", 8, 4),
        Field("operation", 16, 1),
        Field("sender_hardware_addr", 48, kind="mac"),
        Field("sender_protocol_addr", 32, kind="ipv4"),
        Field("target_hardware_addr", 48, kind="mac"),
        Field("target_protocol_addr", 32, kind="ipv4"),
    ),
    types=(("ether", 0x0806),),
)
IPV4 = Header(
    "ipv4",
    (
        Field("version", 4, 4),
        Field("header_length", 4, 5, auto="words"),
        Choice(
            "priority",
            "dscp",
            {
                "dscp": (Field("dscp.phb", 6), Field("dscp.ecn", 2)),
                "raw": (Field("raw", 8),),
                "tos": (
                    Field("tos.precedence", 3),
                    *_flags("tos.delay tos.throughput tos.reliability tos.monetary tos.unused"),
                ),
            },
        ),
        Field("total_length", 16, auto="length"),
        Field("identification", 16),
        Field("reserved", 1),
        Field("dont_fragment", 1),
        Field("more_fragments", 1),
        Field("fragment_offset", 13),
        Field("time_to_live", 8, 64),
        Field("protocol", 8, auto="next"),
        Field("header_checksum", 16, auto="checksum"),
        Field("src", 32, kind="ipv4", auto="source", has_auto=False),
        Field("dst", 32, kind="ipv4", auto="target", has_auto=False),
    ),
    types=(("ether", 0x0800), ("ip", 4)),
    family="ip",
    none=61,
    covers_payload="header",
)
IPV6 = Header(
    "ipv6",
    (
        Field("version", 4, 6),
        Field("traffic_class", 8),
        Field("flow_label", 20),
        Field("payload_length", 16, auto="length"),
        Field("next_header", 8, auto="next"),
        Field("hop_limit", 8, 64),
        Field("src", 128, kind="ipv6", auto="source", has_auto=False),
        Field("dst", 128, kind="ipv6", auto="target", has_auto=False),
    ),
    types=(("ether", 0x86DD), ("ip", 41)),
    family="ip",
    none=59,
)
UDP = Header(
    "udp",
    (
        Field("src_port", 16),
        Field("dst_port", 16),
        Field("length", 16, auto="length", has_auto=False),
        Field("checksum", 16, auto="checksum"),
    ),
    types=(("ip", 17),),
    covers_payload="pseudo",
)
TCP = Header(
    "tcp",
    (
        Field("src_port", 16),
        Field("dst_port", 16),
        Field("seq_num", 32),
        Field("ack_num", 32),
        Field("data_offset", 4, auto="words", has_auto=False),
        Field("", 3),
        *_flags("ecn_ns ecn_cwr ecn_echo ctl_urg ctl_ack ctl_psh ctl_rst ctl_syn ctl_fin"),
        Field("window", 16),
        Field("checksum", 16, auto="checksum"),
        Field("", 16),
    ),
    types=(("ip", 6),),
    covers_payload="pseudo",
)
ICMP = Header(
    "icmp",
    (_echo(8),),
    types=(("ip", 1),),
    covers_payload="message",
)
ICMPV6 = Header(
    "icmpv6",
    (_echo(128),),
    types=(("ip", 58),),
    covers_payload="pseudo",
)
VXLAN = Header(
    "vxlan",
    (Field("flags", 8, 8), Field("reserved0", 24), Field("vni", 24, auto="zero"), Field("reserved1", 8)),
)
_PAUSE = (
    Field("dst", 48, _ALL_STATIONS_OF_THE_LINK, kind="mac"),
    Field("src", 48, kind="mac"),
    Field("ether_type", 16, MAC_CONTROL),
)
PFC_PAUSE = Header(
    "pfcpause",
    (
        *_PAUSE,
        Field("control_op_code", 16, 0x0101),
        Field("class_enable_vector", 16),
        *(Field(f"pause_class_{number}", 16) for number in range(8)),
    ),
)
ETHERNET_PAUSE = Header("ethernetpause", (*_PAUSE, Field("control_op_code", 16, 1), Field("time", 16)))

HEADERS = {
    header.name: header
    for header in (
        ETHERNET, VLAN, ARP, IPV4, IPV6, UDP, TCP, ICMP, ICMPV6, VXLAN, PFC_PAUSE, ETHERNET_PAUSE,
    )
}  # fmt: skip
"""The headers by the word of the model. Beside them is `custom`, which has given octets."""
