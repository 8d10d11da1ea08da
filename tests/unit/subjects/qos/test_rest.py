"""QoS policies and path records over REST: a policy is checked first, answers follow policy and fabric."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from testbed.rest import client as rest
from testbed.rest.events import History
from testbed.rest.http import Request as HttpRequest
from testbed.rest.server import RestServer
from testbed.subjects.qos.fabric import Fabric, FabricError
from testbed.subjects.qos.model import Policy
from testbed.subjects.qos.plan import plan
from testbed.subjects.qos.records import NotFound, PathRecordRequest, PathRecords, Selector, Wanted
from testbed.subjects.qos.rest.client import RestSa
from testbed.subjects.qos.rest.messages import FabricMessage, SweepReport
from testbed.subjects.qos.rest.service import QosService
from testbed.subjects.qos.rfc_clients import BroadcastGroup, asking
from testbed.subjects.qos.syntax.grammar import XML
from testbed.subjects.qos.syntax.source import Problems
from testbed.subjects.qos.syntax.write import write
from testbed.typed_json.codec import CODEC
from tests.unit.subjects.qos.policy_samples import EXAMPLE, RFC_SAMPLE, ROOT, random_policy, small_fabric

TOKEN = "0123456789abcdef"
POLICY = """qos-levels
  qos-level
    name: DEFAULT
    sl: 1
  end-qos-level
  qos-level
    name: fast
    sl: 9
    mtu-limit: 3
  end-qos-level
end-qos-levels
qos-match-rules
  qos-match-rule
    service-id: 22
    qos-level-name: fast
  end-qos-match-rule
end-qos-match-rules
"""


class Controller:
    """A REST server with the QoS service alone."""

    def __init__(self) -> None:
        self.history = History()
        self.server = RestServer([QosService(self.history.add)], TOKEN, self.history)

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, Any]:
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"host": "localhost", "authorization": f"Bearer {TOKEN}", "content-type": kind}
        response = self.server.handle(HttpRequest(method, path, (), headers, content), 5)
        return int(response.status), json.loads(response.body) if response.body else None

    def put_policy(self, text: str | bytes) -> tuple[int, Any]:
        return self.ask("PUT", "/qos/policy", text.encode() if isinstance(text, str) else text, "text/plain")

    def put_fabric(self, fabric: Fabric | None = None) -> tuple[int, Any]:
        return self.ask("PUT", "/qos/fabric", encoded(fabric or small_fabric()))

    def path(self, source: str, destination: str, **others: Any) -> Any:
        status, answer = self.ask("POST", "/qos/path-record", {"from": source, "to": destination, **others})
        assert status == 200, answer
        return answer


def encoded(fabric: Fabric) -> Any:
    return CODEC.encode(FabricMessage.of(fabric), FabricMessage)


@pytest.fixture
def controller() -> Controller:
    made = Controller()
    assert made.put_fabric()[0] == 200
    return made


def test_a_policy_that_is_put_decides_the_path_records(controller: Controller) -> None:
    assert controller.ask("GET", "/qos/policy")[0] == 404
    assert controller.path("h1", "h3")["path"]["sl"] == 0
    status, view = controller.put_policy(POLICY)
    assert (status, view["revision"], view["syntax"], view["levels"], view["rules"]) == (200, 1, "block", 2, 1)
    assert controller.ask("GET", "/qos/policy")[1]["text"] == POLICY
    path = controller.path("h1", "h3/1", service_id="0x16")["path"]
    assert (path["sl"], path["dscp"], path["mtu"], path["level"], path["rule"]) == (9, 12, 1024, "fast", 1)
    other = controller.path("h1", "h3")["path"]
    assert (other["sl"], other["level"], other["rule"]) == (1, "DEFAULT", None)


def test_a_policy_with_errors_is_refused_with_line_and_column_and_the_old_one_stays(controller: Controller) -> None:
    controller.put_policy(POLICY)
    status, refusal = controller.put_policy(RFC_SAMPLE.read_bytes())
    assert status == 422 and refusal["detail"].startswith("the policy has ")
    errors = {(error["line"], error["column"]): error for error in refusal["errors"]}
    assert errors[32, 19]["expected"] == "16, the VL of each SL from 0 to 15"
    assert controller.ask("GET", "/qos/policy")[1]["revision"] == 1
    assert controller.path("h1", "h3")["path"]["sl"] == 1


def test_a_policy_in_xml_is_accepted_and_findings_of_the_fabric_come_with_it(controller: Controller) -> None:
    status, view = controller.put_policy(EXAMPLE.read_bytes())
    assert (status, view["syntax"]) == (200, "xml")
    assert any("matches no port" in one["message"] and one["line"] for one in view["warnings"])
    assert any(one["node"] == "s1" for one in view["warnings"]), "a node that is in no group"


def test_no_path_is_an_answer_with_its_reason(controller: Controller) -> None:
    controller.put_policy(POLICY)
    answer = controller.path("h1", "h3", sl=4)
    assert (answer["found"], answer["path"], answer["reason"]) == (False, None, "sl")
    assert answer["message"] == "SL 4 is asked for, and level DEFAULT has SL 1"


def test_another_fabric_changes_the_answers(controller: Controller) -> None:
    assert controller.path("h1", "h3")["found"]
    fabric = small_fabric()
    for key in [key for key in fabric.links if key.node == "h3" or fabric.links[key].node == "h3"]:
        del fabric.links[key]
    fabric.route()
    assert controller.put_fabric(fabric)[1]["ports"] == len(fabric.links)
    answer = controller.path("h1", "h3")
    assert (answer["found"], answer["reason"]) == (False, "no-path")


def test_ports_and_values_that_cannot_be_are_refused_by_name(controller: Controller) -> None:
    status, refusal = controller.ask("POST", "/qos/path-record", {"from": "h1", "to": "h9"})
    assert status == 422 and refusal["detail"].startswith("there is no port h9")
    status, refusal = controller.ask("POST", "/qos/path-record", {"from": "h1", "to": "h2", "sl": 16})
    assert status == 422 and refusal["field"] == "sl"
    broken = encoded(small_fabric())
    broken["links"].append(["h1/1", "h2/1"])
    status, refusal = controller.ask("PUT", "/qos/fabric", broken)
    assert status == 422 and "two cables" in refusal["detail"]
    assert controller.path("h1", "h3")["found"], "the old fabric stays"


def test_status_has_the_last_report_and_drift_is_an_event(controller: Controller) -> None:
    controller.put_policy(POLICY)
    report = {"revision": 1, "drift": ["s1/2: shares were ..."], "changes": 3, "dropped": {"h1-eth0": [0] * 16}}
    assert controller.ask("PUT", "/qos/report", report)[0] == 200
    status = controller.ask("GET", "/qos/status")[1]
    assert (status["revision"], status["qos"], status["nodes"]) == (1, True, 6)
    assert status["report"] == report
    kinds = [event.kind for event in controller.history.after(0)]
    assert kinds == ["qos-fabric", "qos-policy", "qos-drift"]


@pytest.mark.parametrize("name", ["0x0001", "0x8001", "part1"])
def test_the_broadcast_group_of_a_partition_is_found_by_p_key_or_name(controller: Controller, name: str) -> None:
    status, group = controller.ask("GET", f"/qos/broadcast-groups/{name}")
    assert (status, group) == (200, {"pkey": 1, "sl": 0, "mtu": 2048, "rate": 10**10, "tclass": 0})


def test_an_unknown_partition_is_refused_with_those_that_are_there(controller: Controller) -> None:
    status, refusal = controller.ask("GET", "/qos/broadcast-groups/x")
    assert (status, refusal["detail"]) == (404, "there is no partition 'x'; there are Default, Part1")


def test_a_fabric_as_a_message_is_the_same_fabric() -> None:
    fabric = small_fabric()
    again = CODEC.decode(FabricMessage, json.loads(json.dumps(encoded(fabric)))).fabric()
    assert FabricMessage.of(again) == FabricMessage.of(fabric)
    assert again.forwarding == fabric.forwarding and again.end_ports == fabric.end_ports
    policy = random_policy(random.Random(3))
    for source in fabric.end_ports:
        for destination in fabric.end_ports:
            request = PathRecordRequest(sgid=source.gid, dgid=destination.gid)
            assert PathRecords(policy, again).query(request) == PathRecords(policy, fabric).query(request)


def test_the_document_and_the_page_have_its_operations() -> None:
    operations = {(one.method.lower(), one.path) for one in QosService().operations}
    shipped = json.loads((ROOT / "controllers" / "openapi.json").read_text())["paths"]
    described = {(method, path) for path, methods in shipped.items() for method in methods if path.startswith("/qos/")}
    assert described == operations
    page = (ROOT / "docs" / "qos.md").read_text()
    shown = re.findall(r"^\| `([A-Z]+) (/qos/[^`]*)` \|", page, re.MULTILINE)
    assert {(method.lower(), path) for method, path in shown} == operations


def test_a_fabric_of_nothing_has_no_paths() -> None:
    with pytest.raises(FabricError, match="there is no port h1"):
        PathRecords(Policy(), Fabric()).fabric.end_port("h1")


# What clients and subnet managers use


class InMemory(rest.Client):
    """A client of REST without a socket."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        status, answer = self._controller.ask(method, path, body, content_type)
        assert status == 200, answer
        return answer


def test_requests_over_rest_have_the_answers_of_the_same_process() -> None:
    controller, fabric, rng = Controller(), small_fabric(), random.Random(9)
    sa = RestSa(InMemory(controller))
    sa.put_fabric(fabric)
    assert sa.policy() == (0, "")
    found = set()
    for number in range(1, 21):
        policy = random_policy(rng)
        text = write(policy, XML, Problems())
        assert sa.put_policy(text.encode()) == number
        assert sa.policy() == (number, text)
        local = asking(PathRecords(policy, fabric, plan(policy, fabric).tables))
        ports = [port.gid for port in fabric.end_ports]
        for _ in range(20):
            request = PathRecordRequest(
                rng.choice(ports),
                rng.choice(ports),
                service_id=rng.choice((None, rng.randrange(30))),
                tclass=rng.choice((None, rng.randrange(10))),
                pkey=rng.choice((None, 1)),
                sl=rng.choice((None, rng.randrange(16))),
                mtu=rng.choice((None, Wanted(1024, rng.choice(list(Selector))))),
                rate=rng.choice((None, Wanted(10**10, rng.choice(list(Selector))))),
            )
            assert sa.ask(request) == local(request), request
            found.add(isinstance(local(request), NotFound))
    assert found == {True, False}


def test_a_broadcast_group_and_the_capability_come_over_rest(controller: Controller) -> None:
    sa = RestSa(InMemory(controller))
    assert sa.join(1) == BroadcastGroup(1, 0, 2048, 10**10, 0)
    assert sa.class_port_info().has_qos
    sa.put_report(SweepReport(0, ("a port",), 2))
    assert controller.ask("GET", "/qos/status")[1]["report"]["drift"] == ["a port"]
