"""A NIC as a product: its settings that are public, and what they are in a flow."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from testbed.roce.nic import Nic
from testbed.roce.settings import Settings


@dataclass(frozen=True)
class Known:
    """A setting of a product that is public."""

    setting: str
    """Its name in `Nic` or in `Settings`, or `cnp_priority`, `cnp_dscp`, `rate_control`."""
    value: Any
    source: str
    """A key of `testbed.roce.products.table.SOURCES`."""


@dataclass(frozen=True)
class NicModel:
    """A product, with what is public of it."""

    name: str
    title: str
    known: tuple[Known, ...]
    remarks: tuple[str, ...] = ()
    """What else is public, and why the set has it not; whole sentences."""

    def nic(self, operation: str) -> Nic:
        """Return the NIC of a flow: one with the settings that its operation uses."""
        of_reads = ("reads",) if operation in ("write", "send") else ()
        return Nic(**{name: value for name, value in self._of(Nic).items() if name not in of_reads})

    def settings(self, given: Settings) -> Settings:
        """Return these settings with those of the product in place of each that has its default."""
        defaults = Settings()
        return replace(given, **{
            name: value for name, value in self._of(Settings).items() if getattr(given, name) == getattr(defaults, name)
        })  # fmt: skip

    def of_flow(self, setting: str) -> Any:
        """Return `cnp_priority`, `cnp_dscp` or `rate_control`, or None if the product's is not public."""
        return next((one.value for one in self.known if one.setting == setting), None)

    def by_source(self) -> dict[str, list[Known]]:
        """Return the settings by the key of their source."""
        found: dict[str, list[Known]] = {}
        for one in self.known:
            found.setdefault(one.source, []).append(one)
        return found

    def _of(self, kind: type[Nic] | type[Settings]) -> dict[str, Any]:
        names = {one.name for one in fields(kind)}
        return {one.setting: one.value for one in self.known if one.setting in names}
