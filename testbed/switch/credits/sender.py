"""The sender of credit-based flow control: it counts the credits that frames use, and knows those that came back.

A frame may leave if the credits that are out, with its own, stay within the limit. All counters run on modulo 2**20; a
CF_Update has the lowest 15 bits of what the receiver has freed, which says all as long as fewer than 2**15 credits came
back since the last one that arrived. A count that would free more than is out is refused, so credits never get
negative.

While credits are out, a CC_Update follows each `cc_interval` octets: with it the receiver finds credits that were lost
with a frame, and answers with what it has freed, which mends a CF_Update that was lost.

Times are octets of the line, as UE's timers are, counted from any moment. Not here: VCs of frames, which is
`testbed.switch.priority`.

Runs in C: `testbed/lab/um/linux/xoff_credit_kern.c`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from testbed.switch.credits.settings import CreditMode, Credits
from testbed.units import NEVER

FREED_BITS, USED_BITS = 15, 20
MODULUS = 1 << USED_BITS


@dataclass
class SenderCounters:
    """Counters of one virtual channel, named as SAI names those of a queue, or of a port."""

    sender_credits_used: int = 0
    """The credits that are out at this moment."""
    sender_credits_consumed: int = 0
    """The credits that frames have taken so far."""
    sender_credits_freed: int = 0
    """The credits that have come back so far, as far as the sender knows."""
    sender_credits_used_watermark: int = 0


class CreditSender:
    """One direction of a cable, at the end that sends frames."""

    def __init__(self, credits: Credits) -> None:
        self.credits = credits
        self.counters = {vc: SenderCounters() for vc in credits.limits}
        self.num_cc_update_messages_tx = 0
        self.num_cf_update_messages_rx = 0
        self.num_cf_updates_refused = 0
        """Counts in CF_Updates that would have freed more credits than were out."""
        self.waits: dict[int, int] = {}
        """The credits that the first frame of a virtual channel waits for, since it was refused."""
        self._cc_due = NEVER

    @property
    def port_credits_used(self) -> int:
        """The credits of all virtual channels that are out."""
        return sum(one.sender_credits_used for one in self.counters.values())

    def may_send(self, vc: int, octets: int) -> bool:
        """Return True if a frame of this length may leave now; one of a VC without credits always may."""
        counters = self.counters.get(vc)
        if counters is None:
            return True
        wanted = self.credits.of_frame(octets)
        if self.credits.mode is CreditMode.PER_VC:
            fits = counters.sender_credits_used + wanted <= self.credits.limits[vc]
        else:
            fits = self.port_credits_used + wanted <= self.credits.total
        if fits:
            self.waits.pop(vc, None)
        else:
            self.waits[vc] = wanted
        return fits

    def sent(self, vc: int, octets: int, now: int) -> None:
        """Note that a frame begins to leave."""
        counters = self.counters.get(vc)
        if counters is None:
            return
        counters.sender_credits_consumed += self.credits.of_frame(octets)
        self._set_used(counters)
        if self._cc_due == NEVER:
            self._cc_due = now + self.credits.cc_interval

    def receive(self, freed: Iterable[tuple[int, int]]) -> set[int]:
        """Apply a CF_Update, (VC, count of 15 bits) each; return the VCs that have more credits than before."""
        self.num_cf_update_messages_rx += 1
        more = set()
        for vc, count in freed:
            counters = self.counters.get(vc)
            if counters is None:
                continue
            back = (count - counters.sender_credits_freed) % (1 << FREED_BITS)
            if back > counters.sender_credits_used:
                self.num_cf_updates_refused += 1
            elif back:
                counters.sender_credits_freed += back
                self._set_used(counters)
                more.add(vc)
        if not self.port_credits_used:
            self._cc_due = NEVER
        return more

    @property
    def deadline(self) -> int:
        """The time of the next CC_Update; NEVER while no credits are out."""
        return self._cc_due

    def poll(self, now: int) -> dict[int, int]:
        """Return the used credits of each VC, modulo 2**20, for a CC_Update that is due; empty if none is."""
        if now < self._cc_due:
            return {}
        self._cc_due = now + self.credits.cc_interval
        self.num_cc_update_messages_tx += 1
        return {vc: one.sender_credits_consumed % MODULUS for vc, one in self.counters.items()}

    @staticmethod
    def _set_used(counters: SenderCounters) -> None:
        used = counters.sender_credits_consumed - counters.sender_credits_freed
        counters.sender_credits_used = used
        counters.sender_credits_used_watermark = max(counters.sender_credits_used_watermark, used)
