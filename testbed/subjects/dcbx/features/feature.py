"""The base class of DCBX's features, and what a feature works with.

A feature is one class in one file: the layouts of its TLV in both formats, its settings and their section in the
configuration file, how it is negotiated, its event, and its words in tables, logs and ladder diagrams. Everything else
in `testbed.subjects.dcbx` goes through all features of the registry (`testbed.subjects.dcbx.features`) and knows none
by name. So a new TLV is a new file here, and its line in the registry.

`A` is the type of a feature's settings, `V` that of the value that is negotiated, `C` that of the TLV's content.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from testbed.errors import UsageError
from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.dcbx.values import priorities as in_mask
from testbed.strict.tables import TomlTable
from testbed.subjects.dcbx.features.codec import Codec, Contents, layouts
from testbed.subjects.dcbx.machines import Outcome, TieBreak, symmetric

A = TypeVar("A")
V = TypeVar("V")
C = TypeVar("C")
T = TypeVar("T")

Data = Mapping[str, Any]
"""Plain data, as JSON can carry it."""


class DcbxSettingsError(UsageError):
    """Settings that contradict themselves or the format."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened on a port."""

    at_ns: int


@dataclass(frozen=True)
class CommonSettings:
    """The settings of a port that concern all features, and those of each feature by its name."""

    version: DcbxVersion = DcbxVersion.PUBLISHED
    tie_break: TieBreak | None = None
    """The tie-break between two willing ports, or None for the version's default, see `breaks_tie_by`."""
    traffic_classes: int = 8
    buffer_by_classes: bool = field(default=False, kw_only=True)
    """True if this port's buffer is sized for as many traffic classes as the peer has (decision 0377)."""
    more: Mapping[str, Any] = field(default_factory=dict, hash=False, kw_only=True)
    """The settings of features that have no field of their own, by the feature's name."""

    @property
    def is_draft(self) -> bool:
        return self.version is DcbxVersion.DRAFT

    @property
    def breaks_tie_by(self) -> TieBreak:
        return self.tie_break or (TieBreak.NONE if self.is_draft else TieBreak.HIGHER)

    def get(self, name: str) -> Any:
        """Return the settings of a feature, or None if it is not run."""
        return self.more[name] if name in self.more else getattr(self, name, None)


@dataclass(frozen=True, slots=True)
class FeatureState(Generic[V]):
    """The state of a feature on a port, a row of what a user is shown.

    None stands for what is not run on this port, not known of the peer, or not in this format.
    """

    admin: V | None
    oper: V | None
    remote: V | None
    why: str
    """The reason why `oper` has its value."""
    willing: bool | None = None
    remote_willing: bool | None = None
    pending: bool = False
    defended: int | None = None
    """The priorities on which this port's defenses are on, as a mask."""
    remote_defended: int | None = None
    """The priorities on which the peer's defenses are on, by its DefOn or Ready; it discards frames on these."""
    held: int | None = None
    """The priorities on which this port sends nothing because of that, as a mask; None if it does not wait for it."""
    buffered: int | None = None
    """The number of the peer's traffic classes that this port's buffer is sized for; None for any number."""


class View:
    """The variables of the state machines: one port's settings, and what its peer has announced."""

    def __init__(
        self,
        settings: CommonSettings,
        peer: Contents | None,
        wins: bool | None,
        absent: str,
        pinned: Mapping[str, object],
    ) -> None:
        self.settings = settings
        self.peer = peer
        """The contents of the peer's TLVs, or None if there is no peer."""
        self._wins = wins
        self._absent = absent
        self._pinned = pinned

    def remote(self, name: str) -> Any:
        """Return the content of the peer's TLV of a feature, or None if there is none."""
        return None if self.peer is None else self.peer.get(name)

    def lacking(self, tlv: str) -> str:
        """Return the reason why a TLV of the peer is not known."""
        return self._absent if self.peer is None else f"the peer sends no {tlv} that counts"

    def pass_symmetrically(
        self, feature: Feature[Any, T, Any], admin: T, remote: T | None, willing: bool, remote_willing: bool | None
    ) -> Outcome[T]:
        """Ask the symmetric machine for a feature's operational value."""
        return symmetric(
            admin,
            remote,
            local_willing=willing,
            remote_willing=remote_willing,
            wins=self._wins,
            absent=self.lacking(feature.tlv),
            pinned=self._pinned.get(feature.name),  # type: ignore[arg-type]
        )


class Feature(ABC, Generic[A, V, C]):
    """A DCBX feature. The methods that are not abstract are for features that have more to say."""

    name: ClassVar[str]
    """The key of the feature in settings, states and logs."""
    head: ClassVar[str]
    """The name of the feature in tables and diagrams."""
    tlv: ClassVar[str]
    """The name of the TLV in messages."""
    event_type: ClassVar[type[Event] | None] = None
    """The class of the feature's events, or None if it has none."""
    event_field: ClassVar[str] = ""
    """The field of `event_data` with the operational value, or "" if there is none."""
    is_symmetric: ClassVar[bool] = False
    """True if the symmetric machine decides the feature's value in one of the formats, at least."""
    codecs: ClassVar[Mapping[DcbxVersion, Codec[Any]]] = layouts()
    """The layout of the TLV in each format that has it."""

    # Settings

    def admin(self, settings: CommonSettings) -> A | None:
        """Return the feature's settings, or None if it is not run."""
        found: A | None = settings.get(self.name)
        return found

    def check(self, admin: A, settings: CommonSettings) -> None:
        """Raise DcbxSettingsError for settings that do not go with the others, or with the format."""

    def read_settings(self, top: TomlTable, version: DcbxVersion) -> A | None:
        """Read the feature's section of a configuration file; return None if there is none."""
        return None

    def settings_lines(self, admin: A) -> list[str]:
        """Return the feature's section of a configuration file: the opposite of `read_settings`."""
        return []

    def warnings(self, settings: CommonSettings, states: Mapping[str, FeatureState[Any]]) -> Iterator[str]:
        """Yield warnings about settings and operation that are legal, but probably not intended."""
        return iter(())

    # Negotiation

    @abstractmethod
    def negotiate(self, view: View) -> FeatureState[V]:
        """Compute the feature's state. Equal arguments give equal states."""

    def sent(self, settings: CommonSettings, state: FeatureState[V]) -> C | None:
        """Return the content of the TLV that announces a state, or None if none is sent."""
        return None

    # Events

    def event(self, at_ns: int, state: FeatureState[V]) -> Event | None:
        """Return the event that has a state applied to the port, or None if there is nothing to apply."""
        return None

    def facts(self, state: FeatureState[V]) -> object:
        """Return the part of a state whose change makes a new event necessary."""
        seen = state.defended, state.remote, state.remote_defended
        return state.oper, *seen, state.held, state.buffered

    def event_data(self, event: Any) -> dict[str, Any]:
        """Return the fields of the feature's event as plain data, without its time."""
        return {}

    # Plain data

    @abstractmethod
    def value_data(self, value: V) -> Any:
        """Return an administrative, operational or remote value as plain data."""

    def tlv_data(self, content: C) -> Any:
        """Return the content of a TLV as plain data."""
        raise NotImplementedError(f"{self.name} has no TLV of its own")

    def port_data(self, settings: CommonSettings, peer: Contents | None) -> dict[str, Any]:
        """Return what a port's snapshot has of the feature beside its state."""
        return {}

    # Words, made from plain data

    def text(self, data: Any) -> str:
        """Return a value in a few characters, or "-" if it is not run, not known or not announced."""
        return "-" if data is None else self.value_text(data)

    @abstractmethod
    def value_text(self, data: Any) -> str:
        """Return a value in a few characters."""

    def tlv_text(self, data: Any, version: str) -> str:
        """Return the content of a TLV as a ladder diagram has it."""
        raise NotImplementedError(f"{self.name} has no TLV of its own")

    def event_text(self, line: Data, before: Data) -> list[str]:
        """Return what is new in an event for a ladder diagram. `before` is the previous event, or empty."""
        return []

    def sentence(self, line: Data) -> str | None:
        """Return an event as a line for a terminal, or None if it is not worth one."""
        return None

    def notes(self, state: Data) -> list[str]:
        """Return what is noted below a table about a feature's state."""
        return []

    def details(self, port: Data) -> list[str]:
        """Return lines about what `port_data` has put into a snapshot."""
        return []

    def legend(self, data: Any) -> str | None:
        """Return the legend that a reader of this value or TLV needs, or None."""
        return None


def priority_list(mask: int | None) -> list[int] | None:
    """Return a set of priorities as plain data."""
    return None if mask is None else list(in_mask(mask))


def elected(**chosen: Any) -> dict[str, Any]:
    """Return the values that are not None: a port has them only for behaviour that it is set to."""
    return {name: value for name, value in chosen.items() if value is not None}


def priorities_text(numbers: Sequence[int] | None) -> str:
    """Return a set of priorities as text: "-" if it is not known or not announced, "none" if it is empty."""
    return "-" if numbers is None else ",".join(map(str, numbers)) or "none"


def willing_text(tlv: Data) -> str:
    """Return the W bit of a TLV, to be appended to its value."""
    return ", willing" if tlv["willing"] else ", not willing"
