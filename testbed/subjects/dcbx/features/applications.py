"""Application Priority: the priority of each protocol. Symmetric without defense in the draft; in the published format
each port announces its table, and a willing port uses the peer's (decision 0105).

    draft      subtype 12, length 5 + 3n    W 1, reserved 7; entries
    published  subtype 12, length 5 + 3n    reserved 8; entries; no W

An entry is priority 3 bits, reserved 2, selector 3, protocol 16. One with a reserved selector is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.errors import XoffError
from testbed.frames import FieldError
from testbed.frames.dcbx.layouts import ENTRY, LAYOUTS
from testbed.frames.dcbx.values import DRAFT_SELECTORS, PUBLISHED_SELECTORS, AppEntry, DcbxVersion, Selector
from testbed.frames.lldp_tlvs import Flaw, Organisational
from testbed.strict.tables import TomlTable, flag, whole
from testbed.subjects.dcbx.config_values import ConfigError, section
from testbed.subjects.dcbx.features.codec import Contents, DcbxReason, codec, flaw, layouts, packed, unpacked
from testbed.subjects.dcbx.features.feature import (
    CommonSettings,
    Data,
    DcbxSettingsError,
    Event,
    Feature,
    FeatureState,
    View,
    willing_text,
)

MOST_ENTRIES = 168
"""The number of entries that one TLV can hold."""

_DRAFT, _PUBLISHED = (LAYOUTS[version][12] for version in (DcbxVersion.DRAFT, DcbxVersion.PUBLISHED))
_NAME = "application_priority"
_MOST_SHOWN = 3
_FIRST_ETHERTYPE, _LAST_DSCP, _LAST_PORT = 0x0600, 63, 0xFFFF
_KEYS = {
    "ethertype": Selector.ETHERTYPE,
    "tcp": Selector.TCP,
    "udp": Selector.UDP,
    "tcp-udp": Selector.ANY_PORT,
    "other-port": Selector.OTHER_PORT,
    "dscp": Selector.DSCP,
}
_KEY_OF = {selector: key for key, selector in _KEYS.items()}
_SHORT = {
    Selector.TCP.value: "tcp",
    Selector.UDP.value: "udp",
    Selector.ANY_PORT.value: "tcp+udp",
    Selector.OTHER_PORT.value: "other",
    Selector.DSCP.value: "dscp",
}

Applications = tuple[AppEntry, ...]


@dataclass(frozen=True, slots=True)
class ApplicationPriority:
    """The application table."""

    entries: Applications
    willing: bool = False
    """Draft only."""

    def __post_init__(self) -> None:
        if len(self.entries) > MOST_ENTRIES:
            raise FieldError(f"{len(self.entries)} application priorities do not fit into a TLV, {MOST_ENTRIES} do")


@dataclass(frozen=True)
class ApplicationAdmin:
    """The application table of a port."""

    entries: Applications = ()
    willing: bool = False

    def __post_init__(self) -> None:
        ApplicationPriority(self.entries)  # refuses what does not fit into the TLV


@dataclass(frozen=True, slots=True)
class ApplicationsChanged(Event):
    """Give these protocols these priorities."""

    entries: Applications
    why: str


# On the wire


def _encode_draft(content: ApplicationPriority, _: Contents) -> Organisational:
    return packed(_DRAFT, _pack_entries(content.entries, DRAFT_SELECTORS, "draft's"), willing=content.willing)


def _read_draft(info: bytes, flaws: list[Flaw]) -> ApplicationPriority | None:
    found = unpacked(_DRAFT, _NAME, info, flaws)
    if found is None:
        return None
    return ApplicationPriority(_unpack_entries(info, DRAFT_SELECTORS, flaws), bool(found["willing"]))


def _encode_published(content: ApplicationPriority, _: Contents) -> Organisational:
    if content.willing:
        raise FieldError("the published format has no W in Application Priority; leave `willing` at False")
    return packed(_PUBLISHED, _pack_entries(content.entries, PUBLISHED_SELECTORS, "published"))


def _read_published(info: bytes, flaws: list[Flaw]) -> ApplicationPriority | None:
    if unpacked(_PUBLISHED, _NAME, info, flaws) is None:
        return None
    return ApplicationPriority(_unpack_entries(info, PUBLISHED_SELECTORS, flaws))


def _pack_entries(entries: Applications, selectors: Mapping[int, Selector], version: str) -> bytes:
    numbers = {selector: number for number, selector in selectors.items()}
    octets = b""
    for entry in entries:
        if entry.selector not in numbers:
            raise FieldError(f"the {version} format has no selector for {entry.selector.value}")
        values = {"priority": entry.priority, "selector": numbers[entry.selector], "protocol": entry.protocol}
        octets += ENTRY.pack(values)
    return octets


def _unpack_entries(info: bytes, selectors: Mapping[int, Selector], flaws: list[Flaw]) -> Applications:
    """Read the table after its first octet."""
    entries = []
    for number, at in enumerate(range(1, len(info), ENTRY.octets)):
        found = ENTRY.unpack(info[at:])
        selector = selectors.get(found["selector"])
        if selector is None:
            message = f"entry {number} has selector {found['selector']}, which is reserved; the other entries count"
            flaws.append(flaw(_NAME, DcbxReason.RESERVED_SELECTOR, message))
        else:
            entries.append(AppEntry(found["priority"], selector, found["protocol"]))
    return tuple(entries)


class ApplicationFeature(Feature[ApplicationAdmin, Applications, ApplicationPriority]):
    name = "applications"
    head = "APP"
    tlv = "Application Priority"
    event_type = ApplicationsChanged
    event_field = "entries"
    is_symmetric = True
    codecs = layouts(
        draft=codec(_DRAFT, _NAME, _read_draft, _encode_draft),
        published=codec(_PUBLISHED, _NAME, _read_published, _encode_published),
    )

    def check(self, admin: ApplicationAdmin, settings: CommonSettings) -> None:
        selectors = DRAFT_SELECTORS if settings.is_draft else PUBLISHED_SELECTORS
        for entry in admin.entries:
            if entry.selector not in selectors.values():
                raise DcbxSettingsError(f"the {settings.version} format has no selector for {entry.selector.value}")

    def read_settings(self, top: TomlTable, version: DcbxVersion) -> ApplicationAdmin | None:
        common, entries = top.table("applications"), top.tables("application")
        if common is None and not entries:
            return None
        willing = common.take("willing", flag, False) if common else False
        if common:
            common.close()
        table = tuple(_read_entry(entry) for entry in entries)
        _refuse_contradictions(top, table)
        try:
            return ApplicationAdmin(table, willing)
        except XoffError as error:
            top.refuse("application", str(error))

    def settings_lines(self, admin: ApplicationAdmin) -> list[str]:
        lines = section("applications", {"willing": admin.willing})
        for entry in admin.entries:
            lines += ["", "[[application]]", f"{_KEY_OF[entry.selector]} = {_protocol_in_file(entry)}"]
            lines.append(f"priority = {entry.priority}")
        return lines

    def negotiate(self, view: View) -> FeatureState[Applications]:
        admin, tlv = self.admin(view.settings), view.remote(self.name)
        is_draft = view.settings.is_draft
        remote = tlv.entries if tlv else None
        remote_willing = tlv.willing if tlv and is_draft else None
        if admin is None:
            return FeatureState(None, None, remote, "this port has no application table", remote_willing=remote_willing)
        if is_draft:
            outcome = view.pass_symmetrically(self, admin.entries, remote, admin.willing, remote_willing)
            state = admin.willing, remote_willing, outcome.pending
            return FeatureState(admin.entries, outcome.oper, remote, outcome.why, *state)
        oper, why = admin.entries, "local setting: this port is not willing"
        if admin.willing and remote is not None:
            oper, why = remote, "the peer's: this port is willing"
        elif admin.willing:
            why = f"local setting: {view.lacking(self.tlv)}"
        return FeatureState(admin.entries, oper, remote, why, admin.willing, None, remote is None)

    def sent(self, settings: CommonSettings, state: FeatureState[Applications]) -> ApplicationPriority | None:
        """Return the table to announce: in the published format the local one, since two willing ports would swap
        adopted ones.
        """
        admin = self.admin(settings)
        if admin is None or state.oper is None:
            return None
        if settings.is_draft:
            return ApplicationPriority(state.oper, admin.willing)
        return ApplicationPriority(admin.entries)

    def event(self, at_ns: int, state: FeatureState[Applications]) -> Event:
        return ApplicationsChanged(at_ns, state.oper or (), state.why)

    def facts(self, state: FeatureState[Applications]) -> object:
        return state.oper

    def event_data(self, event: ApplicationsChanged) -> dict[str, Any]:
        return {"entries": self.value_data(event.entries), "why": event.why}

    def value_data(self, value: Applications) -> list[dict[str, Any]]:
        return [{"priority": e.priority, "selector": e.selector.value, "protocol": e.protocol} for e in value]

    def tlv_data(self, content: ApplicationPriority) -> dict[str, Any]:
        return {"willing": content.willing, "entries": self.value_data(content.entries)}

    def value_text(self, data: Sequence[Data]) -> str:
        """Return the first few entries, as in "4:tcp/3260 3:0x8906"."""
        shown = [f"{entry['priority']}:{_protocol_text(entry)}" for entry in data[:_MOST_SHOWN]]
        if len(data) > _MOST_SHOWN:
            shown.append(f"+{len(data) - _MOST_SHOWN}")
        return " ".join(shown) or "none"

    def tlv_text(self, data: Any, version: str) -> str:
        willing = willing_text(data) if version == DcbxVersion.DRAFT else ""  # the published format has no W
        return f"APP {self.value_text(data['entries'])}{willing}"

    def event_text(self, line: Data, before: Data) -> list[str]:
        if before.get("entries") == line["entries"]:
            return []
        return [f"APP {self.value_text(line['entries'])}, {line['why']}"]

    def sentence(self, line: Data) -> str:
        return f"applications {self.value_text(line['entries'])}: {line['why']}"


# In a configuration file


def _read_entry(table: TomlTable) -> AppEntry:
    named = [key for key in _KEYS if table.has(key)]
    priority = table.need("priority", whole)
    table.close()
    if len(named) != 1:
        what = f"{' and '.join(named)} are there" if named else "no protocol is there"
        table.refuse("protocol", f"{what}; give one of {', '.join(_KEYS)}")
    key = named[0]
    protocol = table.need(key, _read_protocol(key))
    return table.build(lambda: AppEntry(priority, _KEYS[key], protocol))


def _read_protocol(key: str) -> Callable[[Any], int]:
    first, last, noun, hint = {
        "ethertype": (_FIRST_ETHERTYPE, 0xFFFF, "an EtherType", "0x600 to 0xffff, or 0 for everything else"),
        "dscp": (0, _LAST_DSCP, "a DSCP", "0 to 63"),
    }.get(key, (1, _LAST_PORT, "a port", "1 to 65535"))

    def read(value: Any) -> int:
        given = whole(value)
        if not (first <= given <= last or (given == 0 and key == "ethertype")):
            shown = f"{given} ({given:#x})" if key == "ethertype" else str(given)
            raise ConfigError(f"{shown} is not {noun}: there are {hint}")
        return given

    return read


def _refuse_contradictions(top: TomlTable, table: Sequence[AppEntry]) -> None:
    """Refuse two priorities for one protocol: the receiver of the TLV would decide which counts."""
    known: dict[tuple[Selector, int], int] = {}
    for entry in table:
        before = known.setdefault((entry.selector, entry.protocol), entry.priority)
        if before != entry.priority:
            protocol = f"{_KEY_OF[entry.selector]} = {_protocol_in_file(entry)}"
            message = f"{protocol} has priority {before} and priority {entry.priority}; leave one out"
            top.refuse("application", message)


def _protocol_in_file(entry: AppEntry) -> str:
    return f"{entry.protocol:#06x}" if entry.selector is Selector.ETHERTYPE else str(entry.protocol)


def _protocol_text(entry: Data) -> str:
    selector, protocol = entry["selector"], entry["protocol"]
    if selector == Selector.ETHERTYPE.value:
        return f"{protocol:#06x}" if protocol else "default"
    return f"{_SHORT[selector]}/{protocol}"
