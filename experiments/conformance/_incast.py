"""The incast of the RoCEv2 plan, for TC2 to TC4 and TC6: ranks 0 and 1 send lossless data to rank 3, and rank 2 sends
lossy data.

Not an experiment. The lossless ranks have one queue, or each a queue of its own. The lossy rank has a queue pair on
each lossy queue at a constant rate, which together are as fast as its line. So it loses frames and sends them again,
and what is claimed of losses is claimed of the lossless ranks; the lossy messages arrive, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.conformance._ranks import AGAIN, DROPPED, INCOMPLETE, KB, Ranks, missing, reports
from testbed.net.watch import readings
from xoff import Duration, Ecn, Flow, Flows, Network, RoceReport

TARGET, LOSSY = 3, 2
SENDERS = (0, 1)
SINGLE, DUAL = "one lossless queue", "two lossless queues"
FEW = 10
"""The most XOFF that are few, in percent."""
_AGAIN, _RETRIES = Duration("2ms"), 254
"""The timer of the lossy rank at 100 Gb/s, which loses the last packets of messages, too, and how often it may end."""
_UNDER_WAY = 64
"""The most messages of a queue pair of the lab that are not complete."""


def paused(scenario: str, rank: int) -> str:
    """Return the name of the claim that a rank is paused on its own priority."""
    return f"{scenario}: XOFF for rank {rank} on its priority"


def few(scenario: str) -> str:
    """Return the name of the claim that DCQCN leaves few pauses."""
    return f"{scenario}: XOFF when rates are down with DCQCN, in percent of those without"


def marked(scenario: str, rank: int) -> str:
    """Return the name of the claim that a rank's data are marked."""
    return f"{scenario}: frames of rank {rank} marked"


class Incast:
    """One scenario, in a network of its own."""

    def __init__(self, ranks: Ranks, net: Network, scenario: str) -> None:
        self.ranks, self.net, self.scenario = ranks, net, scenario
        first, second = ranks.lossless
        self.priorities = first, first if scenario.startswith(SINGLE) else second
        """The priorities of the lossless ranks."""
        self.each = ranks.filling(net, TARGET)
        """The octets of each rank, if no others are asked for."""

    def flows(
        self,
        *,
        octets: int | None = None,
        messages: Sequence[int] = (128 * KB,) * 2,
        ecn: Ecn = Ecn.NOT_ECT,
        endless: bool = False,
        **options: Any,
    ) -> list[Flow]:
        """Return the flows of ranks 0 and 1, and behind them those of the lossy rank.

        A rank with short messages has several queue pairs, so that it can have as much under way as its group holds.
        """
        each = octets or self.each
        common = options.pop("settings", self.ranks.settings)
        again = replace(common, retransmit_after=self.ranks.bench.paced(_AGAIN), retries=_RETRIES)
        whole, lossy = (None, None) if endless else (each, each // len(self.ranks.lossy))
        lossless = [
            self.ranks.flow(
                rank, TARGET, priority, whole, message=message, ecn=ecn, settings=common,
                queue_pairs=max(1, -(-each * 2 // (3 * _UNDER_WAY * message))), **options,
            )
            for rank, priority, message in zip(SENDERS, self.priorities, messages, strict=True)
        ]  # fmt: skip
        line, queues = self.ranks.bench.line, self.ranks.lossy
        options.pop("rate_control", None)
        return lossless + [
            self.ranks.flow(
                LOSSY, TARGET, priority, lossy, message=128 * KB, ecn=ecn, rate=line // len(queues), settings=again,
                target_settings=common, **options,
            )
            for priority in queues
        ]  # fmt: skip

    def claim(self, name: str, measured: Any, **bounds: Any) -> None:
        self.ranks.bench.claim(f"{self.scenario}: {name}", measured, **bounds)

    def take(self, flows: Sequence[Flow], running: Flows) -> None:
        """Read the counters of the switch and of the ranks at the end of the flows."""
        ranks, net = self.ranks, self.net
        self.lossless: list[RoceReport] = reports(running)[: len(SENDERS)]
        self.pauses = {rank: ranks.pauses(net, rank) for rank in range(TARGET)}
        self.xoffs = [
            net.fabric.pfc(ranks.port(net, rank), priority)["xoff_sent"]
            for rank, priority in zip(SENDERS, self.priorities, strict=True)
        ]
        """XOFF that the switch sent to each lossless rank on its own priority."""
        self.late_xoffs = [self._late_xoffs(rank) for rank in SENDERS]
        """Those of the second half of the time that its flow took."""
        at_target: Mapping[str, Any] = readings.ecn(net.fabric).get(ranks.port(net, TARGET), {})
        self.marks = {priority: int(at_target.get(str(priority), {}).get("marked", 0)) for priority in self.priorities}
        """Frames that the switch marked, by lossless priority."""
        self._acks = ranks.control_frames(net, [TARGET], ranks.ack)
        self._cnps = ranks.control_frames(net, [TARGET], ranks.cnp)
        self._missing = missing(flows, running)
        self._dropped = [ranks.dropped(net, sorted(set(some))) for some in (self.priorities, ranks.lossy)]
        self._running = running

    def claim_delivery(self) -> None:
        """Claim that all arrives, and that the switch counts the acknowledgements and PFC frames that the ranks do."""
        self.claim(INCOMPLETE, self._missing, equals=0)
        self.claim(AGAIN, sum(one.retransmitted for one in self.lossless), equals=0)
        self.claim(DROPPED, self._dropped[0], equals=0)
        on_queue, of_nic = self._acks
        self.claim("acknowledgements on their queue", on_queue, equals=max(1, of_nic))
        for rank, (by_switch, at_rank) in self.pauses.items():
            self.claim(f"PFC frames that rank {rank} received, by priority", at_rank, equals=by_switch)
        others = [
            frames
            for rank, (by_switch, _) in self.pauses.items()
            for priority, frames in enumerate(by_switch)
            if rank == LOSSY or priority != self.priorities[rank]
        ]
        self.claim("PFC frames for the lossy rank, or on another priority", sum(others), equals=0)
        self.ranks.bench.figure(f"{self.scenario}: lossy frames dropped", self._dropped[1])
        self.ranks.bench.figure(f"{self.scenario}: longest completion", max(one.completion for one in self.lossless))

    def claim_marks(self) -> None:
        """Claim that the data of each lossless rank are marked, as often as the switch has marked them, and that no
        CNP is lost.
        """
        for rank, report in zip(SENDERS, self.lossless, strict=True):
            self.ranks.bench.claim(marked(self.scenario, rank), report.marked, at_least=1)
        counted: dict[int, int] = dict.fromkeys(self.priorities, 0)
        for priority, report in zip(self.priorities, self.lossless, strict=True):
            counted[priority] += report.marked
        self.claim("frames marked, by lossless priority", list(counted.values()), equals=list(self.marks.values()))
        self.claim_cnps()

    def claim_no_marks(self) -> None:
        """Claim that nothing is marked, and that there are no CNPs."""
        found = reports(self._running)
        self.claim("frames marked", sum(one.marked for one in found), equals=0)
        self.claim("CNPs", sum(one.cnps_sent + one.cnps_received for one in found), equals=0)

    def claim_cnps(self) -> None:
        """Claim that CNPs come back, none of them is lost, and they are on their queue."""
        found = reports(self._running)
        sent, received = sum(one.cnps_sent for one in found), sum(one.cnps_received for one in found)
        self.claim("CNPs that senders received", received, at_least=1)
        self.claim("CNPs lost", sent - received, equals=0)
        on_queue, of_nic = self._cnps
        self.claim("frames on the queue of CNPs", on_queue, equals=max(sent, of_nic))

    def few_pauses(self, without: "Incast") -> int:
        """Return XOFF in the second half of the flows' times in percent of those of the same incast without DCQCN, of
        the rank that has the most. In the first half rates come down from that of the line.
        """
        counts = zip(self.late_xoffs, without.late_xoffs, strict=True)
        return max(count * 100 // max(1, other) for count, other in counts)

    def _late_xoffs(self, rank: int) -> int:
        port, report = self.ranks.port(self.net, rank), self.lossless[rank]
        middle_ns = (report.begin_lab_ns + report.last_lab_ns) // 2
        return sum(
            event.kind == "xoff_sent" and event.port == port and event.lab_ns > middle_ns
            and self.priorities[rank] in event.priorities
            for event in self.net.fabric.events()
        )  # fmt: skip
