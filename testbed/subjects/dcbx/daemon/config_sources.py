"""The sources of the settings of interfaces: a file that was named, or one at the default place.

Without either the interface is willing to take everything from its peer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from testbed.subjects.dcbx.config import WILLING, Config, ConfigError, parse

DEFAULTS = Path("/etc/xoff")
_LARGEST = 1 << 20
"""The most octets of a file. Every key written out, with a full application table, are 12 000."""


@dataclass(frozen=True)
class Changes:
    """The parts that have changed when a file was read again."""

    text: bool
    settings: bool
    timers: bool


class ConfigSource:
    """The settings of one file; without a file, those of an interface that takes everything from its peer."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self._text, self.config = read(file) if file else ("", WILLING)

    def read_again(self) -> Changes:
        """Read the file again; after a ConfigError nothing has changed. Timers stay as they were at the start."""
        assert self.file is not None
        before, (text, config) = self.config, read(self.file)
        changed = Changes(text != self._text, config.settings != before.settings, config.timers != before.timers)
        self._text, self.config = text, Config(config.settings, before.timers)
        return changed


def sources_of(interfaces: Iterable[str], file: Path | None) -> dict[str, ConfigSource]:
    """Return the source of each interface: `file`, or what is at its default place. Interfaces with one file share its
    source.
    """
    files = {name: file or _default(name) for name in interfaces}
    sources = {each: ConfigSource(each) for each in dict.fromkeys(files.values())}
    return {name: sources[each] for name, each in files.items()}


def _default(interface: str) -> Path | None:
    places = DEFAULTS / "dcbx" / f"{interface}.toml", DEFAULTS / "dcbx.toml"
    return next((place for place in places if place.exists()), None)


def read(file: Path) -> tuple[str, Config]:
    """Return the text and the configuration of a file; ConfigError if it is not valid."""
    try:
        with file.open("rb") as octets:
            content = octets.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ConfigError(f"{file} is larger than {_LARGEST} octets, the limit for a configuration file")
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{file} cannot be read: {reason}") from None
    return text, parse(text, str(file))
