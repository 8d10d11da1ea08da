"""What a link has of Ultra Ethernet's link layer: retry (LLR) and credits (CBFC). Provisional, as its TLV is.

    both formats    subtype 1 of the consortium, length 6    LLR 1, CBFC 1, reserved 6; version 8

Each is on if both ends announce it, as headroom is measured if both do. That one end has it and the other has not, or
that they speak different versions, is a mismatch: it has a line in tables, diagrams and reports, and is in the event.

The value is announced and compared. It sets nothing at a port: cables and ports have settings of their own.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeVar

from testbed.frames import FieldError
from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.link.negotiation import LINK, OUI, VERSION
from testbed.frames.lldp_tlvs import Flaw, Organisational
from testbed.strict.tables import TomlTable, flag, whole
from testbed.subjects.dcbx.config_values import section
from testbed.subjects.dcbx.features.codec import Codec, Contents, layouts, unpacked
from testbed.subjects.dcbx.features.feature import CommonSettings, Data, Event, Feature, FeatureState, View

_NAME = "link"
_TLV = "ue_link_negotiation"
E = TypeVar("E")


@dataclass(frozen=True)
class LinkLayer:
    """The link layer of one end: its settings, and the content of the TLV."""

    llr: bool = False
    cbfc: bool = False
    version: int = VERSION

    def __post_init__(self) -> None:
        if not 0 <= self.version <= 0xFF:
            raise FieldError(f"version {self.version} of Ultra Ethernet does not fit: it is 0 to 255")


@dataclass(frozen=True, slots=True)
class LinkLayerChanged(Event):
    """The link layer that both ends have, the one that the peer announces, and where they differ."""

    oper: LinkLayer | None
    remote: LinkLayer | None
    mismatch: tuple[str, ...]
    why: str


def _encode(content: LinkLayer, _: Contents) -> Organisational:
    return Organisational(OUI, LINK.subtype, LINK.pack(asdict(content)))


def _read(info: bytes, flaws: list[Flaw]) -> LinkLayer | None:
    found = unpacked(LINK, _TLV, info, flaws)
    return None if found is None else LinkLayer(bool(found["llr"]), bool(found["cbfc"]), found["version"])


_CODEC = Codec(LINK.subtype, _TLV, _read, _encode, oui=OUI)


class ComparedFeature(Feature[E, E, E]):
    """A feature whose settings are announced as they are, and compared with those of the peer."""

    event_type: ClassVar[type[Any]]
    """The class of its events, with the fields `oper`, `remote`, `mismatch` and `why`."""
    event_field = "oper"

    @abstractmethod
    def differing(self, local: Data, remote: Data) -> list[str]:
        """Return where two ends differ, in words."""

    def sent(self, settings: CommonSettings, state: FeatureState[E]) -> E | None:
        return self.admin(settings)

    def facts(self, state: FeatureState[E]) -> object:
        return state.admin, state.oper, state.remote

    def event(self, at_ns: int, state: FeatureState[E]) -> Event:
        differing: list[str] = []
        if state.admin is not None and state.remote is not None:
            differing = self.differing(self.value_data(state.admin), self.value_data(state.remote))
        changed: Event = self.event_type(at_ns, state.oper, state.remote, tuple(differing), state.why)
        return changed

    def event_data(self, event: Any) -> dict[str, Any]:
        values = {"oper": event.oper, "remote": event.remote}
        data = {name: None if one is None else self.value_data(one) for name, one in values.items()}
        return {**data, "mismatch": list(event.mismatch), "why": event.why}

    def tlv_data(self, content: E) -> Any:
        return self.value_data(content)

    def tlv_text(self, data: Any, version: str) -> str:
        return self.value_text(data)

    def event_text(self, line: Data, before: Data) -> list[str]:
        if (line["oper"], line["mismatch"]) == (before.get("oper"), before.get("mismatch")):
            return []
        return [f"{self.text(line['oper'])}, {line['why']}"]

    def sentence(self, line: Data) -> str:
        return f"{self.head}: {self.text(line['oper'])}, {line['why']}"

    def notes(self, state: Data) -> list[str]:
        if state["admin"] is None or state["remote"] is None:
            return []
        return [f"{self.head}: {text}" for text in self.differing(state["admin"], state["remote"])]


class LinkLayerFeature(ComparedFeature[LinkLayer]):
    name = _NAME
    head = "UE link"
    tlv = "UE Link Negotiation"
    event_type = LinkLayerChanged
    codecs = layouts(draft=_CODEC, published=_CODEC)

    def read_settings(self, top: TomlTable, version: DcbxVersion) -> LinkLayer | None:
        table = top.table(_NAME)
        if table is None:
            return None
        llr, cbfc = table.take("llr", flag, False), table.take("cbfc", flag, False)
        number = table.take("version", whole, VERSION)
        return table.build(lambda: LinkLayer(llr, cbfc, number))

    def settings_lines(self, admin: LinkLayer) -> list[str]:
        return section(_NAME, asdict(admin))

    def negotiate(self, view: View) -> FeatureState[LinkLayer]:
        admin, remote = self.admin(view.settings), view.remote(_NAME)
        if admin is None:
            return FeatureState(None, None, remote, "this port does not announce its link layer")
        if remote is None:
            return FeatureState(admin, LinkLayer(version=admin.version), None, view.lacking(self.tlv), pending=True)
        oper = LinkLayer(admin.llr and remote.llr, admin.cbfc and remote.cbfc, min(admin.version, remote.version))
        differing = self.differing(asdict(admin), asdict(remote))
        why = f"mismatch: {'; '.join(differing)}" if differing else "both ports announce the same"
        return FeatureState(admin, oper, remote, why)

    def value_data(self, value: LinkLayer) -> dict[str, Any]:
        return asdict(value)

    def value_text(self, data: Any) -> str:
        return f"LLR {_on(data['llr'])}, CBFC {_on(data['cbfc'])}, UE {data['version']}"

    def differing(self, local: Data, remote: Data) -> list[str]:
        found = [
            f"{words} is off, as this port has it {_on(local[name])} and the peer {_on(remote[name])}"
            for name, words in (("llr", "LLR"), ("cbfc", "CBFC"))
            if local[name] is not remote[name]
        ]
        if local["version"] != remote["version"]:
            found.append(f"this port speaks version {local['version']} of UE and the peer version {remote['version']}")
        return found


def _on(truth: bool) -> str:
    return "on" if truth else "off"
