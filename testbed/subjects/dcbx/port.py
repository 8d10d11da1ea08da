"""DCBX on one port: LLDP in both directions, the negotiation between, and what comes out of it.

    port = DcbxPort(PortIdentity.of(mac, "s1-eth1"), DcbxSettings(pfc=PfcAdmin(mask([3]))))
    port.start(now)                      the link is up, and DCBX is wanted
    port.receive(frame, now)             each frame with EtherType 0x88CC, from the destination on
    port.expire(now)                     when `deadline_ns` has come; None: nothing is waited for
    port.configure(settings, now)        new settings, all at once, running or not
    port.link_down(now), port.stop(now)  carrier lost; DCBX no longer wanted
    port.forget(now)                     remove all neighbours; those present are found again
    port.take_frames(), port.take_events()   after each of these: what is to be sent, and what to act on

`state` has every feature as it is now, `counters` what was counted. A frame that repeats a neighbour's last one
costs a comparison, so an idle port costs its agent almost nothing. Changed frames are processed at the
rate of `testbed.subjects.dcbx.damping`.

When the peer expires, shuts down or is no longer alone, the state goes back to local settings at once (0104). Losing
the link removes the neighbours too: another device may come back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from testbed.errors import XoffError
from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.lldp import Lldpdu, LldpError, LldpFrame, parse
from testbed.frames.lldp_timers import LldpTimers
from testbed.frames.lldp_tlvs import Unknown
from testbed.subjects.dcbx.damping import Damping, FlapGuard
from testbed.subjects.dcbx.events import (
    CrowdChanged,
    Event,
    Loss,
    NeighbourFound,
    NeighbourLost,
    PeerChanged,
    VersionMismatch,
    changes,
)
from testbed.subjects.dcbx.negotiation import Peer, PortState, negotiate
from testbed.subjects.dcbx.neighbours import Neighbour, Neighbours, Reception
from testbed.subjects.dcbx.settings import DcbxSettings, PortIdentity
from testbed.subjects.dcbx.tlvs import DcbxTlvs, Reading, encode, read
from testbed.subjects.dcbx.transmit import Transmitter
from testbed.units import Scale


class DcbxPort:
    """See the module's docstring. All times are whole nanoseconds of one clock that never goes back."""

    def __init__(
        self,
        identity: PortIdentity,
        settings: DcbxSettings,
        timers: LldpTimers = LldpTimers(),
        scale: Scale = Scale(1),
    ) -> None:
        self._identity = identity
        self._settings = settings
        self._ttl = timers.ttl
        self._transmitter = Transmitter(timers, scale)
        self._neighbours = Neighbours(scale)
        self._now_ns = 0
        self._state = negotiate(settings, identity.mac, None, _NOT_RUNNING)
        self._told: PortState | None = None
        self._peer: Peer | None = None
        self._flap_guard = FlapGuard(identity.mac, scale)
        self._damping = Damping(scale)
        self._crowded = False
        self._mismatch = False
        self._frame: bytes | None = None  # what is sent, while that does not change
        self._frames: list[bytes] = []
        self._events: list[Event] = []
        self._counters: Counter[str] = Counter()

    @property
    def identity(self) -> PortIdentity:
        return self._identity

    @property
    def settings(self) -> DcbxSettings:
        return self._settings

    @property
    def state(self) -> PortState:
        return self._state

    @property
    def neighbours(self) -> tuple[Neighbour, ...]:
        return self._neighbours.all

    @property
    def is_crowded(self) -> bool:
        """True if more than one neighbour is on the link, those included that there was no room for."""
        return self._neighbours.are_too_many

    @property
    def counters(self) -> dict[str, int]:
        """The counters by name; what never happened is not there."""
        return dict(sorted(self._counters.items()))

    @property
    def is_running(self) -> bool:
        return self._transmitter.is_running

    @property
    def deadline_ns(self) -> int | None:
        """The time when `expire` has something to do, if no frame comes before; None if there is nothing to wait
        for.
        """
        parts = self._transmitter, self._neighbours, self._flap_guard, self._damping
        times = [part.deadline_ns() for part in parts]
        return min((time for time in times if time is not None), default=None)

    def take_frames(self) -> list[bytes]:
        """Return the frames to send now, in order, without FCS."""
        frames, self._frames = self._frames, []
        return frames

    def take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def start(self, now_ns: int) -> None:
        """Start DCBX; on a port that was stopped just now, when reinit_delay is over. A port that runs goes on."""
        self._advance(now_ns)
        if self.is_running:
            return
        self._transmitter.start(now_ns)
        self._told = None
        self._settle()

    def stop(self, now_ns: int) -> None:
        """Send a shutdown LLDPDU, and go back to local settings."""
        self._advance(now_ns)
        if self._transmitter.shut_down(now_ns):
            identity = self._identity
            goodbye = Lldpdu(identity.chassis_id, identity.port_id, 0)
            self._frames.append(LldpFrame(identity.mac, goodbye).encode())
            self._counters["frames_out"] += 1
        self._damping.forget()
        self._lose(self._neighbours.forget_all(), Loss.DISABLED)
        self._settle()

    def link_down(self, now_ns: int) -> None:
        """Stop, because the carrier is gone. Call `start` when it is back."""
        self._advance(now_ns)
        self._transmitter.stop()
        self._damping.forget()
        self._lose(self._neighbours.forget_all(), Loss.LINK)
        self._settle()

    def forget(self, now_ns: int) -> int:
        """Forget all neighbours, and return how many there were. Those that are on the link are found again."""
        self._advance(now_ns)
        self._damping.forget()
        forgotten = self._neighbours.forget_all()
        self._lose(forgotten, Loss.FORGOTTEN)
        self._settle()
        return len(forgotten)

    def configure(self, settings: DcbxSettings, now_ns: int) -> None:
        self._advance(now_ns)
        if settings.version is not self._settings.version:
            self._neighbours.read_again(settings.version)
        self._settings = settings
        self._flap_guard.clear()
        self._settle()

    def receive(self, octets: bytes, now_ns: int) -> None:
        """Process a received frame. What is wrong with it is counted, and no error is raised."""
        self._advance(now_ns)
        self._counters["frames_in"] += 1
        if not self.is_running:
            self._counters["refused.not_running"] += 1
            return
        self._take_in_what_was_held()
        neighbour = self._neighbours.repeats(octets, now_ns)
        if neighbour is None:
            self._read(octets)
        else:
            self._damping.drop(neighbour.identifier)
            self._count_flaws(neighbour.frame, neighbour.dcbx)

    def expire(self, now_ns: int) -> None:
        """Do what is due."""
        self._advance(now_ns)
        lost = self._neighbours.expire(now_ns)
        self._lose(lost, Loss.EXPIRED)
        silent = self._neighbours.thin_out(now_ns)
        self._lose(silent, Loss.SILENT)
        self._take_in_what_was_held()
        doubted_ns = self._flap_guard.deadline_ns()
        if lost or silent or self._crowded or (doubted_ns is not None and doubted_ns <= now_ns):
            self._settle()
        self._send()

    def _advance(self, now_ns: int) -> None:
        if now_ns < self._now_ns:
            raise XoffError(f"time went back from {self._now_ns} to {now_ns} ns; use a clock that does not")
        self._now_ns = now_ns

    def _read(self, octets: bytes) -> None:
        try:
            frame = parse(octets)
        except LldpError as error:
            self._counters[f"refused.{error.reason}"] += 1
            return
        pdu, identity = frame.pdu, self._identity
        if (pdu.chassis_id, pdu.port_id) == (identity.chassis_id, identity.port_id):
            self._counters["refused.own"] += 1  # a loop in the link, or two ports with one name
            return
        identifier = pdu.chassis_id, pdu.port_id
        if pdu.ttl == 0 and not self._neighbours.has(identifier):
            self._damping.drop(identifier)
            self._counters["refused.shutdown_of_stranger"] += 1
        elif self._damping.admits(self._now_ns):
            self._take_in(frame, octets)
        else:
            held = self._damping.hold(identifier, frame, octets)
            self._counters["held_back" if held else "refused.too_many_held"] += 1

    def _take_in_what_was_held(self) -> None:
        while held := self._damping.release(self._now_ns):
            self._take_in(*held)

    def _take_in(self, frame: LldpFrame, octets: bytes) -> None:
        """Process a frame that differs from the neighbour's last one."""
        pdu = frame.pdu
        reading = read(self._settings.version, pdu.tlvs)
        self._count_flaws(frame, reading)
        heard = self._neighbours.receive(frame, octets, reading, self._now_ns)
        if heard is Reception.NEW:
            self._counters["neighbours_found"] += 1
            self._events.append(NeighbourFound(self._now_ns, pdu.chassis_id, pdu.port_id, frame.source))
            self._transmitter.new_neighbour(self._now_ns)
        elif heard is Reception.GONE:
            self._counters[f"neighbours_lost.{Loss.SHUTDOWN.name.lower()}"] += 1
            self._events.append(NeighbourLost(self._now_ns, pdu.chassis_id, pdu.port_id, Loss.SHUTDOWN))
        elif heard is Reception.STRANGER_GONE:
            self._counters["refused.shutdown_of_stranger"] += 1
        elif heard is Reception.NO_ROOM:
            self._counters["refused.no_room"] += 1
        self._settle()

    def _count_flaws(self, frame: LldpFrame, reading: Reading) -> None:
        for flaw in (*frame.pdu.flaws, *reading.flaws):
            self._counters[f"tlv.{flaw.counter}"] += 1
        self._counters.update("unknown_tlvs" for tlv in frame.pdu.tlvs if isinstance(tlv, Unknown))
        if reading.mismatch:
            self._counters["version_mismatch"] += 1

    def _lose(self, neighbours: Iterable[Neighbour], why: Loss) -> None:
        for neighbour in neighbours:
            self._counters[f"neighbours_lost.{why.name.lower()}"] += 1
            self._events.append(NeighbourLost(self._now_ns, *neighbour.identifier, why))

    def _settle(self) -> None:
        """Negotiate again, and emit events and frames for what changed."""
        peer, absent, speaks = self._look()
        if peer is None:
            self._flap_guard.clear()
        state = negotiate(self._settings, self._identity.mac, peer, absent, self._flap_guard.pinned(self._now_ns))
        swapped = self._flap_guard.notice(self._state, state, peer.mac, self._now_ns) if peer else []
        if swapped:
            self._counters.update(f"swapped.{name}" for name in swapped)
            state = negotiate(self._settings, self._identity.mac, peer, absent, self._flap_guard.pinned(self._now_ns))
        crowded = self._neighbours.are_too_many
        if crowded != self._crowded:
            self._crowded = crowded
            self._events.append(CrowdChanged(self._now_ns, crowded, len(self._neighbours.all)))
        if (speaks is not None) != self._mismatch:
            self._mismatch = speaks is not None
            self._events.append(VersionMismatch(self._now_ns, speaks))
        if peer != self._peer:
            self._peer = peer
            tlvs = DcbxTlvs() if peer is None else peer.tlvs
            self._events.append(PeerChanged(self._now_ns, None if peer is None else peer.mac, tlvs))
        for name, feature in state.states.items():
            if feature.oper != self._state.states[name].oper:
                self._counters[f"oper_changes.{name}"] += 1
        if self._told is not None or self.is_running:
            self._events.extend(changes(self._told, state, self._now_ns))
            self._told = state
        if state.sent != self._state.sent:  # so it is after a change of format: no value fits both
            self._frame = None
            self._transmitter.local_change(self._now_ns)
        self._state = state
        self._send()

    def _look(self) -> tuple[Peer | None, str, DcbxVersion | None]:
        """Return the peer; else the reason why there is none, and the format that it speaks if that is the reason."""
        if not self.is_running:
            return None, _NOT_RUNNING, None
        if self._neighbours.are_too_many:
            known, some_unknown = len(self._neighbours.all), self._neighbours.some_unknown
            count = f"{max(2, known)} or more" if some_unknown else str(known)
            return None, f"DCBX is off, because {count} neighbours are on the link", None
        only = self._neighbours.only
        if only is None:
            return None, "no LLDPDU has been received", None
        if only.dcbx.mismatch:
            own = self._settings.version
            return None, f"the peer speaks the {own.other} format, and this port the {own} one", own.other
        return Peer(only.frame.source, only.dcbx.tlvs), "", None

    def _send(self) -> None:
        if not self._transmitter.frame_due(self._now_ns):
            return
        if self._frame is None:
            identity = self._identity
            tlvs = (*identity.tlvs, *encode(self._settings.version, self._state.sent))
            pdu = Lldpdu(identity.chassis_id, identity.port_id, self._ttl, tlvs)
            self._frame = LldpFrame(identity.mac, pdu).encode()
        self._frames.append(self._frame)
        self._counters["frames_out"] += 1


_NOT_RUNNING = "DCBX is not running on this port"
