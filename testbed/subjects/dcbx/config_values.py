"""Values of a configuration file that several features have: readers for them, and lines of such a file."""

from __future__ import annotations

from typing import Any

from testbed.errors import UsageError
from testbed.frames.dcbx.values import mask
from testbed.strict.problems import shown
from testbed.strict.tables import array, whole
from testbed.units import Duration


class ConfigError(UsageError):
    """An invalid configuration file."""


def priority_set(value: Any) -> int:
    """Read a list of priorities as a mask."""
    return mask([whole(priority) for priority in array(value)])


def duration(value: Any) -> Duration:
    if not isinstance(value, str):
        raise ConfigError(f"{shown(value)} has no unit: write for example '30s'")
    return Duration(value)


def section(name: str, values: dict[str, Any]) -> list[str]:
    """Return the lines of a section, after an empty one."""
    return ["", f"[{name}]", *(f"{key} = {written(value)}" for key, value in values.items())]


def written(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(written(one) for one in value)}]"
    return str(value) if isinstance(value, int) else f'"{value}"'
