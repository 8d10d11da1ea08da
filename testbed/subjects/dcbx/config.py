"""A port's settings as a TOML file, and the file again from the settings. docs/dcbx.md has a sample with every key.

A section that is not in the file is a feature that is not run; a key that is not in its section has the default of
`testbed.subjects.dcbx.settings`. Each feature reads and writes its own section.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from testbed.frames.dcbx.values import DcbxVersion, Ets, Tsa
from testbed.frames.lldp_timers import LldpTimers
from testbed.strict.tables import TomlTable, flag, one_of, whole
from testbed.subjects.dcbx import features
from testbed.subjects.dcbx.config_values import ConfigError, duration, section, written
from testbed.subjects.dcbx.settings import (
    ApplicationAdmin,
    DcbxSettings,
    EtsAdmin,
    PfcAdmin,
    TieBreak,
)
from testbed.units import Duration

__all__ = ["WILLING", "Config", "ConfigError", "dump", "parse"]


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
"""The configuration without a file: one class, no PFC, and willing to take everything from the peer, as an end station
is."""


def parse(text: str, name: str) -> Config:
    """Read the content of a file; `name` is the file's, for messages."""
    top = TomlTable.read(text, name, ConfigError)
    version = top.take("version", one_of(DcbxVersion, [str(one) for one in DcbxVersion]), DcbxVersion.PUBLISHED)
    common = {
        "version": version,
        "tie_break": top.take("tie_break", one_of(TieBreak, [str(one) for one in TieBreak]), None),
        "traffic_classes": top.take("traffic_classes", whole, 8),
        "buffer_by_classes": top.take("buffer_by_classes", flag, False),
    }
    timers = top.table("lldp")
    found = {feature.name: feature.read_settings(top, version) for feature in features.every()}
    by_feature = {name: admin for name, admin in found.items() if admin is not None}
    settings = top.build(lambda: DcbxSettings.of(by_feature, **common))
    return Config(settings, _timers(timers) if timers else LldpTimers())


def _timers(table: TomlTable) -> LldpTimers:
    values: dict[str, Any] = {}
    for field in fields(LldpTimers):
        read: Callable[[Any], Any] = duration if isinstance(field.default, Duration) else whole
        values[field.name] = table.take(field.name, read, field.default)
    return table.build(lambda: LldpTimers(**values))


def dump(settings: DcbxSettings, timers: LldpTimers = LldpTimers()) -> str:
    """Return a file with the same settings and every key written out: the opposite of `parse`."""
    lines = [f'version = "{settings.version}"']
    if settings.tie_break is not None:
        lines.append(f'tie_break = "{settings.tie_break}"')
    lines.append(f"traffic_classes = {settings.traffic_classes}")
    lines.append(f"buffer_by_classes = {written(settings.buffer_by_classes)}")
    lines += section("lldp", {field.name: getattr(timers, field.name) for field in fields(LldpTimers)})
    for feature in features.every():
        admin = feature.admin(settings)
        if admin is not None:
            lines += feature.settings_lines(admin)
    return "\n".join(lines) + "\n"
