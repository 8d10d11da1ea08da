"""The draft's state machines, each as an equation over its variables (decision 0104). One serves all its features.

    asymmetric   Oper = Recommendation if LocalWilling and RV is TRUE, else LocalAdmin
    symmetric    Oper = Remote if LocalWilling and RemoteWilling is FALSE, else LocalAdmin
                 Pending = Remote is NULL, or not LocalWilling and RemoteWilling is TRUE and Oper != Remote
    defense      On, for a priority, if DefenseEnabled and Oper and Remote is not TRUE
    hold         On, for a priority, if elected and Oper and the peer is not known, or Remote is TRUE with DefOn 1

NULL is None: the last LLDPDU had no such TLV, or there was none. If both ports are willing in the symmetric machine,
by the tie-break (decision 0102) one of them may count as not willing; the equations then hold with that.

Nothing is kept here: the same variables give the same answer. Each answer comes with its reason.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Generic, TypeVar

from testbed.frames import Mac

T = TypeVar("T")


class TieBreak(enum.StrEnum):
    """The rule that says, by MAC address, whose configuration wins when both ports are willing (decision 0102)."""

    NONE = "none"
    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """The answer of a machine."""

    oper: T
    pending: bool
    why: str


def winner(tie_break: TieBreak, local: Mac, remote: Mac) -> bool | None:
    """Return True if this port's configuration wins over that of a peer that is willing too, False if the peer's wins,
    and None if neither does.
    """
    if tie_break is TieBreak.NONE or local == remote:
        return None
    return (local > remote) is (tie_break is TieBreak.HIGHER)


def symmetric(
    admin: T,
    remote: T | None,
    *,
    local_willing: bool,
    remote_willing: bool | None,
    wins: bool | None,
    absent: str,
    pinned: T | None = None,
) -> Outcome[T]:
    """Return the outcome of the symmetric machine, which PFC uses, and in the draft Application Priority and CN.

    `wins` counts only if both ports are willing. `pinned` is the value that the flap guard keeps although the
    peer wins. `absent` is the reason why there is no remote value.
    """
    if remote is None:
        return Outcome(admin, True, f"local setting: {absent}")
    if local_willing and remote_willing:
        if wins is None:
            return Outcome(admin, False, "local setting: both ports are willing, and there is no tie-break")
        if wins:
            return Outcome(
                admin, admin != remote, "local setting: both ports are willing, and this port wins the tie-break"
            )
        if pinned is not None:
            return Outcome(
                pinned,
                pinned != remote,
                "kept for now: both ports are willing, and the same values come again and again",
            )
        return Outcome(remote, False, "the peer's: both ports are willing, and the peer wins the tie-break")
    if local_willing:
        return Outcome(remote, False, "the peer's: this port is willing and the peer is not")
    if remote_willing:
        return Outcome(admin, admin != remote, "local setting: the peer is willing and this port is not")
    return Outcome(admin, False, "local setting: neither port is willing")


def asymmetric(
    admin: T, recommended: T | None, *, rv: bool | None, local_willing: bool, known: bool, absent: str
) -> Outcome[T]:
    """Return the outcome of the asymmetric machine, which ETS uses. `recommended` is the value to operate with if RV is
    TRUE; `known` is True if the peer has sent a Configuration TLV.

    The draft defines Pending for the symmetric machine only. Here it is TRUE while the peer's configuration is not
    known, and while RV 0 announces to a willing port that a recommendation is to follow.
    """
    pending = not known or (local_willing and rv is False)
    if not local_willing:
        return Outcome(admin, pending, "local setting: this port is not willing")
    if rv and recommended is not None:
        return Outcome(recommended, pending, "the peer's recommendation: this port is willing")
    if rv is False:
        return Outcome(admin, pending, "local setting: the peer recommends nothing yet (RV is 0)")
    return Outcome(admin, pending, f"local setting: {'the peer recommends nothing' if known else absent}")


def defense(enabled: bool, oper: int, remote: int | None) -> int:
    """Return the priorities that are defended; sets of priorities are masks, and NULL is TRUE for none."""
    return oper & ~(remote or 0) if enabled else 0


def hold(elected: bool, oper: int, remote: int | None, defended: int | None) -> int | None:
    """Return the priorities on which nothing is sent until the far port shows that its defenses are off, or None if the
    port does not wait for that.

    Where Remote is FALSE the far port has no defenses on, and DefOn is reserved; `defended` is None if its TLV shows no
    DefOn, because it has no defenses.
    """
    if not elected:
        return None
    return oper if remote is None else oper & remote & (defended or 0)
