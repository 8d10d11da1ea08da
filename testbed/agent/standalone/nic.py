"""What DCBX negotiates, given to a network card; and what of it is only shown, because the card cannot do it.

The NIC is left as it was found. Its settings are saved outside of the process (`SettingsStore`), so that the agent
after one that was killed can restore them.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Protocol

from testbed.dcbx.negotiation import PortState
from testbed.errors import XoffError
from testbed.frames.dcbx.values import Selector
from testbed.linux.dcb import Ask, DcbError, DcbNic, NoDcb, SavedSettings, in_classes
from testbed.linux.netlink import NetlinkError

_STILL = "what is negotiated is shown, and nobody carries it out"


class SettingsStore(Protocol):
    """Keeps what a card was set to; `index` is the interface's. XoffError for what cannot be done."""

    def read(self, index: int) -> SavedSettings | None: ...
    def write(self, index: int, found: SavedSettings) -> None: ...
    def clear(self) -> None: ...


class Nic:
    """The card of one interface, or none. `report` is called once for each thing that cannot be done."""

    def __init__(
        self,
        interface: str,
        ask: Ask,
        report: Callable[[str], None],
        keeper: SettingsStore | None = None,
        index: int = 0,
    ) -> None:
        self._report = report
        self._keeper, self._index = keeper, index
        self._told: set[str] = set()
        self._card: DcbNic | None = None
        self._was_run = (False, False, False)
        self.refusals = 0
        self.summary = "carries out what is negotiated"
        found = self._left()
        try:
            self._card = DcbNic(interface, ask, found, self._keep)
        except NoDcb as error:
            self.summary = f"{error}: {_STILL}"
            self._forget()
        except NetlinkError as error:
            hint = ": programming a card needs CAP_NET_ADMIN" if error.code == errno.EPERM else ""
            self.summary = f"{error}{hint}; {_STILL}"
        except DcbError as error:
            self.summary = f"{error}; {_STILL}"
        if self._card is None:
            self._say(self.summary)
        elif found is not None:
            self._say("an agent that was killed had changed the card: it is as that agent had found it")

    def apply(self, state: PortState) -> None:
        """Make the card do what is operational. A feature that is not run is as it was before us."""
        card = self._card
        if card is None:
            return
        ets, pfc, applications = state.ets.oper, state.pfc.oper, state.applications.oper
        is_run = (ets is not None, pfc is not None, applications is not None)
        if is_run[0] or self._was_run[0]:
            table = ets and in_classes(ets)
            if ets and table is None:
                self._say("ETS is not given to the card: it has no class left for strict priorities or AVB")
            else:
                self._try(lambda: card.set_ets(table))
        if is_run[1] or self._was_run[1]:
            self._try(lambda: card.set_pfc(pfc))
        if is_run[2] or self._was_run[2]:
            entries = applications or ()
            if any(entry.selector is Selector.OTHER_PORT for entry in entries):
                self._say("applications of neither TCP nor UDP are not given to the card, which has no word for them")
            self._try(lambda: card.set_applications(entries))
        self._was_run = is_run
        defended = (state.pfc.defended or 0) | (state.cn.defended or 0)
        if defended:
            self._say("defenses are announced and not carried out: a card has no setting for them")

    def restore(self) -> bool:
        """Leave the card as it was; whether that was done."""
        if self._card is None:
            return False
        restored = self._try(self._card.restore)
        self._card = None
        if restored:
            self._forget()
        return restored

    def _left(self) -> SavedSettings | None:
        """What an agent that was killed had found."""
        if self._keeper is None:
            return None
        try:
            return self._keeper.read(self._index)
        except XoffError as error:
            self._say(f"what an agent that was killed had found on the card is not known: {error}")
            return None

    def _keep(self, found: SavedSettings) -> None:
        if self._keeper is None:
            return
        try:
            self._keeper.write(self._index, found)
        except XoffError as error:
            self._say(f"what the card is set to cannot be kept, and a kill leaves it as it is then: {error}")

    def _forget(self) -> None:
        if self._keeper is not None:
            self._keeper.clear()

    def _try(self, change: Callable[[], None]) -> bool:
        try:
            change()
        except XoffError as error:
            self.refusals += 1
            self._say(str(error))
            return False
        return True

    def _say(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._report(text)
