"""One interface of a stand-alone agent: its socket, its DCBX and its NIC, and what the link's changes do to them.

It may exist or not. The owner waits for its `fd` and its `deadline_ns`, and passes changes of links to it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import testbed
from testbed.errors import XoffError
from testbed.frames import Mac
from testbed.frames.lldp import ChassisId, PortId
from testbed.frames.lldp_tlvs import Capabilities, Capability, Text, TextKind
from testbed.linux.netlink import messages
from testbed.linux.netlink.link_state import Link
from testbed.linux.sockets.lldp_socket import LldpSocket
from testbed.subjects.dcbx import features, log_text, show
from testbed.subjects.dcbx.config import Config
from testbed.subjects.dcbx.daemon.log_file import LogFile
from testbed.subjects.dcbx.daemon.nic import Nic, SettingsStore
from testbed.subjects.dcbx.damping import TokenBucket
from testbed.subjects.dcbx.events import ApplicationsChanged, CnChanged, EtsChanged, PfcChanged
from testbed.subjects.dcbx.negotiation import warnings
from testbed.subjects.dcbx.port import DcbxPort
from testbed.subjects.dcbx.settings import PortIdentity
from testbed.units import NEVER

Tell = Callable[[str], None]
_SECOND = 10**9
_FOR_THE_NIC = (PfcChanged, EtsChanged, ApplicationsChanged, CnChanged)
_NIC = "card"
_MOST_LINES, _MOST_FRAMES = 30, 1000
"""The lines that are printed at once, and one more each second; the frames that are logged at once, and a hundred a
second."""


class AgentError(XoffError):
    """A machine that does not let an agent run."""

    exit_code = 3


class AgentInterface:
    """One interface of an agent, there or not."""

    def __init__(
        self,
        link: Link,
        config: Config,
        ask: messages.Socket,
        tell: Tell,
        log: LogFile | None,
        *,
        store: SettingsStore | None = None,
    ) -> None:
        self.name = link.name
        self._config = config
        self._netlink = ask
        self._tell = tell
        self._log = log
        self._store = store
        self._link = link
        self._counters = {"send_failed": 0, "tagged": 0, "log_left_out": 0, "log_lost": 0, "lines_left_out": 0}
        self._lines, self._frames = TokenBucket(_MOST_LINES, _SECOND), TokenBucket(_MOST_FRAMES, _SECOND // 100)
        self._lines_left_out = 0
        self._now_ns = 0
        self._said: dict[str, str] = {}
        self._warnings: list[str] = []
        self._nic: Nic | None = None
        self._appear(link)
        if not link.is_up:
            self._say(f"it is down, and waited for; `ip link set {self.name} up` sets it up")
        elif not link.has_carrier:
            self._say("it has no carrier, which is waited for")
        self._look_for_warnings()

    def _appear(self, link: Link) -> None:
        """Open the socket of an interface that is there, and find its NIC unless it is the same interface as before."""
        assert link.mac is not None  # an Ethernet interface has one
        self._socket: LldpSocket | None = open_socket(link.name)
        self.socket_is_new = True  # it may have the number of one that was closed
        self._link = link
        if self._nic is None:
            say = partial(self._say_once, _NIC)
            self._nic = Nic(link.name, self._netlink.ask, say, self._store, link.index)
        self._dcbx = DcbxPort(_identity(link.mac, link.name), self._config.settings, self._config.timers)

    @property
    def fd(self) -> int | None:
        """The descriptor of the socket, or None if the interface is not there."""
        return self._socket.fd if self._socket else None

    @property
    def deadline_ns(self) -> int:
        deadline = self._dcbx.deadline_ns
        return NEVER if deadline is None else deadline

    @property
    def dcbx(self) -> DcbxPort:
        return self._dcbx

    def start(self, now_ns: int) -> None:
        """Start DCBX if the link is up."""
        if self._link.can_talk and not self._dcbx.is_running:
            self._dcbx.start(now_ns)
            self._carry_out(now_ns)

    def link_changed(self, link: Link, now_ns: int) -> None:
        """Process a message about an interface that has this one's name or index."""
        self._now_ns = now_ns
        if not link.exists or link.name != self.name:
            if link.index == self._link.index:
                self.vanished(now_ns)
            return
        if self._socket and link.mac is not None and link.mac != self._dcbx.identity.mac:
            self._shut_down(now_ns)  # as the neighbour that the peer has
            self._socket.close()
            self._socket = None
            self._say(f"its address is {link.mac} now; a shutdown frame ended the one before")
        if self._socket is None:
            was_there = self._link.exists
            try:
                self._appear(link)
            except AgentError as error:
                self._say(f"{error}; the interface is waited for")
                return
            if not was_there:
                self._say("it is there again")
        talked, self._link = self._link.can_talk, link
        if self._dcbx.is_running and not link.can_talk:
            self._dcbx.link_down(now_ns)
            self._carry_out(now_ns)
            self._say("the carrier is gone" if link.is_up else "it was set down")
        elif link.can_talk and not self._dcbx.is_running:
            if not talked:
                self._say("the carrier is there")
            self.start(now_ns)

    def configure(self, config: Config, now_ns: int) -> None:
        self._config = Config(config.settings, self._config.timers)
        self._dcbx.configure(config.settings, now_ns)
        self._carry_out(now_ns)
        self._look_for_warnings()

    def receive(self, now_ns: int) -> None:
        """Process the frames that are there."""
        if self._socket is None:
            return
        for frame in self._socket.receive():
            self._log_frame(frame, "received", now_ns)
            self._dcbx.receive(frame, now_ns)
            self._carry_out(now_ns)

    def expire(self, now_ns: int) -> None:
        self._dcbx.expire(now_ns)
        self._carry_out(now_ns)

    def forget(self, now_ns: int) -> int:
        """Forget all neighbours, and return how many there were."""
        forgotten = self._dcbx.forget(now_ns)
        self._carry_out(now_ns)
        return forgotten

    def stop(self, now_ns: int) -> None:
        """Send a shutdown LLDPDU, and restore the NIC."""
        was_running = self._dcbx.is_running
        self._shut_down(now_ns)
        restored = self._nic is not None and self._nic.restore()
        self._nic = None
        peer = "; a shutdown frame was sent to the peer" * was_running
        self._say(f"ended{peer}{'; the NIC is restored' * restored}")

    def close(self) -> None:
        if self._socket:
            self._socket.close()
            self._socket = None

    def snapshot(self) -> dict[str, Any]:
        """Return the state for queries: that of DCBX, and what the agent adds."""
        state = show.snapshot(self._dcbx)
        if self._socket:
            self._counters["tagged"] = self._socket.tagged
        if self._log:
            self._counters["log_lost"] = self._log.lost
        counted = {name: count for name, count in self._counters.items() if count}
        state["counters"] = {**state["counters"], **counted}
        link = "up" if self._link.can_talk else "no carrier" if self._link.is_up else "down"
        card = "there is no NIC" if self._nic is None else self._nic.summary
        return {
            "link": link if self._link.exists else "gone",
            "card": card,
            "warnings": self._warnings,
            **state,
        }

    def vanished(self, now_ns: int) -> None:
        """Note that the interface was removed."""
        if not self._link.exists:
            return
        self._now_ns = now_ns
        self._link = Link(self._link.index, self.name, None, False, False, False, True, exists=False)
        self._dcbx.link_down(now_ns)
        self._carry_out(now_ns)
        self.close()
        self._nic = None
        self._say("it is gone; an interface of that name is waited for")

    def _shut_down(self, now_ns: int) -> None:
        self._dcbx.stop(now_ns)
        self._carry_out(now_ns, tell=False)

    def _carry_out(self, now_ns: int, tell: bool = True) -> None:
        self._now_ns = now_ns
        for frame in self._dcbx.take_frames():
            self._send(frame, now_ns)
        events = self._dcbx.take_events()
        if self._nic and self._link.exists and tell and any(isinstance(event, _FOR_THE_NIC) for event in events):
            self._nic.apply(self._dcbx.state)
        for event in events:
            record = show.record(event)
            self._write(record)
            if tell and (text := log_text.sentence(record)):
                self._say_once(record["what"], text)
        if events:
            self._look_for_warnings(tell)

    def _look_for_warnings(self, tell: bool = True) -> None:
        before, self._warnings = self._warnings, warnings(self._dcbx.settings, self._dcbx.state)
        for text in self._warnings:
            if tell and text not in before:
                self._say(f"warning: {text}")

    def _send(self, frame: bytes, now_ns: int) -> None:
        if self._socket is None:
            return
        try:
            self._socket.send(frame)
        except OSError:  # the link has just gone, of which a message follows, or there is no room
            self._counters["send_failed"] += 1
            return
        self._log_frame(frame, "sent", now_ns)

    def _say_once(self, kind: str, text: str) -> None:
        """Say a text, but not a value again: its event also comes when only the peer's side of it changes."""
        is_value = kind == _NIC or features.of_event(kind) is not None
        if not is_value or self._said.get(kind) != text:
            self._said[kind] = text
            self._say(text)

    def _say(self, text: str) -> None:
        """Print a line for people; not more of them than they can read."""
        if not self._lines.spend(self._now_ns):
            self._lines_left_out += 1
            self._counters["lines_left_out"] += 1
            return
        missing = f" ({self._lines_left_out} lines before this one were left out)" if self._lines_left_out else ""
        self._lines_left_out = 0
        self._tell(f"{text}{missing}")

    def _log_frame(self, frame: bytes, direction: show.Direction, now_ns: int) -> None:
        if self._log is None:
            return
        if self._frames.spend(now_ns):
            self._write(show.frame_record(frame, self._dcbx.settings.version, direction, now_ns))
        else:
            self._counters["log_left_out"] += 1

    def _write(self, record: dict[str, Any]) -> None:
        if self._log:
            self._log.write({"port": self.name, **record})


def open_socket(name: str) -> LldpSocket:
    try:
        return LldpSocket(name)
    except PermissionError:
        raise AgentError(f"sending and receiving LLDP on {name} needs CAP_NET_RAW; run this as root") from None
    except OSError as error:
        raise AgentError(f"no socket for LLDP on {name}: {error.strerror or error}") from None


def _identity(mac: Mac, name: str) -> PortIdentity:
    is_station = int(Capability.STATION)
    tlvs = (
        Text(TextKind.SYSTEM_NAME, socket.gethostname().encode()[:255]),
        Text(TextKind.SYSTEM_DESCRIPTION, f"Xoff {testbed.__version__} on {os.uname().sysname}".encode()),
        Capabilities(is_station, is_station),
    )
    return PortIdentity(mac, ChassisId.of_mac(mac), PortId.interface(name), tlvs)
