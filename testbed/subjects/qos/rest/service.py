"""QoS policies and path records as a service of the REST interface (docs/qos.md).

The subnet manager of a network puts the fabric that it discovers, reads the policy, and reports its changes; clients
ask for path records. A policy is checked before it replaces the one in force. Answers go by the planned tables of the
policy on the fabric, which the subnet manager keeps the ports to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Annotated

from testbed.rest.http import Response
from testbed.rest.problems import MissingError, Problem, problem
from testbed.rest.service import Answer, Call, Operation, RawBody
from testbed.strict.problems import Position
from testbed.strict.problems import Problem as PolicyProblem
from testbed.subjects.qos.fabric import Fabric
from testbed.subjects.qos.model import Policy
from testbed.subjects.qos.plan import Plan, plan
from testbed.subjects.qos.records import PathRecords
from testbed.subjects.qos.rest.messages import (
    Count,
    FabricMessage,
    PathAnswer,
    PathQuery,
    PolicyView,
    ProblemView,
    SweepReport,
)
from testbed.subjects.qos.rfc_clients import BroadcastGroup
from testbed.subjects.qos.setup import Finding
from testbed.subjects.qos.syntax.check import ReadPolicy, read
from testbed.subjects.qos.syntax.grammar import XML, Syntax
from testbed.subjects.qos.syntax.source import LARGEST, Problems, decode
from testbed.typed_json.codec import CODEC
from testbed.typed_json.meta import Meta, message

_LONGEST_FABRIC = 4 << 20
_MOST_VALUES = 1 << 18
_MOST_LISTED = 200
"""The most findings in one answer."""

AddEvent = Callable[[int, str, str, str], None]
"""A function that adds an event: its time, its kind, its subject, and a text."""


@message(name="QosStatus")
@dataclass(frozen=True)
class StatusView:
    """The state of policy, fabric and ports at this moment."""

    revision: Annotated[Count, Meta(description="Of the policy; 0: none has been put")]
    qos: Annotated[bool, Meta(description="The capability bit of ClassPortInfo")]
    nodes: Count
    ports: Count
    findings: tuple[ProblemView, ...]
    report: SweepReport | None


@message(name="BroadcastGroup")
@dataclass(frozen=True)
class GroupView:
    """The attributes of a partition's broadcast group."""

    pkey: Count
    sl: Count
    mtu: Count
    rate: Count
    tclass: Count


class QosService:
    """The operations under /qos."""

    name = "qos"
    event_kinds: Mapping[str, str] = {
        "qos-policy": "A QoS policy has been put",
        "qos-fabric": "The subnet manager has reported another fabric",
        "qos-drift": "Ports had something else than the policy sets, and were repaired",
    }
    codec = CODEC

    def __init__(self, add_event: AddEvent = lambda *_: None) -> None:
        self._add_event = add_event
        self._reading: ReadPolicy | None = None
        self._text = ""
        self._revision = 0
        self._fabric = Fabric()
        self._plan = Plan()
        self._report: SweepReport | None = None
        self._records = PathRecords(Policy(), self._fabric)

    @property
    def operations(self) -> tuple[Operation, ...]:
        policy = RawBody(("application/xml", "text/xml", "text/plain"), "The RFC's XML, or OpenSM's block text")
        return (
            Operation("GET", "/qos/policy", "The policy in force", self._policy, {200: PolicyView, 404: Problem}),
            Operation(
                "PUT", "/qos/policy", "Check a policy, and put it in force if it has no errors", self._put_policy,
                {200: PolicyView, 422: Problem}, body=policy, longest_body=LARGEST,
            ),
            Operation("GET", "/qos/fabric", "The fabric as it was reported", self._get_fabric, {200: FabricMessage}),
            Operation(
                "PUT", "/qos/fabric", "Report the fabric that was discovered", self._put_fabric,
                {200: StatusView, 422: Problem}, body=FabricMessage, longest_body=_LONGEST_FABRIC,
                most_values=_MOST_VALUES,
            ),
            Operation("GET", "/qos/status", "Policy, fabric and findings", self._status, {200: StatusView}),
            Operation(
                "PUT", "/qos/report", "Report a sweep of the subnet manager", self._put_report, {200: StatusView},
                body=SweepReport, most_values=_MOST_VALUES,
            ),
            Operation(
                "POST", "/qos/path-record", "Ask for a path", self._path, {200: PathAnswer, 422: Problem},
                body=PathQuery,
            ),
            Operation(
                "GET", "/qos/broadcast-groups/{pkey}", "The broadcast group of a partition", self._group,
                {200: GroupView, 404: Problem},
            ),
        )  # fmt: skip

    # Policy

    def _policy(self, call: Call) -> Answer:
        if self._reading is None:
            raise MissingError("there is no QoS policy yet; put one with PUT /qos/policy")
        return Answer(self._view(self._reading))

    def _put_policy(self, call: Call) -> Answer | Response:
        reading = read(call.body)
        if not reading.ok:
            return _refusal(reading)
        self._reading, self._text = reading, decode(call.body, Problems()).text
        self._revision += 1
        self._renew()
        policy = reading.policy
        counts = f"{len(policy.levels)} levels, {len(policy.rules) + len(policy.ulps)} rules"
        self._add_event(call.now_ns, "qos-policy", f"revision {self._revision}", f"QoS policy with {counts}")
        return Answer(self._view(reading))

    def _view(self, reading: ReadPolicy) -> PolicyView:
        policy = reading.policy
        warnings = tuple(map(_of_policy, reading.problems.warnings[:_MOST_LISTED]))
        return PolicyView(
            self._revision,
            _word(reading.syntax),
            self._text,
            len(policy.port_groups),
            len(policy.levels),
            len(policy.rules) + len(policy.ulps),
            warnings + self._findings(),
        )

    # Fabric

    def _get_fabric(self, call: Call) -> Answer:
        return Answer(FabricMessage.of(self._fabric))

    def _put_fabric(self, call: Call) -> Answer:
        fabric = call.body.fabric()
        changed = FabricMessage.of(fabric) != FabricMessage.of(self._fabric)
        self._fabric = fabric
        if changed:
            self._renew()
            text = f"{len(fabric.nodes)} nodes, {len(fabric.links) // 2} cables"
            self._add_event(call.now_ns, "qos-fabric", "fabric", text)
        return self._status(call)

    def _put_report(self, call: Call) -> Answer:
        self._report = report = call.body
        if report.drift:
            self._add_event(call.now_ns, "qos-drift", "ports", "; ".join(report.drift[:5]))
        return self._status(call)

    def _renew(self) -> None:
        """Compute tables and path records of the policy on the fabric."""
        policy = self._reading.policy if self._reading else Policy()
        self._plan = plan(policy, self._fabric)
        self._records = PathRecords(policy, self._fabric, self._plan.tables)

    # State

    def _status(self, call: Call) -> Answer:
        fabric, ports = self._fabric, len(self._plan.ports)
        return Answer(StatusView(self._revision, True, len(fabric.nodes), ports, self._findings(), self._report))

    def _findings(self) -> tuple[ProblemView, ...]:
        return tuple(map(_of_fabric, self._plan.findings[:_MOST_LISTED]))

    def _path(self, call: Call) -> Answer:
        return Answer(PathAnswer.of(call.body, self._records))

    def _group(self, call: Call) -> Answer:
        text = call.words["pkey"]
        for partition in self._fabric.all_partitions:
            if text.lower() in (f"0x{partition.pkey:04x}", f"0x{partition.pkey | 0x8000:04x}", partition.name.lower()):
                group = BroadcastGroup.of(partition)
                return Answer(GroupView(group.pkey, group.sl, group.mtu, group.rate, group.tclass))
        known = ", ".join(partition.name for partition in self._fabric.all_partitions)
        raise MissingError(f"there is no partition {text[:40]!a}; there are {known}")


def _word(syntax: Syntax) -> str:
    return "xml" if syntax is XML else "block"


def _of_policy(found: PolicyProblem[Position]) -> ProblemView:
    at = found.place
    return ProblemView(str(found.severity), found.message, at.line, at.column, found.expected)


def _of_fabric(found: Finding) -> ProblemView:
    view = ProblemView(str(found.severity), found.message, node=found.node)
    return replace(view, line=found.position.line, column=found.position.column) if found.position else view


def _refusal(reading: ReadPolicy) -> Response:
    """Return status 422 with each error, its line and its column. The first one is in the text too."""
    errors = reading.problems.errors
    text = f"the policy has {len(errors) + reading.problems.left_out} errors, and stays as it was; {errors[0]}"
    listed = [error.as_json() for error in errors[:_MOST_LISTED]]
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, text, members={"errors": listed})
