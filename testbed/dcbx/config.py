"""A port's settings as a TOML file, and the file again from the settings. docs/dcbx.md has a sample with every key.

A section that is not in the file is a feature that is not run; a key that is not in its section has the default of
`testbed.dcbx.settings`. Nothing is guessed: an unknown key, a value of the wrong kind and settings that contradict each
other are each one ConfigError, which names file, key, value and the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, TypeVar

from testbed import toml_text
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
from testbed.units import Duration

T = TypeVar("T")
D = TypeVar("D")

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
    return _config(_Table(name, "", toml_text.read(text, name, ConfigError)))


class _Table:
    """A table of the file, from which each key is taken once; what is left at the end is unknown."""

    def __init__(self, file: str, place: str, content: dict[str, Any]) -> None:
        self._file = file
        self._place = place  # as in "[pfc]"; "" is the top
        self._content = content
        self._known: list[str] = []

    def wrong(self, key: str, message: str) -> ConfigError:
        return ConfigError(f"{self._file}: {f'{self._place} {key}'.strip()}: {message}")

    def has(self, key: str) -> bool:
        if key not in self._known:
            self._known.append(key)
        return key in self._content

    def take(self, key: str, read: Callable[[Any], T], default: D) -> T | D:
        """The value that `read` makes of it; `read` raises XoffError."""
        return self._read(key, read) if self.has(key) else default

    def need(self, key: str, read: Callable[[Any], T]) -> T:
        if not self.has(key):
            raise self.wrong(key, "is missing")
        return self._read(key, read)

    def table(self, key: str) -> _Table | None:
        if not self.has(key):
            return None
        content = self._content[key]
        place = f"[{self._place[1:-1]}.{key}]" if self._place else f"[{key}]"
        if not isinstance(content, dict):
            raise self.wrong(key, f"{_shown(content)} is not a section; write {place} on a line of its own")
        return _Table(self._file, place, content)

    def tables(self, key: str) -> list[_Table]:
        found = self._content[key] if self.has(key) else []
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self.wrong(key, f"{_shown(found)} is not a list of sections; write [[{key}]] above each of them")
        return [_Table(self._file, f"[[{key}]] number {number}", one) for number, one in enumerate(found, 1)]

    def refuse_unknown(self) -> None:
        for key in self._content:
            if key not in self._known:
                near = get_close_matches(key, self._known, 1, 0.5)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self._known)}"
                raise self.wrong(key, f"unknown key; {hint}")

    def build(self, make: Callable[[], T]) -> T:
        """What settings refuse, with the place."""
        self.refuse_unknown()
        try:
            return make()
        except ConfigError:
            raise
        except XoffError as error:
            raise ConfigError(f"{self._file}: {self._place}{': ' if self._place else ''}{error}") from None

    def _read(self, key: str, read: Callable[[Any], T]) -> T:
        try:
            return read(self._content[key])
        except XoffError as error:
            raise self.wrong(key, str(error)) from None


# Values


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{_shown(value)} is neither true nor false")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{_shown(value)} is not a whole number")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigError(f"{_shown(value)} is not a list: write [{value}]")
    return value


def _priority_set(value: Any) -> int:
    return mask([_number(priority) for priority in _list(value)])


def _class_set(value: Any) -> set[int]:
    classes = {_number(one) for one in _list(value)}
    for one in classes:
        if not 0 <= one <= 7:
            raise ConfigError(f"{one} is not a traffic class: there are 0 to 7")
    return classes


def _classes(version: DcbxVersion) -> Callable[[Any], Table]:
    """The class of each priority."""

    def entry(value: Any) -> int:
        if value != _STRICT:
            return _number(value)
        if version is DcbxVersion.DRAFT:
            return STRICT
        raise ConfigError('"strict" is the draft\'s; give the priority a class, and name that class in strict = [..]')

    def read(value: Any) -> Table:
        entries = tuple(entry(one) for one in _list(value))
        if len(entries) != 8:
            raise ConfigError(f"{len(entries)} entries, and 8 are expected: the classes of priorities 0 to 7 in order")
        return entries

    return read


def _percents(value: Any) -> Table:
    """The share of each class; those that are not given have none."""
    entries = [_number(entry) for entry in _list(value)]
    if len(entries) > 8:
        raise ConfigError(f"{len(entries)} entries, and there are 8 classes")
    for entry in entries:
        if not 0 <= entry <= _WHOLE:
            raise ConfigError(f"{entry} is not a share: there are 0 to 100 percent")
    return tuple(entries + [0] * (8 - len(entries)))


def _duration(value: Any) -> Duration:
    if not isinstance(value, str):
        raise ConfigError(f"{_shown(value)} has no unit: write for example '30s'")
    return Duration(value)


def _one_of(kind: Callable[[str], T], names: Sequence[str]) -> Callable[[Any], T]:
    def read(value: Any) -> T:
        if value not in names:
            near = get_close_matches(str(value), names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, names))}"
            raise ConfigError(f"{_shown(value)} is unknown; {hint}")
        return kind(value)

    return read


def _protocol(key: str) -> Callable[[Any], int]:
    first, last, noun, hint = {
        "ethertype": (_FIRST_ETHERTYPE, 0xFFFF, "an EtherType", "0x600 to 0xffff, or 0 for everything else"),
        "dscp": (0, _LAST_DSCP, "a DSCP", "0 to 63"),
    }.get(key, (1, _LAST_PORT, "a port", "1 to 65535"))

    def read(value: Any) -> int:
        number = _number(value)
        if not (first <= number <= last or (number == 0 and key == "ethertype")):
            shown = f"{number} ({number:#x})" if key == "ethertype" else str(number)
            raise ConfigError(f"{shown} is not {noun}: there are {hint}")
        return number

    return read


def _shown(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


# Sections


def _config(top: _Table) -> Config:
    version = top.take("version", _one_of(DcbxVersion, [str(one) for one in DcbxVersion]), DcbxVersion.PUBLISHED)
    tie_break = top.take("tie_break", _one_of(TieBreak, [str(one) for one in TieBreak]), None)
    traffic_classes = top.take("traffic_classes", _number, 8)
    by_classes = top.take("buffer_by_classes", _flag, False)
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


def _timers(table: _Table) -> LldpTimers:
    values: dict[str, Any] = {}
    for field in fields(LldpTimers):
        read: Callable[[Any], Any] = _duration if isinstance(field.default, Duration) else _number
        values[field.name] = table.take(field.name, read, field.default)
    return table.build(lambda: LldpTimers(**values))


def _pfc(table: _Table) -> PfcAdmin:
    values: dict[str, Any] = {"enabled": table.take("enabled", _priority_set, 0), "cap": table.take("cap", _number, 8)}
    for key in ("willing", "defense", "defon_octet", "headroom", "hold"):
        values[key] = table.take(key, _flag, key == "defon_octet")
    return table.build(lambda: PfcAdmin(**values))


def _cn(table: _Table) -> CnAdmin:
    enabled, willing = table.take("enabled", _priority_set, 0), table.take("willing", _flag, False)
    hold = table.take("hold", _flag, False)
    return table.build(lambda: CnAdmin(enabled, willing, hold))


def _applications(top: _Table) -> ApplicationAdmin | None:
    common, entries = top.table("applications"), top.tables("application")
    if common is None and not entries:
        return None
    willing = common.take("willing", _flag, False) if common else False
    if common:
        common.refuse_unknown()
    table = tuple(_entry(entry) for entry in entries)
    _refuse_contradictions(top, table)
    try:
        return ApplicationAdmin(table, willing)
    except XoffError as error:
        raise top.wrong("application", str(error)) from None


def _refuse_contradictions(top: _Table, table: Sequence[AppEntry]) -> None:
    """One protocol has one priority: with two, the receiver of the TLV would decide which counts."""
    known: dict[tuple[Selector, int], int] = {}
    names = {selector: name for name, selector in SELECTOR_KEYS.items()}
    for entry in table:
        before = known.setdefault((entry.selector, entry.protocol), entry.priority)
        if before != entry.priority:
            protocol = f"{names[entry.selector]} = {protocol_text(entry)}"
            message = f"{protocol} has priority {before} and priority {entry.priority}; leave one out"
            raise top.wrong("application", message)


def _entry(table: _Table) -> AppEntry:
    named = [key for key in SELECTOR_KEYS if table.has(key)]
    priority = table.need("priority", _number)
    table.refuse_unknown()
    if len(named) != 1:
        what = f"{' and '.join(named)} are there" if named else "no protocol is there"
        raise table.wrong("protocol", f"{what}; give one of {', '.join(SELECTOR_KEYS)}")
    key = named[0]
    protocol = table.need(key, _protocol(key))
    return table.build(lambda: AppEntry(priority, SELECTOR_KEYS[key], protocol))


def _ets(table: _Table, version: DcbxVersion) -> EtsAdmin:
    willing, cbs = table.take("willing", _flag, False), table.take("cbs", _flag, False)
    assignment = table.need("classes", _classes(version))
    bandwidth = table.take("bandwidth", _percents, (0,) * 8)
    tsa = _selection(table, version)
    advice = table.table("recommend")
    recommend = _recommend(advice, version) if advice else None
    return table.build(lambda: EtsAdmin(Ets(assignment, bandwidth, tsa), willing, recommend, cbs))


def _recommend(table: _Table, version: DcbxVersion) -> Recommend | Shares:
    wait = table.take("wait", _flag, False)
    if table.has("shares"):
        shares = table.need("shares", _percents)
        for key in ("bandwidth", "wait"):
            if table.has(key):
                raise table.wrong(key, "does not go with shares, which always wait for the peer's table; give one")
        return table.build(lambda: Shares(shares))
    bandwidth = table.take("bandwidth", _percents, (0,) * 8)
    if version is DcbxVersion.DRAFT:
        if table.has("classes"):
            raise table.wrong("classes", "the draft recommends bandwidth only; leave this out")
        _selection(table, version)
        return table.build(lambda: Recommend(EtsRecommendation(bandwidth), wait))
    assignment, tsa = table.need("classes", _classes(version)), _selection(table, version)
    return table.build(lambda: Recommend(EtsRecommendation(bandwidth, assignment, tsa), wait))


def _selection(table: _Table, version: DcbxVersion) -> Table | None:
    """Transmission selection: ETS for every class that is in no other list."""
    chosen: dict[int, tuple[str, int]] = {}
    for key, algorithm in SELECTION_KEYS.items():
        if version is DcbxVersion.DRAFT and table.has(key):
            way_out = 'write "strict" in place of a priority\'s class' if key == "strict" else "leave this out"
            raise table.wrong(key, f"the draft has no transmission selection of classes; {way_out}")
        for number in sorted(table.take(key, _class_set, set())):
            if number in chosen:
                raise table.wrong(key, f"class {number} is in {chosen[number][0]} too; leave one out")
            chosen[number] = key, int(algorithm)
    if version is DcbxVersion.DRAFT:
        return None
    return tuple(chosen[number][1] if number in chosen else int(Tsa.ETS) for number in range(8))
