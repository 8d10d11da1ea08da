"""The receiver of credit-based flow control: it counts the cells that frames take of its buffer, and gives them back.

A CF_Update is due as soon as cells came free, but not sooner than `cf_min` octets after the one before. It says how
many credits were freed so far, so that one that is lost costs nothing once the next arrives; while the receiver holds
frames it says so again after `cf_max` octets, and whenever a CC_Update comes.

A CC_Update has what the sender has used. It comes behind the frames that used it, on the same cable. So what is missing
here was lost with frames that never came: it is counted as used and freed at once. Where more frames were charged than
were sent, as a switch does when it floods, the surplus is taken back.

Times are octets of the line, counted from any moment.

Runs in C: `testbed/lab/um/linux/xoff_credit_kern.c`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.switch.credits.sender import FREED_BITS, MODULUS
from testbed.switch.credits.settings import Credits
from testbed.units import NEVER


@dataclass
class ReceiverCounters:
    """Counters of one virtual channel, named as SAI names those of a queue."""

    receiver_credits_consumed: int = 0
    """The credits of frames that have come so far, and of those that the sender says were lost."""
    receiver_credits_freed: int = 0
    lost: int = 0
    """The credits that were lost with frames, of which CC_Updates told."""

    @property
    def held(self) -> int:
        """The credits of frames that are in the buffer."""
        return self.receiver_credits_consumed - self.receiver_credits_freed


class CreditReceiver:
    """One direction of a cable, at the end that frames come to."""

    def __init__(self, credits: Credits) -> None:
        self.credits = credits
        self.counters = {vc: ReceiverCounters() for vc in credits.limits}
        self.num_cf_update_messages_tx = 0
        self.num_cc_update_messages_rx = 0
        self._told = dict.fromkeys(credits.limits, 0)
        """What the last CF_Update about each virtual channel said."""
        self._asked: set[int] = set()
        """The virtual channels that are to be told of again, changed or not."""
        self._next_vc = 0
        self._may_at = 0
        """The first moment at which a CF_Update may be sent."""
        self._refresh_at = NEVER

    def arrived(self, vc: int, octets: int) -> None:
        """Note that a frame of this length was charged to the buffer."""
        counters = self.counters.get(vc)
        if counters is not None:
            counters.receiver_credits_consumed += self.credits.of_frame(octets)

    def freed(self, vc: int, octets: int) -> None:
        """Note that a frame of this length has left the buffer."""
        counters = self.counters.get(vc)
        if counters is not None:
            counters.receiver_credits_freed += self.credits.of_frame(octets)

    def receive(self, used: Mapping[int, int]) -> None:
        """Apply a CC_Update: the used credits of each virtual channel, modulo 2**20."""
        self.num_cc_update_messages_rx += 1
        for vc, count in used.items():
            counters = self.counters.get(vc)
            if counters is None:
                continue
            missing = (count - counters.receiver_credits_consumed) % MODULUS
            if missing >= MODULUS // 2:
                missing -= MODULUS
            counters.receiver_credits_consumed += missing
            counters.receiver_credits_freed += missing
            counters.lost += max(missing, 0)
            self._asked.add(vc)

    @property
    def deadline(self) -> int:
        """The time of the next CF_Update; NEVER if there is nothing to say."""
        if self._asked or self._changed():
            return self._may_at
        return max(self._refresh_at, self._may_at)

    def poll(self, now: int) -> list[tuple[int, int]]:
        """Return what a CF_Update that is due says: (VC, freed credits modulo 2**15) of at most two; empty if none is.

        More than two take turns.
        """
        if now < self.deadline:
            return []
        said = self._changed() | self._asked or set(self.counters)
        turn = sorted(said, key=lambda vc: (vc < self._next_vc, vc))[:2]
        for vc in turn:
            self._told[vc] = self.counters[vc].receiver_credits_freed
            self._asked.discard(vc)
        self._next_vc = turn[-1] + 1
        self._may_at = now + self.credits.cf_min
        holds = any(one.held for one in self.counters.values())
        self._refresh_at = now + self.credits.cf_max if holds else NEVER
        self.num_cf_update_messages_tx += 1
        return [(vc, self._told[vc] % (1 << FREED_BITS)) for vc in turn]

    def _changed(self) -> set[int]:
        return {vc for vc, one in self.counters.items() if one.receiver_credits_freed != self._told[vc]}
