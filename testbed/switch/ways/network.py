"""The equal ways of all switches of a network, without a network: what `polarisation` and `path` look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from testbed.switch.ways.model import seed_of_switch, table
from testbed.switch.ways.settings import By, HashField, Ways


@dataclass(frozen=True)
class Way:
    """A port by which a switch reaches a station, and the node at the other end of its cable."""

    port: str
    neighbour: str
    weight: int = 1
    is_there: bool = True
    """False if the switch has left the way, because its port has no carrier."""


@dataclass(frozen=True)
class Switch:
    """A switch: its settings (None if the number of the host decides), its seed, and its ways to each station."""

    settings: Ways | None
    seed: int
    ways: Mapping[str, tuple[Way, ...]]
    reasons: Mapping[str, str] = field(default_factory=dict)
    """The reason in words for a single way to a station, where others are as short or the topology has chosen."""
    by_range: bool = False
    """True for a router: Linux divides its hashes into a range for each way, in place of taking them modulo a table."""

    @property
    def hashes(self) -> bool:
        """True if all frames of a flow hash to one way."""
        return self.settings is not None and self.settings.by in (By.HASH, By.RESILIENT)

    @property
    def key(self) -> tuple[HashField, int, bool]:
        """The inputs of a frame's hash: the fields, the seed, and whose hash it is."""
        assert self.settings is not None
        return self.settings.mask, self.seed, self.by_range

    def table(self, ways: Iterable[Way]) -> tuple[int, ...]:
        """Return the table in which the hash finds one of these ways."""
        assert self.settings is not None
        chosen = list(ways)
        return table(self.settings, [way.weight for way in chosen], [way.is_there for way in chosen])


def settings_in_force(settings: Ways | None) -> Ways | None:
    """Return the settings of a switch as they were given, or None if the number of the host decides."""
    return None if settings is None or settings.by is By.HOST_NUMBER else settings


def seed_in_force(settings: Ways | None, run_seed: int, switch: str) -> int:
    """Return the seed of a switch's hash: the given one, or the switch's own."""
    if settings is None or settings.seed is None:
        return seed_of_switch(run_seed, switch)
    return settings.seed


def switch_of(
    name: str,
    settings: Ways | None,
    run_seed: int,
    *,
    stations: Mapping[str, tuple[tuple[str, str], ...]],
    is_there: Callable[[str], bool] = lambda port: True,
    reasons: Mapping[str, str] = MappingProxyType({}),
) -> Switch:
    """Return a switch; `stations` has the ports and neighbours by which it reaches each."""
    settings = settings_in_force(settings)
    weights = settings.weights if settings is not None else {}
    return Switch(
        settings,
        seed_in_force(settings, run_seed, name),
        {
            station: tuple(Way(port, far, weights.get(far, 1), is_there(port)) for port, far in ways)
            for station, ways in stations.items()
        },
        reasons,
    )
