"""An end of a cable with Link Layer Retry: the sender of its frames, and the receiver of those of the other end.

The sender keeps each frame that has a sequence number until it is acknowledged. It replays all that it keeps, the
oldest first, when the other end asks for a frame or nothing was acknowledged for the replay timer; new frames wait
until that is done. The receiver passes on the frame that it expects and no other. It acknowledges what it has, asks
once for a frame that is missing, and then acknowledges nothing until that frame has come; should a replay begin without
it, it asks again.

A frame of MAC control or LLDP has no sequence number: it is put on the line as soon as that is free, before frames that
wait and between those of a replay.

    sender      OFF -> INIT -> ADVANCE <-> REPLAY -> FLUSH (-> INIT)
    receiver    OFF -> SEND_ACKS <-> NACK_SENT

Provisional, since the public texts leave it open: a sender begins again with the number that was next; LLR_INIT is
repeated after the replay timer; a receiver sees a replay when a number is not above the one before it.

Frames and ordered sets go in with the moment; what is sent or given up comes out by `Wire`, and the next moment at
which something has to be done by `deadline_ns`.

Runs in C: testbed/lab/um/linux/xoff_line_rules.h.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from testbed.subjects.link.llr.line import Line
from testbed.subjects.link.llr.ordered_set import MOST_DATA, SEQUENCES
from testbed.switch.link.counters import LLR_COUNTERS
from testbed.switch.link.jam import LineFate, LineUnit
from testbed.switch.link.retry import NO_LIMIT, LlrAction

AHEAD_NS = 65
"""How long before the line is free a frame may come: what the shaper of a port lets it run ahead, and a nanosecond."""
FCS = 4
NEVER = (1 << 63) - 1


class Sender(enum.IntEnum):
    """The state of a sender."""

    OFF = 0
    INIT = 1
    ADVANCE = 2
    REPLAY = 3
    FLUSH = 4


class Receiver(enum.IntEnum):
    """The state of a receiver."""

    OFF = 0
    SEND_ACKS = 1
    NACK_SENT = 2


@dataclass(frozen=True)
class EndSettings:
    """LLR at one end, in the lab's time."""

    frames: int
    octets: int
    replay_timer_ns: int
    replay_count: int
    spacing: int
    init_action: LlrAction = LlrAction.BEST_EFFORT
    flush_action: LlrAction = LlrAction.BEST_EFFORT
    re_init: bool = True
    age_ns: int = 0
    first_sequence: int = 0
    sends: bool = True
    """True if it numbers what it sends."""
    receives: bool = True
    """True if it takes frames with numbers; else it has no echo for LLR_INIT."""
    is_unnumbered: bool = False
    """True if its frames go without a number all the same, as LLR-ineligible ones."""


@dataclass(eq=False)
class Frame:
    """A frame at its sender."""

    content: Any
    length: int
    """Its octets without FCS."""
    sequence: int | None = None
    sent_ns: int = 0
    """The moment at which it was sent first."""
    flying: int = 0
    """How many times it is on its way, whole."""
    is_given_up: bool = False
    is_settled: bool = False
    """True if it has been passed on, or is lost."""


class Carried(NamedTuple):
    """Something on its way to the other end."""

    at_ns: int
    """The moment at which it is there; of a damaged frame, at which that is seen."""
    what: LineUnit
    fate: LineFate
    sequence: int = 0
    data: int = 0
    frame: Frame | None = None


class Wire(Protocol):
    """What an end does to the world."""

    def carry(self, end: End, carried: Carried) -> None:
        """Bring something to the other end."""

    def give_up(self, end: End, frame: Frame) -> None:
        """Take a frame that is not sent any more; it may have arrived."""


class End:
    """One end."""

    def __init__(self, line: Line, settings: EndSettings | None, wire: Wire) -> None:
        self.line, self.settings, self.wire = line, settings, wire
        self.counters = dict.fromkeys(LLR_COUNTERS, 0)
        self.state, self.receiver = Sender.OFF, Receiver.OFF
        self.next_sequence = settings.first_sequence if settings else 0
        self.kept: deque[Frame] = deque()
        self.octets = 0
        """The octets of the frames that are kept."""
        self.held: deque[Frame] = deque()
        """Frames that came when none could be sent; the port has been stopped."""
        self.is_stopped = False
        """True if the port has to wait until the line is free."""
        self.replay_at = 0
        """The place in the buffer of the frame that is replayed next."""
        self.replays = 0
        self.replayed: list[int] = []
        """The octets, with FCS, of each frame that was sent again."""
        self._init_data = 0
        self.timer_ns = NEVER
        self.expected = 0
        self.last_seen: int | None = None
        self.ack_ns = NEVER
        self._ack_from_ns = 0
        self.acknowledged = 0
        """The number in the last acknowledgement that left as it should, or that of the frame before the first one."""
        self.flushes = 0

    # What happens

    def start(self, now_ns: int) -> None:
        """Begin, or begin again as management does: tell the other end which sequence number comes first."""
        assert self.settings is not None
        self.state = Sender.INIT
        self._init_data = self._init_data % MOST_DATA + 1
        self._send_init(now_ns)

    def change(self, settings: EndSettings | None, now_ns: int) -> None:
        """Take other settings. What LLR is switched off for ends: the sender gives up what it keeps."""
        had, self.settings = self.settings, settings
        sent, sends = bool(had and had.sends), bool(settings and settings.sends)
        if sent and not sends:
            self._drop(Sender.OFF)
        if had and had.receives and not (settings and settings.receives):
            self.receiver, self.ack_ns = Receiver.OFF, NEVER
        if sends and not sent:
            self.start(now_ns)

    def offer(self, frame: Frame, now_ns: int, eligible: bool = True) -> None:
        """Take a frame of the port."""
        is_off = self.state is Sender.OFF and not self.held
        if not eligible or is_off or (self.settings and self.settings.is_unnumbered):
            self._send_plain(frame, now_ns)
        elif self.held or not self._can_take(frame, now_ns):
            self.held.append(frame)
            self.is_stopped = True
        else:
            self._take(frame, now_ns)

    def receive_set(self, what: LineUnit, sequence: int, data: int, now_ns: int) -> None:
        """Take an ordered set of the other end."""
        self._count("RX", what)
        match what:
            case LineUnit.INIT if self.settings is None or not self.settings.receives:
                pass  # this end takes no numbers, so it has no echo
            case LineUnit.INIT:
                self.expected, self.last_seen = sequence, None
                self.acknowledged = (sequence - 1) % SEQUENCES
                self.receiver, self.ack_ns = Receiver.SEND_ACKS, NEVER
                self._send_set(now_ns, LineUnit.ECHO, sequence, data)
            case LineUnit.ECHO:
                if self.state is Sender.INIT and (sequence, data) == (self.next_sequence, self._init_data):
                    self.state, self.timer_ns = Sender.ADVANCE, NEVER
            case LineUnit.ACK:
                self._acknowledge((sequence - self._oldest + 1) % SEQUENCES, now_ns)
            case _:
                if self._acknowledge((sequence - self._oldest) % SEQUENCES, now_ns) and self.kept:
                    self._replay(now_ns)

    def receive_frame(self, sequence: int, fate: LineFate, now_ns: int) -> bool:
        """Take a frame with a sequence number; report whether it is the one expected, which is passed on.

        A damaged frame comes with its last bit.
        """
        if self.receiver is Receiver.OFF:
            return False
        begins = self.last_seen is not None and _ahead(sequence, self.last_seen) <= 0
        self.last_seen = sequence
        if begins:
            self.counters["LLR_RX_REPLAY"] += 1
        ahead = _ahead(sequence, self.expected)
        if fate is LineFate.DAMAGED:
            self.counters["LLR_RX_BAD"] += 1
            if not ahead:
                self.counters["LLR_RX_EXPECTED_SEQ_BAD"] += 1
            if self.receiver is Receiver.SEND_ACKS or begins or not ahead:
                self._ask(now_ns)
            return False
        is_poisoned = fate is LineFate.POISONED
        self.counters["LLR_RX_POISONED" if is_poisoned else "LLR_RX_OK"] += 1
        if ahead > 0:
            self.counters["LLR_RX_MISSING_SEQ"] += 1
            if self.receiver is Receiver.SEND_ACKS or begins:
                self._ask(now_ns)
            return False
        if ahead < 0:
            self.counters["LLR_RX_DUPLICATE_SEQ"] += 1
            if self.receiver is Receiver.SEND_ACKS:
                self._ack_later(now_ns)
            return False
        self.counters["LLR_RX_EXPECTED_SEQ_POISONED" if is_poisoned else "LLR_RX_EXPECTED_SEQ_GOOD"] += 1
        self.expected = (self.expected + 1) % SEQUENCES
        self.receiver = Receiver.SEND_ACKS
        self._ack_later(now_ns)
        return True

    # What is due

    @property
    def line_ns(self) -> int:
        """The moment at which something that waits goes on the line, or the port goes on; NEVER if nothing does."""
        if (
            self.state is Sender.REPLAY
            or self._could_send()
            or (self.is_stopped and not self.held and self._may_take())
        ):
            return self.line.free_ns
        return NEVER

    @property
    def age_ns(self) -> int:
        if self.settings is None or not self.settings.age_ns or not self.kept:
            return NEVER
        return self.kept[0].sent_ns + self.settings.age_ns

    @property
    def deadline_ns(self) -> int:
        """The next moment at which `poll` has something to do."""
        return min(self.line_ns, self.timer_ns, self.age_ns, self.ack_ns)

    def poll(self, now_ns: int) -> None:
        """Do one thing that is due at this moment; call it again while something is."""
        if self.ack_ns <= now_ns:
            assert self.settings is not None
            self.ack_ns = NEVER
            self._ack_from_ns = now_ns + self.line.time_ns(self.settings.spacing)
            self._send_set(now_ns, LineUnit.ACK, (self.expected - 1) % SEQUENCES, 0)
        elif self.timer_ns <= now_ns:
            self.timer_ns = NEVER
            if self.state is Sender.INIT:
                self._send_init(now_ns)
            elif self.kept:
                self._replay(now_ns)
        elif self.age_ns <= now_ns:
            self._flush(now_ns)
        elif self.line_ns <= now_ns:
            self._go_on(now_ns)

    def _go_on(self, now_ns: int) -> None:
        """The line is free: send what is next on it."""
        if self.state is Sender.REPLAY:
            if self.replay_at < len(self.kept):
                again = self.kept[self.replay_at]
                self.replayed.append(again.length + FCS)
                self._transmit(again, now_ns)
                self.replay_at += 1
            if self.replay_at >= len(self.kept):
                self._end_replay()
        elif self.held:
            self._take(self.held.popleft(), now_ns)
        else:
            self.is_stopped = False

    # Sending

    @property
    def _oldest(self) -> int:
        return (self.next_sequence - len(self.kept)) % SEQUENCES

    def _may_take(self) -> bool:
        """Report whether the state lets a frame be taken, if there is room for it."""
        if self.state is Sender.OFF:
            return True
        assert self.settings is not None
        if self.state is Sender.ADVANCE:
            return len(self.kept) < self.settings.frames
        action = {Sender.INIT: self.settings.init_action, Sender.FLUSH: self.settings.flush_action}.get(self.state)
        return action in (LlrAction.DISCARD, LlrAction.BEST_EFFORT)

    def _has_room(self, frame: Frame) -> bool:
        if self.state is not Sender.ADVANCE:
            return True
        assert self.settings is not None
        return not self.kept or self.octets + frame.length + FCS <= self.settings.octets

    def _can_take(self, frame: Frame, now_ns: int) -> bool:
        is_free = self.line.free_ns <= now_ns + AHEAD_NS
        return self._may_take() and self._has_room(frame) and is_free

    def _could_send(self) -> bool:
        return bool(self.held) and self._may_take() and self._has_room(self.held[0])

    def _take(self, frame: Frame, now_ns: int) -> None:
        if self.state is Sender.OFF:
            self._send_plain(frame, now_ns)
            return
        assert self.settings is not None
        if self.state is Sender.ADVANCE:
            frame.sequence, frame.sent_ns = self.next_sequence, now_ns
            self.next_sequence = (self.next_sequence + 1) % SEQUENCES
            self.kept.append(frame)
            self.octets += frame.length + FCS
            self._transmit(frame, now_ns)
            if self.timer_ns == NEVER:
                self.timer_ns = self.line.free_ns + self.settings.replay_timer_ns
            return
        action = self.settings.init_action if self.state is Sender.INIT else self.settings.flush_action
        if action is LlrAction.DISCARD:
            self.counters["LLR_TX_DISCARD"] += 1
            self.wire.give_up(self, frame)
        else:
            self._send_plain(frame, now_ns)

    def _transmit(self, frame: Frame, now_ns: int) -> None:
        at_ns, fate = self.line.put_frame(now_ns, frame.length, True)
        self.counters["LLR_TX_POISONED" if fate is LineFate.POISONED else "LLR_TX_OK"] += 1
        self.wire.carry(self, Carried(at_ns, LineUnit.FRAME, fate, frame.sequence or 0, frame=frame))

    def _send_plain(self, frame: Frame, now_ns: int) -> None:
        at_ns, fate = self.line.put_frame(now_ns, frame.length, False)
        self.wire.carry(self, Carried(at_ns, LineUnit.FRAME, fate, frame=frame))

    def _send_set(self, now_ns: int, what: LineUnit, sequence: int, data: int) -> None:
        self._count("TX", what)
        at_ns, fate = self.line.put_set(now_ns, what)
        if fate is LineFate.FROZEN:
            sequence, fate = self.acknowledged, LineFate.CAME
        elif what is LineUnit.ACK:
            self.acknowledged = sequence
        self.wire.carry(self, Carried(at_ns, what, fate, sequence, data))

    def _send_init(self, now_ns: int) -> None:
        assert self.settings is not None
        self._send_set(now_ns, LineUnit.INIT, self.next_sequence, self._init_data)
        self.timer_ns = now_ns + self.settings.replay_timer_ns

    # Replay

    def _acknowledge(self, count: int, now_ns: int) -> bool:
        """Free the oldest frames, `count` of them; report whether there are so many."""
        assert self.settings is not None
        if self.state not in (Sender.ADVANCE, Sender.REPLAY) or count > len(self.kept):
            self.counters["LLR_RX_ACK_NACK_SEQ_ERROR"] += 1
            return False
        for _ in range(count):
            self.octets -= self.kept.popleft().length + FCS
        if count:
            self.replays = 0
            self.replay_at = max(0, self.replay_at - count)
            if self.state is Sender.REPLAY and self.replay_at >= len(self.kept):
                self._end_replay()
            elif self.state is Sender.ADVANCE:
                self.timer_ns = now_ns + self.settings.replay_timer_ns if self.kept else NEVER
        return True

    def _replay(self, now_ns: int) -> None:
        assert self.settings is not None
        if self.settings.replay_count != NO_LIMIT and self.replays >= self.settings.replay_count:
            self._flush(now_ns)
            return
        self.replays += 1
        self.counters["LLR_TX_REPLAY"] += 1
        self.state, self.replay_at, self.timer_ns = Sender.REPLAY, 0, NEVER

    def _end_replay(self) -> None:
        assert self.settings is not None
        self.state = Sender.ADVANCE
        self.timer_ns = self.line.free_ns + self.settings.replay_timer_ns if self.kept else NEVER

    def _flush(self, now_ns: int) -> None:
        """Give up what is kept."""
        assert self.settings is not None
        self.flushes += 1
        self._drop(Sender.FLUSH)
        if self.settings.re_init:
            self.start(now_ns)

    def _drop(self, state: Sender) -> None:
        self.counters["LLR_TX_DISCARD"] += len(self.kept)
        self.state, self.timer_ns, self.replays, self.octets = state, NEVER, 0, 0
        while self.kept:
            self.wire.give_up(self, self.kept.popleft())

    # Receiving

    def _ask(self, now_ns: int) -> None:
        self.receiver, self.ack_ns = Receiver.NACK_SENT, NEVER
        self._send_set(now_ns, LineUnit.NACK, self.expected, 0)

    def _ack_later(self, now_ns: int) -> None:
        if self.ack_ns == NEVER:
            self.ack_ns = max(now_ns, self._ack_from_ns)

    def _count(self, way: str, what: LineUnit) -> None:
        self.counters[f"LLR_{way}_{'INIT_ECHO' if what is LineUnit.ECHO else what.name}_CTL_OS"] += 1


def _ahead(one: int, other: int) -> int:
    """Return how far a sequence number is ahead of another one; less than 0 if it is behind it."""
    return (one - other + SEQUENCES // 2) % SEQUENCES - SEQUENCES // 2
