"""SR policies and VPNs as a service of the REST interface (docs/controller.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Annotated

from testbed.rest.problems import ConflictError, MissingError, Problem
from testbed.rest.service import Answer, Call, Operation
from testbed.subjects.srv6.controller.manager import Manager
from testbed.subjects.srv6.protocol.advertisement import codec
from testbed.subjects.srv6.protocol.domain import RouterName
from testbed.subjects.srv6.protocol.sid import CodePoints
from testbed.subjects.srv6.rest import answers, views
from testbed.subjects.srv6.rest.answers import EVENT_KINDS
from testbed.subjects.srv6.session.intents import Key, PolicyIntent, VpnIntent, id_of
from testbed.typed_json.meta import Meta
from testbed.typed_json.text import InvalidError


@dataclass(frozen=True)
class SidsQuery:
    """The query for SIDs."""

    router: Annotated[RouterName | None, Meta(description="Of this router only")] = None


class SrPolicyService:
    """The operations on topology, SIDs, policies, VPNs and slices."""

    name = "sr-policies"
    event_kinds = EVENT_KINDS

    def __init__(
        self,
        manager: Manager,
        *,
        remove: Callable[[str, str, int], None] | None = None,
        code_points: CodePoints = CodePoints(),
        as_number: int = 64512,
    ) -> None:
        """`remove` ends the session of a router, for a reason, and removes its reports."""
        self.manager = manager
        self.codec = codec(code_points)
        self._remove = remove
        self._code_points = code_points
        self._as_number = as_number

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        policy, vpn = {200: answers.PolicyView, 404: Problem}, {200: answers.VpnView, 404: Problem}
        new_policy = {201: answers.PolicyView, 200: answers.PolicyView}
        new_vpn = {201: answers.VpnView, 200: answers.VpnView, 409: Problem}
        gone = {204: None, 404: Problem}
        return (
            Operation("GET", "/topology", "Routers, links and switches", self._topology, {200: answers.TopologyView}),
            Operation(
                "DELETE", "/routers/{name}", "End a router's session and remove what it reported; it may connect again",
                self._delete_router, gone,
            ),
            Operation(
                "GET", "/sids", "SIDs that routers advertise", self._sids, {200: answers.Sids, 404: Problem},
                query=SidsQuery,
            ),
            Operation("GET", "/policies", "All policies", self._policies, {200: answers.Policies}),
            Operation(
                "POST", "/policies", "Request a policy", self._post_policy, new_policy | {409: Problem},
                body=PolicyIntent,
            ),
            Operation("GET", "/policies/{id}", "A policy and its state", self._policy, policy),
            Operation(
                "PUT", "/policies/{id}", "Request a policy, in place of the one there", self._put_policy, new_policy,
                body=PolicyIntent,
            ),
            Operation("DELETE", "/policies/{id}", "Withdraw a policy", self._delete_policy, gone),
            Operation(
                "GET", "/policies/{id}/reverse", "The tunnels for PFC frames of a policy", self._reverse,
                {200: answers.ReverseView, 404: Problem},
            ),
            Operation("GET", "/vpns", "All VPNs", self._vpns, {200: answers.Vpns}),
            Operation("POST", "/vpns", "Request a VPN", self._post_vpn, new_vpn, body=VpnIntent),
            Operation("GET", "/vpns/{name}", "A VPN and its state", self._vpn, vpn),
            Operation(
                "PUT", "/vpns/{name}", "Request a VPN, in place of the one there", self._put_vpn, new_vpn,
                body=VpnIntent,
            ),
            Operation("DELETE", "/vpns/{name}", "Withdraw a VPN", self._delete_vpn, gone | {409: Problem}),
            Operation("GET", "/slices", "Slices, and what is in them", self._slices, {200: answers.Slices}),
        )  # fmt: skip

    # Reading

    def _topology(self, call: Call) -> Answer:
        return Answer(views.topology(self.manager))

    def _sids(self, call: Call) -> Answer:
        router = call.query.router
        if router is not None:
            self._check_router(router)
        return Answer(views.sids(self.manager, self._code_points, self._as_number, router))

    def _policies(self, call: Call) -> Answer:
        keys = sorted(self.manager.policies, key=lambda key: (key.headend, key.colour, key.endpoint))
        return Answer(answers.Policies(tuple(views.policy(self.manager, key) for key in keys)))

    def _policy(self, call: Call) -> Answer:
        return Answer(views.policy(self.manager, self._known_policy(call)))

    def _reverse(self, call: Call) -> Answer:
        return Answer(views.reverse(self.manager, self._known_policy(call)))

    def _vpns(self, call: Call) -> Answer:
        return Answer(answers.Vpns(tuple(views.vpn(self.manager, name) for name in sorted(self.manager.vpns))))

    def _vpn(self, call: Call) -> Answer:
        name = call.words["name"]
        if name not in self.manager.vpns:
            raise MissingError(f"there is no VPN {name[:60]!a}; there are {_some(self.manager.vpns)}")
        return Answer(views.vpn(self.manager, name))

    def _slices(self, call: Call) -> Answer:
        return Answer(views.slices(self.manager))

    # Changing

    def _post_policy(self, call: Call) -> Answer:
        intent: PolicyIntent = call.body
        there = self.manager.policies.get(intent.key)
        if there is not None and there != intent:
            raise ConflictError(
                f"policy {intent.id} exists and is not the same; replace it with PUT /policies/{intent.id}"
            )
        return self._request_policy(intent, call)

    def _put_policy(self, call: Call) -> Answer:
        intent: PolicyIntent = call.body
        if intent.id != call.words["id"]:
            wanted = f"headend, colour and endpoint of the body must give it: {intent.id}"
            raise InvalidError("path.id", call.words["id"], wanted)
        return self._request_policy(intent, call)

    def _delete_policy(self, call: Call) -> Answer:
        self.manager.intents.remove_policy(self._known_policy(call), call.now_ns)
        return Answer(status=HTTPStatus.NO_CONTENT)

    def _post_vpn(self, call: Call) -> Answer:
        intent: VpnIntent = call.body
        if intent.name in self.manager.vpns and not views.same_vpn(self.manager.vpns[intent.name], intent):
            raise ConflictError(
                f"VPN {intent.name} exists and is not the same; replace it with PUT /vpns/{intent.name}"
            )
        return self._request_vpn(intent, call)

    def _put_vpn(self, call: Call) -> Answer:
        intent: VpnIntent = call.body
        if intent.name != call.words["name"]:
            raise InvalidError("path.name", call.words["name"], f"must be the body's name: {intent.name}")
        return self._request_vpn(intent, call)

    def _delete_vpn(self, call: Call) -> Answer:
        self.manager.intents.remove_vpn(call.words["name"], call.now_ns)
        return Answer(status=HTTPStatus.NO_CONTENT)

    def _delete_router(self, call: Call) -> Answer:
        name = call.words["name"]
        self._check_router(name)
        if self._remove is not None:
            self._remove(name, "an operator has removed it", call.now_ns)
        else:
            self.manager.remove_router(name, call.now_ns)
        return Answer(status=HTTPStatus.NO_CONTENT)

    def _request_policy(self, intent: PolicyIntent, call: Call) -> Answer:
        is_new = self.manager.intents.put_policy(intent, call.now_ns)
        status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
        return Answer(views.policy(self.manager, intent.key), status, {"Location": f"/policies/{intent.id}"})

    def _request_vpn(self, intent: VpnIntent, call: Call) -> Answer:
        is_new = self.manager.intents.put_vpn(intent, call.now_ns)
        status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
        return Answer(views.vpn(self.manager, intent.name), status, {"Location": f"/vpns/{intent.name}"})

    def _check_router(self, name: str) -> None:
        if name not in self.manager.reports:
            raise MissingError(f"there is no router {name[:60]!a}; there are {_some(self.manager.reports)}")

    def _known_policy(self, call: Call) -> Key:
        text = call.words["id"]
        match text.split(":"):
            case [headend, colour, endpoint] if colour.isascii() and colour.isdigit() and len(colour) <= 10:
                key = Key(headend, int(colour), endpoint)
                if key in self.manager.policies and id_of(key) == text:
                    return key
        raise MissingError(f"there is no policy {text[:60]!a}; there are {_some(map(id_of, self.manager.policies))}")


def _some(names: Iterable[str]) -> str:
    there = sorted(names)
    return ", ".join(there[:10]) + (" and more" if len(there) > 10 else "") if there else "none"
