"""A port's settings as a TOML file, and the file again from the settings. docs/dcbx.md has a sample with every key.

A section that is not in the file is a feature that is not run; a key that is not in its section has the default of
`testbed.dcbx.settings`. Nothing is guessed: an unknown key, a value of the wrong kind and settings that contradict each
other are each one ConfigError, which names file, key, value and the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from testbed.dcbx.config_dump import SELECTION_KEYS, SELECTOR_KEYS, protocol_text
from testbed.dcbx.settings import (
    ApplicationAdmin,
    CnAdmin,
    DcbxSettings,
    EtsAdmin,
    LldpTimers,
    PfcAdmin,
    Recommend,
    Shares,
    TieBreak,
)
from testbed.errors import UsageError, XoffError
from testbed.frames.dcbx.values import (
    STRICT,
    AppEntry,
    DcbxVersion,
    Ets,
    EtsRecommendation,
    Selector,
    Table,
    Tsa,
    mask,
)
from testbed.strict.problems import shown
from testbed.strict.tables import TomlTable, array, flag, one_of, whole
from testbed.units import Duration

_WHOLE = 100
_FIRST_ETHERTYPE, _LAST_DSCP, _LAST_PORT = 0x0600, 63, 0xFFFF
_STRICT = "strict"
"""Draft: in place of the class of a priority that is in none."""


class ConfigError(UsageError):
    """An invalid configuration file."""


@dataclass(frozen=True)
class Config:
    """The content of a file."""

    settings: DcbxSettings
    timers: LldpTimers = LldpTimers()


WILLING = Config(
    DcbxSettings(
        ets=EtsAdmin(Ets((0,) * 8, (0,) * 8, (int(Tsa.STRICT),) * 8), willing=True),
        pfc=PfcAdmin(0, willing=True),
        applications=ApplicationAdmin(willing=True),
    )
)
"""Without a file: one class and no PFC, and willing to take everything from the peer, as an end station is."""


def parse(text: str, name: str) -> Config:
    """`name` is the file's, for messages."""
    return _config(TomlTable.read(text, name, ConfigError))


# Values


def _priority_set(value: Any) -> int:
    return mask([whole(priority) for priority in array(value)])


def _class_set(value: Any) -> set[int]:
    classes = {whole(one) for one in array(value)}
    for one in classes:
        if not 0 <= one <= 7:
            raise ConfigError(f"{one} is not a traffic class: there are 0 to 7")
    return classes


def _classes(version: DcbxVersion) -> Callable[[Any], Table]:
    """The class of each priority."""

    def entry(value: Any) -> int:
        if value != _STRICT:
            return whole(value)
        if version is DcbxVersion.DRAFT:
            return STRICT
        raise ConfigError('"strict" is the draft\'s; give the priority a class, and name that class in strict = [..]')

    def read(value: Any) -> Table:
        entries = tuple(entry(one) for one in array(value))
        if len(entries) != 8:
            raise ConfigError(f"{len(entries)} entries, and 8 are expected: the classes of priorities 0 to 7 in order")
        return entries

    return read


def _percents(value: Any) -> Table:
    """The share of each class; those that are not given have none."""
    entries = [whole(entry) for entry in array(value)]
    if len(entries) > 8:
        raise ConfigError(f"{len(entries)} entries, and there are 8 classes")
    for entry in entries:
        if not 0 <= entry <= _WHOLE:
            raise ConfigError(f"{entry} is not a share: there are 0 to 100 percent")
    return tuple(entries + [0] * (8 - len(entries)))


def _duration(value: Any) -> Duration:
    if not isinstance(value, str):
        raise ConfigError(f"{shown(value)} has no unit: write for example '30s'")
    return Duration(value)


def _protocol(key: str) -> Callable[[Any], int]:
    first, last, noun, hint = {
        "ethertype": (_FIRST_ETHERTYPE, 0xFFFF, "an EtherType", "0x600 to 0xffff, or 0 for everything else"),
        "dscp": (0, _LAST_DSCP, "a DSCP", "0 to 63"),
    }.get(key, (1, _LAST_PORT, "a port", "1 to 65535"))

    def read(value: Any) -> int:
        number = whole(value)
        if not (first <= number <= last or (number == 0 and key == "ethertype")):
            shown = f"{number} ({number:#x})" if key == "ethertype" else str(number)
            raise ConfigError(f"{shown} is not {noun}: there are {hint}")
        return number

    return read


# Sections


def _config(top: TomlTable) -> Config:
    version = top.take("version", one_of(DcbxVersion, [str(one) for one in DcbxVersion]), DcbxVersion.PUBLISHED)
    tie_break = top.take("tie_break", one_of(TieBreak, [str(one) for one in TieBreak]), None)
    traffic_classes = top.take("traffic_classes", whole, 8)
    by_classes = top.take("buffer_by_classes", flag, False)
    timers, pfc, ets, cn = top.table("lldp"), top.table("pfc"), top.table("ets"), top.table("cn")
    applications = _applications(top)
    parts = {
        "pfc": pfc and _pfc(pfc),
        "ets": ets and _ets(ets, version),
        "applications": applications,
        "cn": cn and _cn(cn),
    }
    settings = top.build(
        lambda: DcbxSettings(version, tie_break, traffic_classes, buffer_by_classes=by_classes, **parts)  # type: ignore[arg-type]
    )
    return Config(settings, _timers(timers) if timers else LldpTimers())


def _timers(table: TomlTable) -> LldpTimers:
    values: dict[str, Any] = {}
    for field in fields(LldpTimers):
        read: Callable[[Any], Any] = _duration if isinstance(field.default, Duration) else whole
        values[field.name] = table.take(field.name, read, field.default)
    return table.build(lambda: LldpTimers(**values))


def _pfc(table: TomlTable) -> PfcAdmin:
    values: dict[str, Any] = {"enabled": table.take("enabled", _priority_set, 0), "cap": table.take("cap", whole, 8)}
    for key in ("willing", "defense", "defon_octet", "headroom", "hold"):
        values[key] = table.take(key, flag, key == "defon_octet")
    return table.build(lambda: PfcAdmin(**values))


def _cn(table: TomlTable) -> CnAdmin:
    enabled, willing = table.take("enabled", _priority_set, 0), table.take("willing", flag, False)
    hold = table.take("hold", flag, False)
    return table.build(lambda: CnAdmin(enabled, willing, hold))


def _applications(top: TomlTable) -> ApplicationAdmin | None:
    common, entries = top.table("applications"), top.tables("application")
    if common is None and not entries:
        return None
    willing = common.take("willing", flag, False) if common else False
    if common:
        common.close()
    table = tuple(_entry(entry) for entry in entries)
    _refuse_contradictions(top, table)
    try:
        return ApplicationAdmin(table, willing)
    except XoffError as error:
        top.refuse("application", str(error))


def _refuse_contradictions(top: TomlTable, table: Sequence[AppEntry]) -> None:
    """One protocol has one priority: with two, the receiver of the TLV would decide which counts."""
    known: dict[tuple[Selector, int], int] = {}
    names = {selector: name for name, selector in SELECTOR_KEYS.items()}
    for entry in table:
        before = known.setdefault((entry.selector, entry.protocol), entry.priority)
        if before != entry.priority:
            protocol = f"{names[entry.selector]} = {protocol_text(entry)}"
            message = f"{protocol} has priority {before} and priority {entry.priority}; leave one out"
            top.refuse("application", message)


def _entry(table: TomlTable) -> AppEntry:
    named = [key for key in SELECTOR_KEYS if table.has(key)]
    priority = table.need("priority", whole)
    table.close()
    if len(named) != 1:
        what = f"{' and '.join(named)} are there" if named else "no protocol is there"
        table.refuse("protocol", f"{what}; give one of {', '.join(SELECTOR_KEYS)}")
    key = named[0]
    protocol = table.need(key, _protocol(key))
    return table.build(lambda: AppEntry(priority, SELECTOR_KEYS[key], protocol))


def _ets(table: TomlTable, version: DcbxVersion) -> EtsAdmin:
    willing, cbs = table.take("willing", flag, False), table.take("cbs", flag, False)
    assignment = table.need("classes", _classes(version))
    bandwidth = table.take("bandwidth", _percents, (0,) * 8)
    tsa = _selection(table, version)
    advice = table.table("recommend")
    recommend = _recommend(advice, version) if advice else None
    return table.build(lambda: EtsAdmin(Ets(assignment, bandwidth, tsa), willing, recommend, cbs))


def _recommend(table: TomlTable, version: DcbxVersion) -> Recommend | Shares:
    wait = table.take("wait", flag, False)
    if table.has("shares"):
        shares = table.need("shares", _percents)
        for key in ("bandwidth", "wait"):
            if table.has(key):
                table.refuse(key, "does not go with shares, which always wait for the peer's table; give one")
        return table.build(lambda: Shares(shares))
    bandwidth = table.take("bandwidth", _percents, (0,) * 8)
    if version is DcbxVersion.DRAFT:
        if table.has("classes"):
            table.refuse("classes", "the draft recommends bandwidth only; leave this out")
        _selection(table, version)
        return table.build(lambda: Recommend(EtsRecommendation(bandwidth), wait))
    assignment, tsa = table.need("classes", _classes(version)), _selection(table, version)
    return table.build(lambda: Recommend(EtsRecommendation(bandwidth, assignment, tsa), wait))


def _selection(table: TomlTable, version: DcbxVersion) -> Table | None:
    """Transmission selection: ETS for every class that is in no other list."""
    chosen: dict[int, tuple[str, int]] = {}
    for key, algorithm in SELECTION_KEYS.items():
        if version is DcbxVersion.DRAFT and table.has(key):
            way_out = 'write "strict" in place of a priority\'s class' if key == "strict" else "leave this out"
            table.refuse(key, f"the draft has no transmission selection of classes; {way_out}")
        for number in sorted(table.take(key, _class_set, set())):
            if number in chosen:
                table.refuse(key, f"class {number} is in {chosen[number][0]} too; leave one out")
            chosen[number] = key, int(algorithm)
    if version is DcbxVersion.DRAFT:
        return None
    return tuple(chosen[number][1] if number in chosen else int(Tsa.ETS) for number in range(8))
