"""What DCBX negotiates, given to a network card; and what of it stays words because there is nobody to do it."""

from __future__ import annotations

import errno
from collections.abc import Callable

from testbed.dcbx.negotiation import PortState
from testbed.errors import XoffError
from testbed.frames.dcbx.values import Selector
from testbed.linux.dcb import Ask, DcbCard, DcbError, NoDcb, in_classes
from testbed.linux.netlink import NetlinkError

_STILL = "what is negotiated is shown, and nobody carries it out"


class Card:
    """The card of one interface, or none. `report` is told once of each thing that cannot be done."""

    def __init__(self, interface: str, ask: Ask, report: Callable[[str], None]) -> None:
        self._report = report
        self._told: set[str] = set()
        self._card: DcbCard | None = None
        self._was_run = (False, False, False)
        self.refusals = 0
        self.summary = "carries out what is negotiated"
        try:
            self._card = DcbCard(interface, ask)
        except NoDcb as error:
            self.summary = f"{error}: {_STILL}"
        except NetlinkError as error:
            hint = ": programming a card needs CAP_NET_ADMIN" if error.code == errno.EPERM else ""
            self.summary = f"{error}{hint}; {_STILL}"
        except DcbError as error:
            self.summary = f"{error}; {_STILL}"
        if self._card is None:
            self._say(self.summary)

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
        """Leave the card as it was; whether there was anything to leave."""
        if self._card is None:
            return False
        self._try(self._card.restore)
        self._card = None
        return True

    def _try(self, change: Callable[[], None]) -> None:
        try:
            change()
        except XoffError as error:
            self.refusals += 1
            self._say(str(error))

    def _say(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._report(text)
