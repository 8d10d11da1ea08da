"""The virtual channels of credit-based flow control (CBFC), and the credits of the pool behind them. Provisional.

    both formats    subtype 2 of the consortium, length 13    channels 8, pool 16, lossless 32, reserved 16

Each end announces its own as a receiver. A channel is lossless if it is at both ends and CBFC is on (`link_layer`); the
peer's pool is then what this end may have out. Channels that are lossless at one end alone are a mismatch, and so are
numbers of channels that differ: each has a line in tables, diagrams and reports, and is in the event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from testbed.frames import FieldError
from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.link.negotiation import CHANNELS, MOST_LOSSLESS, MOST_POOL, MOST_VCS, OUI
from testbed.frames.lldp_tlvs import Flaw, Organisational
from testbed.strict.tables import TomlTable, array, whole
from testbed.subjects.dcbx.config_values import section
from testbed.subjects.dcbx.features.codec import Codec, Contents, DcbxReason, flaw, layouts, unpacked
from testbed.subjects.dcbx.features.feature import (
    CommonSettings,
    Data,
    DcbxSettingsError,
    Event,
    FeatureState,
    View,
)
from testbed.subjects.dcbx.features.link_layer import ComparedFeature

_NAME = "virtual_channels"
_TLV = "ue_cbfc"


@dataclass(frozen=True)
class VirtualChannels:
    """The virtual channels of one end: its settings, and the content of the TLV."""

    vcs: int
    pool: int
    """The credits of the receiver's buffer."""
    lossless: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "lossless", frozenset(self.lossless))
        if not 1 <= self.vcs <= MOST_VCS:
            raise FieldError(f"{self.vcs} virtual channels are invalid: there are 1 to {MOST_VCS}")
        if not 1 <= self.pool <= MOST_POOL:
            raise FieldError(f"a pool of {self.pool} credits is invalid: it has 1 to {MOST_POOL}")
        if beyond := sorted(one for one in self.lossless if not 0 <= one < self.vcs):
            raise FieldError(f"lossless channel {beyond[0]} is none of {self.vcs}, which are 0 to {self.vcs - 1}")

    @property
    def data(self) -> dict[str, Any]:
        return {**asdict(self), "lossless": sorted(self.lossless)}


@dataclass(frozen=True, slots=True)
class VirtualChannelsChanged(Event):
    """The channels that are lossless at both ends with the credits that may be out, and where the ends differ."""

    oper: VirtualChannels | None
    remote: VirtualChannels | None
    mismatch: tuple[str, ...]
    why: str


def _encode(content: VirtualChannels, _: Contents) -> Organisational:
    bits = sum(1 << one for one in content.lossless)
    return Organisational(OUI, CHANNELS.subtype, CHANNELS.pack({"vcs": content.vcs, "pool": content.pool,
                                                                "lossless": bits}))  # fmt: skip


def _read(info: bytes, flaws: list[Flaw]) -> VirtualChannels | None:
    found = unpacked(CHANNELS, _TLV, info, flaws)
    if found is None:
        return None
    lossless = frozenset(one for one in range(MOST_VCS) if found["lossless"] >> one & 1)
    try:
        return VirtualChannels(found["vcs"], found["pool"], lossless)
    except FieldError as error:
        flaws.append(flaw(_TLV, DcbxReason.UNDEFINED, str(error)))
        return None


_CODEC = Codec(CHANNELS.subtype, _TLV, _read, _encode, oui=OUI)


class VirtualChannelsFeature(ComparedFeature[VirtualChannels]):
    name = _NAME
    head = "UE VCs"
    tlv = "UE CBFC"
    event_type = VirtualChannelsChanged
    codecs = layouts(draft=_CODEC, published=_CODEC)

    def check(self, admin: VirtualChannels, settings: CommonSettings) -> None:
        if len(admin.lossless) > MOST_LOSSLESS:
            raise DcbxSettingsError(
                f"{len(admin.lossless)} virtual channels are lossless, and a port has {MOST_LOSSLESS} of these at most"
            )

    def read_settings(self, top: TomlTable, version: DcbxVersion) -> VirtualChannels | None:
        table = top.table(_NAME)
        if table is None:
            return None
        vcs, pool = table.need("vcs", whole), table.need("pool", whole)
        lossless = table.take("lossless", lambda value: frozenset(whole(one) for one in array(value)), frozenset())
        return table.build(lambda: VirtualChannels(vcs, pool, lossless))

    def settings_lines(self, admin: VirtualChannels) -> list[str]:
        return section(_NAME, admin.data)

    def warnings(self, settings: CommonSettings, states: Mapping[str, FeatureState[Any]]) -> Iterator[str]:
        link = settings.get("link")
        if self.admin(settings) is not None and not (link and link.cbfc):
            yield "virtual channels are announced, and CBFC is not on in `link`, so they have no effect"

    def negotiate(self, view: View) -> FeatureState[VirtualChannels]:
        admin, remote = self.admin(view.settings), view.remote(_NAME)
        if admin is None:
            return FeatureState(None, None, remote, "this port announces no virtual channels")
        if remote is None:
            return FeatureState(admin, None, None, view.lacking(self.tlv), pending=True)
        local, peer = view.settings.get("link"), view.remote("link")
        is_on = bool(local and local.cbfc and peer and peer.cbfc)
        both = admin.lossless & remote.lossless if is_on else frozenset()
        oper = VirtualChannels(min(admin.vcs, remote.vcs), remote.pool, both)
        if not is_on:
            return FeatureState(admin, oper, remote, "none is lossless: CBFC is not on at both ports")
        differing = self.differing(admin.data, remote.data)
        why = f"mismatch: {'; '.join(differing)}" if differing else "both ports announce the same channels"
        return FeatureState(admin, oper, remote, why)

    def value_data(self, value: VirtualChannels) -> dict[str, Any]:
        return value.data

    def value_text(self, data: Any) -> str:
        return f"{data['vcs']} VCs, lossless {_listed(data['lossless'])}, {data['pool']} credits"

    def differing(self, local: Data, remote: Data) -> list[str]:
        found = []
        for name, here, there in (("this port", local, remote), ("the peer", remote, local)):
            if alone := sorted({*here["lossless"]} - {*there["lossless"]}):
                found.append(f"VC {_listed(alone)} {'is' if len(alone) == 1 else 'are'} lossless at {name} alone")
        if local["vcs"] != remote["vcs"]:
            found.append(f"this port has {local['vcs']} VCs and the peer {remote['vcs']}")
        return found


def _listed(channels: Any) -> str:
    return ",".join(map(str, channels)) or "none"
