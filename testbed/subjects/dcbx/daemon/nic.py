"""The negotiated settings on a NIC, and messages about what the NIC does not support.

The NIC is left as it was found. Its settings are saved outside of the process (`SettingsStore`), so that the agent
after one that was killed can restore them.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Protocol

from testbed.errors import XoffError
from testbed.frames.dcbx.values import Selector
from testbed.linux.netlink.dcb import Ask, DcbError, DcbNic, NoDcb, SavedSettings, in_classes
from testbed.linux.netlink.messages import NetlinkError
from testbed.subjects.dcbx.negotiation import PortState

_STILL = "negotiated settings are shown but not applied"


class SettingsStore(Protocol):
    """A store for the original settings of a NIC; `index` is the interface's. XoffError on failure."""

    def read(self, index: int) -> SavedSettings | None: ...
    def write(self, index: int, found: SavedSettings) -> None: ...
    def clear(self) -> None: ...


class Nic:
    """The NIC of one interface, with or without DCB. `tell` is called once for each setting that is not applied."""

    def __init__(
        self,
        interface: str,
        ask: Ask,
        tell: Callable[[str], None],
        store: SettingsStore | None = None,
        index: int = 0,
    ) -> None:
        self._tell = tell
        self._store, self._index = store, index
        self._reported: set[str] = set()
        self._nic: DcbNic | None = None
        self._was_run = (False, False, False)
        self.refusals = 0
        self.summary = "applies what is negotiated"
        found = self._saved()
        try:
            self._nic = DcbNic(interface, ask, found, self._keep)
        except NoDcb as error:
            self.summary = f"{error}: {_STILL}"
            self._forget()
        except NetlinkError as error:
            hint = ": programming a NIC needs CAP_NET_ADMIN" if error.code == errno.EPERM else ""
            self.summary = f"{error}{hint}; {_STILL}"
        except DcbError as error:
            self.summary = f"{error}; {_STILL}"
        if self._nic is None:
            self._say(self.summary)
        elif found is not None:
            self._say("an agent that was killed had changed the NIC; its original settings are restored")

    def apply(self, state: PortState) -> None:
        """Apply the operational settings. A feature that DCBX does not run keeps its original setting."""
        nic = self._nic
        if nic is None:
            return
        ets, pfc, applications = state.ets.oper, state.pfc.oper, state.applications.oper
        is_run = (ets is not None, pfc is not None, applications is not None)
        if is_run[0] or self._was_run[0]:
            table = ets and in_classes(ets)
            if ets and table is None:
                self._say("ETS is not applied to the NIC: it has no class left for strict priorities or AVB")
            else:
                self._try(lambda: nic.set_ets(table))
        if is_run[1] or self._was_run[1]:
            self._try(lambda: nic.set_pfc(pfc))
        if is_run[2] or self._was_run[2]:
            entries = applications or ()
            if any(entry.selector is Selector.OTHER_PORT for entry in entries):
                self._say(
                    "application entries for protocols beside TCP and UDP are not applied: NICs have no such setting"
                )
            self._try(lambda: nic.set_applications(entries))
        self._was_run = is_run
        defended = (state.pfc.defended or 0) | (state.cn.defended or 0)
        if defended:
            self._say("defenses are announced but not applied: NICs have no setting for them")
        if (state.pfc.held or 0) | (state.cn.held or 0):
            self._say("hold is not applied: NICs have no setting that stops a priority")
        if state.traffic_classes.buffered is not None:
            self._say("buffer_by_classes is not applied: what a NIC reserves is its driver's")

    def restore(self) -> bool:
        """Restore the original settings, and return True if that succeeded."""
        if self._nic is None:
            return False
        restored = self._try(self._nic.restore)
        self._nic = None
        if restored:
            self._forget()
        return restored

    def _saved(self) -> SavedSettings | None:
        """Return the original settings that an agent saved before it was killed, or None."""
        if self._store is None:
            return None
        try:
            return self._store.read(self._index)
        except XoffError as error:
            self._say(f"the original settings of the NIC, saved by an agent that was killed, cannot be read: {error}")
            return None

    def _keep(self, found: SavedSettings) -> None:
        if self._store is None:
            return
        try:
            self._store.write(self._index, found)
        except XoffError as error:
            self._say(
                f"the original settings of the NIC cannot be saved, so they are not restored after a kill: {error}"
            )

    def _forget(self) -> None:
        if self._store is not None:
            self._store.clear()

    def _try(self, change: Callable[[], None]) -> bool:
        try:
            change()
        except XoffError as error:
            self.refusals += 1
            self._say(str(error))
            return False
        return True

    def _say(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self._tell(text)
