"""Marking rules of one's own in qdisc red: what they mark, what happens after a fault, and what a run says of it."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.errors import UsageError
from testbed.lab import Run, experiment
from xoff import Ecn, EcnCurve, Fabric, Flow, Incast, MarkingReading, MarkingRule, Port, PortLine, QueuedFrame, network

MARKS = {"*": [("engines", "um")]}
PORT = Port(ecn={3: EcnCurve.step("20kB")})
FROM = 20_000


class Step(MarkingRule):
    """The curve of the port as a rule, and the queue as the rule sees it."""

    def __init__(self, line: PortLine) -> None:
        super().__init__(line)
        self.arrived = self.departed = self.worst_lab_ns = self.longest = 0

    def on_arrival(self, frame: QueuedFrame) -> bool:
        self.arrived += 1
        self.longest = max(self.longest, frame.queued_octets + frame.octets)
        return frame.queued_octets >= FROM

    def on_departure(self, frame: QueuedFrame) -> bool:
        self.departed += 1
        self.worst_lab_ns = max(self.worst_lab_ns, frame.waited_lab_ns)
        return False

    def state(self) -> dict[str, float]:
        return {"in": self.arrived, "out": self.departed, "worst_lab_ns": self.worst_lab_ns, "longest": self.longest}


class Departing(MarkingRule):
    """A mark for every tenth frame that leaves."""

    def __init__(self, line: PortLine) -> None:
        super().__init__(line)
        self.left = 0

    def on_departure(self, frame: QueuedFrame) -> bool:
        self.left += 1
        return self.left % 10 == 0


class Dividing(MarkingRule):
    """A fault at the 100th frame."""

    def __init__(self, line: PortLine) -> None:
        super().__init__(line)
        self.left = 100

    def on_arrival(self, frame: QueuedFrame) -> bool:
        self.left -= 1
        return 100 // self.left < 0


@dataclass(frozen=True)
class Seen:
    """What has become of 400 frames from two hosts."""

    ecn: tuple[int, ...]
    """How many arrived with each ECN field."""
    reading: MarkingReading | None
    longest: int
    fabric: Fabric


def _run(port: Port) -> Seen:
    with network(Incast(2, port=port, hopts={"port": Port()}, total=4000)) as net:
        flows = net.run(*(Flow(host, "r", count=200, ecn=Ecn.ECT_0) for host in ("h1", "h2")))
        assert flows.lost == 0
        reading = net.fabric.marking("s1-eth3") if port.marking else None
        longest = net.fabric.sent("s1-eth3").most_queued_bytes[3]
    ecn = tuple(map(sum, zip(*(report.ecn for report in flows.reports), strict=True)))
    return Seen(ecn, reading, longest, net.fabric)


@experiment
def test_a_step_as_a_rule_marks_what_the_curve_marks(run: Run) -> None:
    by_curve, by_rule = _run(PORT), _run(PORT.with_marking(Step))
    run.claim("marked", by_rule.ecn, equals=by_curve.ecn)
    run.claim("some are marked", by_rule.ecn[3], at_least=20)
    assert by_rule.reading is not None
    state = by_rule.reading.state
    run.claim("frames that came and left", [state["in"], state["out"]], equals=[400, 400])
    run.claim("asked", by_rule.reading.asked, equals=800)
    run.claim("longest queue", state["longest"], equals=by_rule.longest)


@experiment
def test_frames_are_marked_as_they_leave(run: Run) -> None:
    run.claim("marked", _run(PORT.with_marking(Departing)).ecn, equals=(0, 0, 360, 40))


@experiment
def test_the_curve_marks_after_a_fault_and_no_frame_is_lost(run: Run) -> None:
    by_curve, by_rule = _run(PORT), _run(PORT.with_marking(Dividing))
    run.claim("all frames", sum(by_rule.ecn), equals=400)
    run.claim(
        "marked by the curve, once the rule has had its fault", by_rule.ecn[3], at_least=1, at_most=by_curve.ecn[3]
    )
    read = by_rule.reading
    assert read is not None
    run.claim("fault", read.fault.partition(":")[0], equals="a division by 0, at test_marking.py")
    run.claim("asked", read.asked, equals=100)
    log = by_rule.fabric.core.log
    faults = [event for event in log.decoded(log.kept_records) if event.kind == "rule_fault"]
    run.claim("events", [(one.port, one.priorities) for one in faults], equals=[("s1-eth3", (3,))])
    run.claim("moment", faults[0].lab_ns, equals=read.fault_lab_ns)


class Unbounded(MarkingRule):
    """State that has no code."""

    def __init__(self, line: PortLine) -> None:
        super().__init__(line)
        self.seen: dict[int, int] = {}

    def on_arrival(self, frame: QueuedFrame) -> bool:
        self.seen[frame.octets] = 1
        return False


@experiment
def test_a_class_that_has_no_code_is_refused_before_the_network_starts(run: Run) -> None:
    try:
        _run(PORT.with_marking(Unbounded))
        said = ""
    except UsageError as error:
        said = str(error)
    run.figure("refusal", said)
    run.claim("names port, class and place", said.startswith(
        "s1-eth1: the marking rule Unbounded has no code: test_marking.py:"), equals=True)  # fmt: skip
