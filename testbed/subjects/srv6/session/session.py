"""The session between a router's agent and the controller: authentication, integrity and liveness.

Sans-I/O: octets and `now_ns` in; octets, events and the next deadline out. Both roles are one class. The meaning of
messages is in `messages`; here they are JSON objects that pass through.

    frame      length (4 octets), then as many octets: first a hello, and from then on secured frames
    hello      JSON: protocol, versions, role, name, nonce (32 octets, as hexadecimal)
    secured    sequence (8 octets), MAC (32 octets), message (JSON)

Both sides send a hello at once. The version is the highest that both have. The agent's name is that of the key: each
router shares one of its own with the controller. Each direction has a key derived from that and both hellos (`hello`).
The MAC of a frame is HMAC-SHA-256 with that key over its sequence number and message. The shared key is never sent; a
frame of another session or direction, or one that was changed, repeated, left out or reordered, does not authenticate.
The first secured frame of each side, which is sent as soon as the hellos are there, proves that it has the key; the
session is open when the peer's has come. Messages are authentic and in order, and not encrypted.

Anything else ends the session, with a reason that is counted. The reason is sent to the peer: in a secured message, or,
before the session is open, in a refusal in the clear, which the peer takes as the end and nothing more. Each side sends
a keepalive when it has sent nothing for a time, and ends the session when the peer has sent nothing for a longer time.
Hellos, and all frames until the peer has proved that it has the key, are limited in length and in time, so an
unauthenticated peer cannot fill memory.

The caller supplies the nonce: fresh, unpredictable octets for every session.
"""

from __future__ import annotations

import enum
import hmac
import json
import struct
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from testbed.errors import XoffError
from testbed.subjects.srv6.protocol.domain import RouterName, Srv6Error
from testbed.subjects.srv6.session.messages import (
    HASH,
    LENGTH,
    NONCE_OCTETS,
    PROTOCOL,
    SHORTEST_KEY,
    VERSIONS,
    Hello,
    Role,
    direction_keys,
)
from testbed.typed_json.codec import CODEC
from testbed.typed_json.text import InvalidError, read

_SEQUENCE = struct.Struct("!Q")
_MAC_OCTETS = 32
_SECURED_HEAD = _SEQUENCE.size + _MAC_OCTETS
_LONGEST_HELLO = 1024
"""The longest frame of a peer that has not proved yet that it has the key."""
_LONGEST_TEXT = 300

_KEEPALIVE, _BYE = "keepalive", "bye"


class End(enum.StrEnum):
    """The reason why a session is over. The values are names of counters."""

    CLOSED = "closed"  # by us
    BYE = "bye"  # by the peer, in order
    REFUSED = "refused"  # by the peer, before the session was open
    DISCONNECTED = "disconnected"  # the connection is gone
    TIMEOUT = "timeout"  # the peer is silent
    TOO_LONG = "too_long"
    TOO_SHORT = "too_short"
    BAD_HELLO = "bad_hello"
    NO_VERSION = "no_version"  # that both have
    WRONG_ROLE = "wrong_role"
    REFLECTED = "reflected"  # our own hello comes back
    UNKNOWN = "unknown"  # no key is configured for a peer of this name
    NOT_AUTHENTIC = "not_authentic"
    SEQUENCE = "sequence"  # authentic, but repeated, left out or moved
    MALFORMED = "malformed"  # authentic, and not a valid message
    REPLACED = "replaced"  # the same peer has a newer session
    CROWDED = "crowded"  # not authenticated when others connected
    REMOVED = "removed"  # an operator has removed the peer, or its key
    DEFECT = "defect"  # of this program, triggered by what the peer sent


class SessionError(XoffError):
    """The error of a message that cannot be sent in this session."""


@dataclass(frozen=True)
class Opened:
    """The event that the peer has authenticated."""

    peer: str
    version: int


@dataclass(frozen=True)
class Received:
    message: dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """The last event. Octets that `data_to_send` still has should be sent before the connection is closed."""

    reason: End
    text: str


Event = Opened | Received | Ended


@dataclass(frozen=True)
class SessionSettings:
    """The times of a session, and the longest message."""

    keepalive_ns: int = 1_000_000_000
    timeout_ns: int = 4_000_000_000
    hello_ns: int = 4_000_000_000  # until the session is open
    longest_message: int = 4 << 20

    def __post_init__(self) -> None:
        for name in ("keepalive_ns", "timeout_ns", "hello_ns", "longest_message"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise Srv6Error(f"{name} is {value!r}; it must be an integer above 0")
        if self.timeout_ns < 2 * self.keepalive_ns:
            raise Srv6Error(
                f"a timeout of {self.timeout_ns} ns ends a session when one keepalive is late, of one every "
                f"{self.keepalive_ns} ns; make it at least twice that"
            )


class Session:
    """One side of one session, over one connection that has just been made."""

    def __init__(
        self,
        role: Role,
        name: str,
        key: bytes | Callable[[str], bytes | None],
        nonce: bytes,
        now_ns: int,
        *,
        settings: SessionSettings = SessionSettings(),
        versions: tuple[int, ...] = VERSIONS,
    ) -> None:
        """`key` is shared with the peer, or returns the key for the name in the peer's hello, or None for no
        such peer.
        """
        CODEC.decode(RouterName, name, "name")
        if isinstance(key, bytes) and len(key) < SHORTEST_KEY:
            raise Srv6Error(f"the shared key has {len(key)} octets; it needs at least {SHORTEST_KEY}")
        if len(nonce) != NONCE_OCTETS:
            raise Srv6Error(f"the nonce has {len(nonce)} octets; it must be {NONCE_OCTETS} fresh ones for each session")
        self.role = role
        self.name = name
        self.peer: str | None = None
        self.version: int | None = None
        self.is_open = False
        self.end: Ended | None = None
        self.counters: Counter[str] = Counter()
        self._key_for = key
        self._settings = settings
        self._versions = versions
        self._inbox = bytearray()
        self._outbox = bytearray()
        self._keys: dict[Role, bytes] | None = None  # by the sender
        self._sent, self._received = 0, 0  # secured frames
        self._received_ns = self._sent_ns = self._started_ns = now_ns
        self._hello = Hello(PROTOCOL, versions, role, name, nonce.hex()).encode()
        self._put(self._hello)

    # For the caller

    def receive(self, data: bytes, now_ns: int, most_frames: int | None = None) -> list[Event]:
        """Process received octets. After the end they are dropped.

        With `most_frames` the rest is left for the next call, which may have no octets; see `has_more`.
        """
        events: list[Event] = []
        if self.end is not None:
            return events
        self._inbox += data
        left = most_frames
        try:
            while left != 0 and (frame := self._next_frame()) is not None:
                self._received_ns = now_ns
                self._take(frame, now_ns, events)
                left = None if left is None else left - 1
        except _Broken as broken:
            events.append(self._finish(broken.reason, broken.text, now_ns))
        return events

    @property
    def has_more(self) -> bool:
        """True if a whole frame waits to be read."""
        there = len(self._inbox) - LENGTH.size
        return there >= 0 and there >= LENGTH.unpack_from(self._inbox)[0]

    def send(self, message: Mapping[str, Any], now_ns: int) -> None:
        """Queue a message. The session has to be open."""
        if not self.is_open:
            raise SessionError(f"the session of {self.name} with {self.peer or 'an unknown peer'} is not open")
        octets = json.dumps(message, separators=(",", ":")).encode()
        if len(octets) > self._settings.longest_message:
            raise SessionError(
                f"a message of {len(octets)} octets to {self.peer} is too long; "
                f"at most {self._settings.longest_message}"
            )
        self._secure(octets, now_ns)
        self.counters["sent"] += 1

    def poll(self, now_ns: int) -> list[Event]:
        """Do all that is due by now: end the session of a silent peer, or send a keepalive."""
        if self.end is not None:
            return []
        if not self.is_open and now_ns >= self._started_ns + self._settings.hello_ns:
            return [self._finish(End.TIMEOUT, "the peer did not authenticate in time", now_ns)]
        if self.is_open and now_ns >= self._received_ns + self._settings.timeout_ns:
            silent_ms = (now_ns - self._received_ns) // 1_000_000
            return [self._finish(End.TIMEOUT, f"{self.peer} has been silent for {silent_ms} ms", now_ns)]
        if self.is_open and now_ns >= self._sent_ns + self._settings.keepalive_ns:
            self._secure(json.dumps({"type": _KEEPALIVE}).encode(), now_ns)
            self.counters["keepalives_sent"] += 1
        return []

    @property
    def deadline_ns(self) -> int | None:
        """The time at which `poll` has work next, if nothing happens until then."""
        if self.end is not None:
            return None
        if not self.is_open:
            return self._started_ns + self._settings.hello_ns
        return min(self._received_ns + self._settings.timeout_ns, self._sent_ns + self._settings.keepalive_ns)

    def data_to_send(self) -> bytes:
        """Return the octets for the connection since the last call."""
        data = bytes(self._outbox)
        self._outbox.clear()
        return data

    def close(self, text: str, now_ns: int, reason: End = End.CLOSED) -> list[Event]:
        """End the session and send the reason to the peer. Also for messages that the caller finds malformed."""
        return [] if self.end is not None else [self._finish(reason, text, now_ns)]

    def disconnected(self, now_ns: int) -> list[Event]:
        """End the session: the connection is gone."""
        return [] if self.end is not None else [self._finish(End.DISCONNECTED, "the connection is gone", now_ns)]

    # Frames

    def _next_frame(self) -> bytes | None:
        if len(self._inbox) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._inbox)
        longest = _LONGEST_HELLO if not self.is_open else _SECURED_HEAD + self._settings.longest_message
        if length > longest:
            _break(End.TOO_LONG, f"a frame of {length} octets is too long; at most {longest}")
        if len(self._inbox) < LENGTH.size + length:
            return None
        frame = bytes(self._inbox[LENGTH.size : LENGTH.size + length])
        del self._inbox[: LENGTH.size + length]
        return frame

    def _take(self, frame: bytes, now_ns: int, events: list[Event]) -> None:
        if self._keys is None:
            self._take_hello(frame, now_ns)
            return
        message = self._authenticated(frame)
        if not self.is_open:
            self.is_open = True
            assert self.peer is not None and self.version is not None
            events.append(Opened(self.peer, self.version))
        kind = message.get("type")
        if kind == _BYE:
            text = _printable(message.get("text"))
            _break(End.BYE, f"{self.peer} ends the session: {text}")
        if kind == _KEEPALIVE:
            self.counters["keepalives_received"] += 1
            return
        self.counters["received"] += 1
        events.append(Received(message))

    def _take_hello(self, frame: bytes, now_ns: int) -> None:
        try:
            content = read(frame)
            if isinstance(content, dict) and content.get("type") == End.REFUSED:
                _break(End.REFUSED, f"the peer refuses: {_printable(content.get('text'))}")
            hello: Hello = CODEC.decode(Hello, content)
        except InvalidError as error:
            _break(End.BAD_HELLO, f"invalid hello: {error}")
        if hello.role is not self.role.peer:
            if frame == self._hello:
                _break(End.REFLECTED, "our own hello came back")
            _break(End.WRONG_ROLE, f"{hello.name} has the role {hello.role}, as this side has")
        common = [version for version in self._versions if version in hello.versions]
        if not common:
            _break(
                End.NO_VERSION,
                f"{hello.name} has version {', '.join(map(str, hello.versions))}, this side "
                f"{', '.join(map(str, self._versions))}; update the older side",
            )
        key = self._key_for if isinstance(self._key_for, bytes) else self._key_for(hello.name)
        if key is None:
            _break(End.UNKNOWN, f"no router {hello.name} is configured here")
        self.peer, self.version = hello.name, max(common)
        self._keys = direction_keys(key, {self.role: self._hello, self.role.peer: frame})
        self._secure(json.dumps({"type": _KEEPALIVE}).encode(), now_ns)

    def _authenticated(self, frame: bytes) -> dict[str, Any]:
        """Return the message of a secured frame."""
        assert self._keys is not None
        if len(frame) < _SECURED_HEAD:
            refused = _refusal(frame)
            if refused is not None and not self.is_open:
                _break(End.REFUSED, f"{self.peer} refuses: {refused}")
            _break(End.TOO_SHORT, f"a frame of {len(frame)} octets has no room for its MAC")
        head, mac, octets = frame[:8], frame[8:_SECURED_HEAD], frame[_SECURED_HEAD:]
        if not hmac.compare_digest(mac, hmac.digest(self._keys[self.role.peer], head + octets, HASH)):
            refused = None if self.is_open else _refusal(frame)
            if refused is not None:
                _break(End.REFUSED, f"{self.peer} refuses: {refused}")
            _break(
                End.NOT_AUTHENTIC,
                f"a frame in the name of {self.peer} does not authenticate; use the same key on both sides",
            )
        (number,) = _SEQUENCE.unpack(head)
        if number != self._received:
            _break(End.SEQUENCE, f"{self.peer} sent frame {number}, expected {self._received}")
        self._received += 1
        try:
            message = read(octets)
            if not isinstance(message, dict) or not isinstance(message.get("type"), str):
                raise InvalidError("", message, "must be an object with a type")
        except InvalidError as error:
            _break(End.MALFORMED, f"{self.peer} sent an invalid message: {error}")
        return message

    def _secure(self, octets: bytes, now_ns: int) -> None:
        assert self._keys is not None
        head = _SEQUENCE.pack(self._sent)
        self._sent += 1
        self._sent_ns = now_ns
        self._put(head + hmac.digest(self._keys[self.role], head + octets, HASH) + octets)

    def _put(self, frame: bytes) -> None:
        self._outbox += LENGTH.pack(len(frame)) + frame

    def _finish(self, reason: End, text: str, now_ns: int) -> Ended:
        if reason not in (End.BYE, End.REFUSED, End.DISCONNECTED):
            shown = text[:_LONGEST_TEXT]
            if self._keys is not None and self.is_open:
                self._secure(json.dumps({"type": _BYE, "reason": reason, "text": shown}).encode(), now_ns)
            else:
                self._put(json.dumps({"type": End.REFUSED, "text": shown}).encode())
        self.is_open = False
        self.end = Ended(reason, text)
        self.counters[f"end {reason}"] += 1
        self._inbox.clear()
        return self.end


def _refusal(frame: bytes) -> str | None:
    """Return the text of a refusal in the clear, if the frame is one."""
    try:
        content = read(frame)
    except InvalidError:
        return None
    is_one = isinstance(content, dict) and content.get("type") == End.REFUSED
    return _printable(content.get("text")) if is_one else None


def _printable(text: object) -> str:
    """Return text of a peer, without characters that a terminal would interpret."""
    return "".join(c if c.isprintable() else "?" for c in str(text)[:_LONGEST_TEXT])


class _Broken(Exception):
    def __init__(self, reason: End, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text


def _break(reason: End, text: str) -> NoReturn:
    raise _Broken(reason, text)
