"""PFC's counters of a real switch: what `show pfc counters` printed, from a file or an archive of `show techsupport`.

The numbers are the switch's own, since it started or since they were cleared. Two readings of one archive show how much
they grew in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from testbed.errors import UsageError
from testbed.subjects.sonic.archive import LARGEST_TEXT, is_archive, texts

MOST_PORTS = 4096
_HEAD = re.compile(r"^\s*Port\s+(Rx|Tx)(?:\s+PFC[0-7]){8}\s*$", re.ASCII)
_ROW = re.compile(r"^\s*([A-Za-z][A-Za-z0-9_./-]{0,31})((?:\s+(?:[0-9][0-9,]{0,30}|N/A)){8})\s*$", re.ASCII)
CONFIG = "config_db.json"
Counts = tuple[int | None, ...]
"""The frames of each priority; None where the switch has no counter."""


@dataclass(frozen=True)
class Reading:
    """The output of one `show pfc counters`, by port."""

    source: str
    received: Mapping[str, Counts] = field(default_factory=dict)
    sent: Mapping[str, Counts] = field(default_factory=dict)

    @property
    def ports(self) -> list[str]:
        return list(dict.fromkeys([*self.received, *self.sent]))

    def used(self) -> Iterator[tuple[str, int]]:
        """Yield each port and priority with a frame in either direction."""
        for port in self.ports:
            for priority in range(8):
                if any(counts.get(port, ())[priority : priority + 1] > (0,) for counts in self._both()):
                    yield port, priority

    def _both(self) -> tuple[dict[str, tuple[int, ...]], ...]:
        return tuple(
            {port: tuple(one or 0 for one in row) for port, row in rows.items()} for rows in (self.received, self.sent)
        )


def parse(text: str, source: str) -> Reading | None:
    """Return the counters in a text, or None if there are none. Other lines may be around the tables."""
    found: dict[str, dict[str, Counts]] = {"Rx": {}, "Tx": {}}
    rows: dict[str, Counts] | None = None
    for line in text.splitlines():
        if head := _HEAD.match(line):
            rows = found[head[1]]
        elif rows is not None and (row := _ROW.match(line)):
            rows[row[1]] = tuple(None if one == "N/A" else int(one.replace(",", "")) for one in row[2].split())
            if len(rows) > MOST_PORTS:
                raise UsageError(f"{source} has more than {MOST_PORTS} ports, and no switch has so many")
        elif rows is not None and line.strip() and not set(line) <= {"-", " "}:
            rows = None
    return Reading(source, found["Rx"], found["Tx"]) if found["Rx"] or found["Tx"] else None


def read(path: Path) -> tuple[list[Reading], bytes | None]:
    """Return the readings in a file or an archive, by the names of files, and the config_db.json if the archive
    has it.
    """
    if path.is_dir():
        raise UsageError(
            f"{path} is a folder; the output of show pfc counters or an archive of show techsupport is expected"
        )
    if not is_archive(path):
        with path.open("rb") as file:
            octets = file.read(LARGEST_TEXT + 1)
        if len(octets) > LARGEST_TEXT:
            raise UsageError(f"{path} has more than {LARGEST_TEXT >> 20} MiB; show pfc counters prints some kB")
        one = parse(octets.decode(errors="replace"), str(path))
        if one is None:
            raise UsageError(
                f"{path} has no table of `show pfc counters`, whose first line is: Port Rx  PFC0  PFC1 ... PFC7"
            )
        return [one], None
    found, config = [], None
    for name, text in texts(path):
        if name.rpartition("/")[2] == CONFIG and config is None:
            config = text.encode()
        elif "PFC0" in text and (reading := parse(text, name)) is not None:
            found.append(reading)
    if not found:
        raise UsageError(
            f"{path} has no output of `show pfc counters`; give a file that `show pfc counters > FILE` makes"
        )
    return sorted(found, key=lambda reading: (reading.source.rpartition("/")[2], reading.source)), config


def grown(first: Counts | None, last: Counts | None, priority: int) -> int | None:
    """Return by how much a counter grew; None if it was cleared in between, or there is none."""
    before, after = (None if row is None else row[priority] for row in (first, last))
    return None if before is None or after is None or after < before else after - before
