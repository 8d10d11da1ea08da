"""SONiC's Scale-Up Test Standard (draft 0.4), 4.2: the twelve cases of CBFC, against the cores on an exact link.

The same cases run in the lab by `testbed.subjects.link.lab.scale_up`.

Each row says what the standard expects, and what the model gave; its notes name what is other than in the standard.
The tester's ports are the model's sender and what drains its receiver. The cases of LLR are in `retry_rows`.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from fractions import Fraction

from testbed.lab.studies.plan_rows import SIZES, Plan, PlannedCase, PlanRow
from testbed.subjects.link.commands import retry_rows
from testbed.subjects.link.commands.rows import Rows
from testbed.subjects.link.plan.credit_link import OCTET_PS, CreditLink
from testbed.switch.credits.law import Link
from testbed.switch.credits.law import credits as needed
from testbed.switch.credits.settings import LINE_OVERHEAD, CreditMode, Credits
from testbed.switch.priority.classify import classify
from testbed.switch.priority.settings import PriorityMap
from testbed.units import Duration, Rate

RATE = Rate("400Gb/s")
FRAMES, VC, OTHER, BEST_EFFORT = 100, 3, 4, 0
CELL, FCS = 64, 4
_MODEL = "model: cores of CBFC on an exact link"
_CLASSIFIER = "model: the classifier of ports, where a virtual channel is a local priority"
_BUFFER = 4096
EXPERIMENT = "_scale_up.py"
"""The file in `experiments/` that runs a case in the lab."""


def _credits(limit: int = _BUFFER, *, vcs: tuple[int, ...] = (VC,), mode: CreditMode = CreditMode.PER_VC) -> Credits:
    return Credits(dict.fromkeys(vcs, limit), mode, total=limit)


def _theory(length: int) -> int:
    """Return the credits of a frame by the standard's formula: cells of 64 octets, the FCS not kept."""
    return (length - FCS + CELL - 1) // CELL


def _long(length: int, count: int = FRAMES) -> int:
    return count * (length + LINE_OVERHEAD)


def sender_counters(rows: Rows) -> None:
    for length in SIZES:
        frames = min(FRAMES, _BUFFER // _theory(length))
        link, more = CreditLink(_credits(), drains={VC: 0}), {"frame": length, "settings": f"{frames} frames"}
        link.offer(VC, [length] * frames)
        link.run(2 * _long(length, frames) + 10_000)
        counters, total = link.sender.counters[VC], frames * _theory(length)
        for what, expected in (("held", (total, total, 0)), ("freed", (0, total, total))):
            used = counters.sender_credits_used
            found = used, counters.sender_credits_consumed, counters.sender_credits_freed
            name = f"SENDER_CREDITS_USED, _CONSUMED, _FREED when all is {what}"
            rows.equal(link, name, expected, found, **more)
            link.drain(VC, 1)
            link.run(link.now + 3 * _long(length, frames) + 200_000)


def receiver_counters(rows: Rows) -> None:
    for length in SIZES:
        frames = min(FRAMES, _BUFFER // _theory(length))
        link, more = CreditLink(_credits(), drains={VC: 0}), {"frame": length, "settings": f"{frames} frames"}
        link.offer(VC, [length] * frames)
        link.run(2 * _long(length, frames) + 10_000)
        counters, total = link.receiver.counters[VC], frames * _theory(length)
        for what, expected in (("held", (total, 0)), ("freed", (total, total))):
            found = counters.receiver_credits_consumed, counters.receiver_credits_freed
            name, notes = (
                f"RECEIVER_CREDITS_CONSUMED, _FREED when all is {what}",
                "the standard says: on the DUT's Tx port",
            )
            rows.equal(link, name, expected, found, notes=notes, **more)
            link.drain(VC, 1)
            link.run(link.now + 3 * _long(length, frames) + 200_000)


def lost_credits(rows: Rows) -> None:
    link, total = CreditLink(_credits()), FRAMES * _theory(512)
    link.lets_cc = False
    link.offer(VC, [512] * FRAMES, corrupt=True)
    link.run(2 * _long(512) + 200_000)
    receiver, sender = link.receiver.counters[VC], link.sender.counters[VC]
    name = "RECEIVER_CREDITS_CONSUMED, _FREED"
    found = receiver.receiver_credits_consumed, receiver.receiver_credits_freed
    rows.equal(link, f"{name} without CC_Updates", (0, 0), found, frame=512)
    rows.equal(link, "S_P_CU at the sender without CC_Updates", total, link.sender.port_credits_used, frame=512)
    link.resume_cc()
    link.run(link.now + 300_000)
    found = receiver.receiver_credits_consumed, receiver.receiver_credits_freed
    expected = sender.sender_credits_consumed, sender.sender_credits_freed
    rows.equal(link, f"{name} with CC_Updates, as S_VC_CC and S_VC_CF", expected, found, frame=512)
    rows.equal(link, "credits of the 100 packets", (total, total), found, frame=512)
    rows.equal(link, "S_P_CU at the sender", 0, link.sender.port_credits_used, frame=512)


def backpressure(rows: Rows) -> None:
    for length in SIZES:
        for drain in (Fraction(1), Fraction(1, 2), Fraction(0)):
            limit = needed(Link(RATE, Duration("2ns"), length, whole=True)).cells
            link = CreditLink(_credits(limit), drains={VC: drain})
            link.offer(VC, [length] * (400_000 // (length + LINE_OVERHEAD)))
            link.run(100_000)
            since, before = link.now, link.octets[VC]
            link.run(300_000)
            more = {"frame": length, "settings": f"drain {drain}, {limit} credits"}
            rows.share(link, "throughput", float(drain), link.rate(VC, since, before), **more)
            rows.equal(link, "frames that found no cell", 0, link.overflows, **more)


def _packet(version: int, dscp: int) -> bytes:
    """Return an Ethernet frame with an IP header of this DSCP."""
    ends = bytes.fromhex("020000000002020000000001")
    if version == 4:
        return ends + struct.pack("!HBBHHHBBH8x", 0x0800, 0x45, dscp << 2, 20, 0, 0, 64, 59, 0)
    return ends + struct.pack("!HIHBB32x", 0x86DD, 6 << 28 | dscp << 22, 0, 59, 64)


def _of_dscp(version: int) -> Callable[[Rows], None]:
    def rows_of(rows: Rows) -> None:
        dice = random.Random(version)
        table = {dscp: dice.randrange(8) for dscp in range(64)}
        settings = PriorityMap("dscp", dscp_to_dot1p=table)
        for dscp, vc in table.items():
            found = classify(_packet(version, dscp), settings).local
            rows.made.append(PlanRow(rows.case, f"VC of DSCP {dscp}", str(vc), str(found), found == vc,
                                     settings="a random map", notes=_CLASSIFIER))  # fmt: skip

    return rows_of


def pcp_and_dei(rows: Rows) -> None:
    dice = random.Random(5)
    plain, eligible = ({pcp: dice.randrange(8) for pcp in range(8)} for _ in range(2))
    settings = PriorityMap("dot1p", pcp_to_dot1p=plain, dei_to_dot1p=eligible)
    packet = _packet(4, 0)
    for dei, table in ((0, plain), (1, eligible)):
        for pcp, vc in table.items():
            frame = packet[:12] + struct.pack("!HH", 0x8100, pcp << 13 | dei << 12 | 5) + packet[12:]
            found = classify(frame, settings).local
            rows.made.append(PlanRow(rows.case, f"VC of PCP {pcp}, DEI {dei}", str(vc), str(found), found == vc,
                                     settings="a random map", notes=_CLASSIFIER))  # fmt: skip


def per_vc(rows: Rows) -> None:
    link = CreditLink(_credits(2048, vcs=(VC, OTHER)), drains={VC: 0})
    for vc in (VC, OTHER):
        link.offer(vc, [1518] * 2000)
    link.run(500_000)
    since, before, stopped = link.now, link.octets[OTHER], link.octets[VC]
    link.run(1_500_000)
    more = {"frame": 1518, "settings": "per VC, VC 3 drains 0"}
    alone = "alone on the line, since VC 3 stands"
    rows.share(link, "throughput of VC 4", 1.0, link.rate(OTHER, since, before), notes=alone, **more)
    rows.share(link, "throughput of VC 3", 0.0, link.rate(VC, since, stopped), **more)
    rows.equal(link, "frames that found no cell", 0, link.overflows, **more)


def per_port(rows: Rows) -> None:
    link = CreditLink(_credits(_BUFFER, vcs=(VC, OTHER), mode=CreditMode.PER_PORT))
    for vc in (VC, OTHER):
        link.offer(vc, [1518] * 2000)
    link.run(100_000)
    since, before = link.now, {vc: link.octets[vc] for vc in (VC, OTHER)}
    link.run(1_100_000)
    for vc, was in before.items():
        name = f"throughput of VC {vc} without back-pressure"
        rows.share(link, name, 0.5, link.rate(vc, since, was), frame=1518, settings="per port")
    link.drain(VC, 0)
    link.run(link.now + 500_000)
    since, was = link.now, link.octets[OTHER]
    link.run(link.now + 500_000)
    more = {"frame": 1518, "settings": "per port, VC 3 drains 0"}
    any_rate, why = "any: may or may not be affected", "the frames of VC 3 take all credits of the port"
    rows.add(
        link, "throughput of VC 4", any_rate, f"{link.rate(OTHER, since, was):.4f}", passed=True, notes=why, **more
    )
    rows.equal(link, "frames that found no cell", 0, link.overflows, **more)


def _incast(rows: Rows, senders: int, *, mixed: bool) -> None:
    note = "each source is a link of its own, whose receiver drains at its share of the port"
    for number in range(senders):
        share = Fraction(1, senders)
        drains = {VC: share / 2 if mixed else share, BEST_EFFORT: share / 2}
        link = CreditLink(_credits(2048), drains=drains, room=2048)
        for vc in (VC, BEST_EFFORT) if mixed else (VC,):
            link.offer(vc, [1518] * 2000)
        link.run(1_500_000)
        more = {"frame": 1518, "settings": f"{senders} to 1, source {number + 1}"}
        rows.add(link, "times that a frame waited for credits", "1 or more", link.waits, passed=link.waits > 0,
                 notes=note, **more)  # fmt: skip
        rows.equal(link, "lossless frames that found no cell", 0, link.overflows, **more)
        if mixed:
            lost = link.dropped[BEST_EFFORT]
            name, expected = "best-effort frames that were dropped", "1 or more: normal degradation"
            rows.add(link, name, expected, lost, passed=lost > 0, **more)


def incast(rows: Rows) -> None:
    for senders in (2, 3):
        _incast(rows, senders, mixed=False)


def mixed_incast(rows: Rows) -> None:
    for senders in (2, 3):
        _incast(rows, senders, mixed=True)


def capacity(rows: Rows) -> None:
    for length in (9216, 64):
        cable = Link(RATE, Duration("2.5us"), length, whole=True)
        limit = needed(cable).cells
        for credits, is_control in ((limit, False), (limit // 2, True)):
            link = CreditLink(_credits(credits), delay=cable.delay.ps // OCTET_PS)
            link.offer(VC, [length] * (4_000_000 // (length + LINE_OVERHEAD)))
            link.run(1_000_000)
            since, before = link.now, link.octets[VC]
            link.run(3_000_000)
            measured = link.rate(VC, since, before)
            more = {"frame": length, "settings": f"500 m there and back, {credits} credits"}
            if is_control:
                note = "not in the standard: a case has to be able to fail"
                rows.add(link, "control: throughput with half the credits", "less than 0.95", f"{measured:.4f}",
                         passed=measured < 0.95, notes=note, **more)  # fmt: skip
            else:
                rows.share(link, "throughput", 1.0, measured, **more)
                rows.equal(link, "frames that found no cell", 0, link.overflows, **more)


_CBFC: tuple[tuple[str, Callable[[Rows], None]], ...] = (
    ("Sender credits: used, consumed and freed follow the formula at all frame sizes", sender_counters),
    ("Receiver credits: consumed and freed follow the formula at all frame sizes", receiver_counters),
    ("100 corrupted packets without CC_Update, then with it: counters agree again, S_P_CU is 0", lost_credits),
    ("Drain rates of 100, 50 and 0 % at all frame sizes: throughput follows, nothing is lost", backpressure),
    ("VLAN PCP and DEI select the lossless VC", pcp_and_dei),
    ("IPv4 DSCP selects the lossless VC", _of_dscp(4)),
    ("IPv6 DSCP selects the lossless VC", _of_dscp(6)),
    ("Credits per VC: back-pressure on one leaves the other alone", per_vc),
    ("Credits per port: without back-pressure both flow; with it on one, the other may be affected", per_port),
    ("N to 1 with lossless traffic at line rate: flow control, no loss", incast),
    ("N to 1 with lossless and best-effort traffic: no lossless loss, best effort degrades", mixed_incast),
    ("500 m of round trip at line rate, longest and shortest frames: no loss, full rate", capacity),
)


def _named(case: str, model: str, text: str, run: Callable[[Rows], None]) -> PlannedCase:
    def rows() -> list[PlanRow]:
        run(made := Rows(case, model))
        return made.made

    return PlannedCase(text, rows, EXPERIMENT)


CASES: Plan = {
    case: _named(case, model, *words)
    for name, model, cases in (("LLR", retry_rows.MODEL, retry_rows.CASES), ("CBFC", _MODEL, _CBFC))
    for number, words in enumerate(cases, 1)
    for case in [f"{name}-{number:02d}"]
}
