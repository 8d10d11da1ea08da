"""The scenarios of the draft's three ladder diagrams: two ports and a cable in memory, and the log that agents keep of
them.

    PYTHONPATH=. python3 tests/unit/subjects/dcbx/dcbx_ladders.py FOLDER

writes FOLDER/symmetric/dcbx.jsonl, and the same for asymmetric and defense.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testbed.frames import Mac
from testbed.frames.dcbx.values import DcbxVersion, Ets
from testbed.subjects.dcbx.events import Event
from testbed.subjects.dcbx.port import DcbxPort
from testbed.subjects.dcbx.settings import CnAdmin, DcbxSettings, EtsAdmin, PfcAdmin, PortIdentity, Shares
from testbed.subjects.dcbx.show import frame_record, record
from tests.unit.subjects.dcbx.dcbx_link import HIGH, LOW, Link, S

DRAFT = DcbxVersion.DRAFT
GROUPS = Ets((0, 0, 0, 1, 1, 0, 0, 15), (70, 30, 0, 0, 0, 0, 0, 0))
CABLE_NS = 5_000

Log = list[dict[str, Any]]


class LoggedPort(DcbxPort):
    """A port that keeps the log of an agent: events before the frames that follow from them."""

    def __init__(self, name: str, mac: Mac, settings: DcbxSettings, log: Log, now: Callable[[], int]) -> None:
        super().__init__(PortIdentity.of(mac, name), settings)
        self._name, self._log, self._now = name, log, now
        self._seen: list[Event] = []

    def receive(self, octets: bytes, now_ns: int) -> None:
        self._add(frame_record(octets, self.settings.version, "received", now_ns))
        super().receive(octets, now_ns)

    def take_frames(self) -> list[bytes]:
        for event in super().take_events():
            self._add(record(event))
            self._seen.append(event)
        frames = super().take_frames()
        for octets in frames:
            self._add(frame_record(octets, self.settings.version, "sent", self._now()))
        return frames

    def take_events(self) -> list[Event]:
        seen, self._seen = self._seen, []
        return seen

    def _add(self, line: dict[str, Any]) -> None:
        self._log.append(line | {"port": self._name})


def logged(left: tuple[str, DcbxSettings], right: tuple[str, DcbxSettings]) -> tuple[Link, Log]:
    """Return two ports that have not started, on a cable with a delay, and their log."""
    log: Log = []
    a, b = (
        LoggedPort(name, mac, settings, log, lambda: link.now)
        for mac, (name, settings) in zip((LOW, HIGH), (left, right), strict=True)
    )
    link = Link(a, b)
    link.fate = lambda name: [CABLE_NS]
    return link, log


def _meet(link: Link) -> None:
    """Start the bridge, and ten seconds later the host."""
    link.fate = lambda name: []
    link.b.start(0)
    link.run_until(10 * S)
    link.fate = lambda name: [CABLE_NS]
    link.a.start(link.now)
    link.run_until(15 * S)


def symmetric() -> Log:
    """Return the log of a willing host that takes over the PFC of a bridge that is not willing."""
    host, bridge = DcbxSettings(DRAFT, pfc=PfcAdmin(0x00, willing=True)), DcbxSettings(DRAFT, pfc=PfcAdmin(0x18))
    link, log = logged(("host", host), ("bridge", bridge))
    _meet(link)
    return log


def asymmetric() -> Log:
    """Return the log of a bridge that recommends shares to a willing host, once it has the host's priority groups."""
    shares = Shares((20, 0, 0, 60, 0, 0, 0, 20))
    host = DcbxSettings(DRAFT, ets=EtsAdmin(GROUPS, willing=True))
    link, log = logged(("host", host), ("bridge", DcbxSettings(DRAFT, ets=EtsAdmin(GROUPS, recommend=shares))))
    _meet(link)
    return log


def defense() -> Log:
    """Return the log of two ends that defend until each receives that the other has the feature on."""
    host, bridge = (DcbxSettings(DRAFT, pfc=PfcAdmin(mask, defense=True), cn=CnAdmin(0x10)) for mask in (0x08, 0x18))
    link, log = logged(("host", host), ("bridge", bridge))
    _meet(link)
    return log


def write(folder: Path) -> None:
    for scenario in (symmetric, asymmetric, defense):
        own = folder / scenario.__name__
        own.mkdir(parents=True, exist_ok=True)
        (own / "dcbx.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in scenario()))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
