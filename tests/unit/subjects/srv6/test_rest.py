"""The controller's REST: every operation, every error, and the document that describes them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.services import description
from testbed.errors import UsageError
from testbed.rest.events import History
from testbed.rest.http import Request, Response
from testbed.rest.openapi import document, operation_statuses
from testbed.rest.problems import Problem
from testbed.rest.server import RestServer
from testbed.rest.service import register
from testbed.subjects.srv6.controller.manager import Leaf, Manager
from testbed.subjects.srv6.rest.answers import Policies
from testbed.subjects.srv6.rest.service import SrPolicyService
from testbed.subjects.srv6.session.messages import Pause, TunnelItem
from testbed.typed_json.codec import CODEC
from testbed.typed_json.text import InvalidError
from tests.unit.subjects.srv6.srv6_control import World

ROOT = Path(__file__).parents[4]
TOKEN = "a-token-for-tests-only"

VPN: dict[str, Any] = {
    "name": "red",
    "colour": 100,
    "sites": [
        {"router": "R1", "interfaces": ["r1-eth0"], "prefixes": ["10.1.0.0/16"]},
        {"router": "R3", "interfaces": ["r3-eth0"], "prefixes": ["10.3.0.0/16", "fd00:3::/64"]},
    ],
}
POLICY: dict[str, Any] = {"headend": "R1", "colour": 100, "endpoint": "R3", "vpn": "red"}


def server(manager: Manager, **settings: Any) -> RestServer:
    remove = settings.pop("remove", None)
    return RestServer([SrPolicyService(manager, remove=remove)], TOKEN, manager.history, **settings)


OF_SERVICE = server(Manager()).services
OPERATIONS = [registered for methods in register(OF_SERVICE).values() for registered in methods.values()]
DOCUMENT = document(OF_SERVICE)


class Client:
    """A client that checks every answer against the description."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.north = server(world.manager)
        self.checked: set[tuple[str, str, int]] = set()  # operations, and statuses that they answered with

    def raw(self, method: str, path: str, body: bytes = b"", **headers: str) -> Response:
        path, _, query = path.partition("?")
        pairs = tuple(tuple(part.split("=")) for part in query.split("&")) if query else ()
        said = {"host": "127.0.0.1:8181", "authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        said |= {name.replace("_", "-"): value for name, value in headers.items()}
        request = Request(method, path, pairs, said, body)  # type: ignore[arg-type]
        response = self.north.handle(request, self.world.now_ns)
        self.world.run()
        self._check(method, path, response)
        return response

    def ask(self, method: str, path: str, body: Any = None, expect: int = 200, **headers: str) -> Any:
        response = self.raw(method, path, b"" if body is None else json.dumps(body).encode(), **headers)
        assert response.status == expect, response.body
        return json.loads(response.body) if response.body else None

    def _check(self, method: str, path: str, response: Response) -> None:
        for registered in OPERATIONS:
            operation = registered.operation
            parts = zip(operation.path.split("/"), path.split("/"), strict=False)
            same = operation.path.count("/") == path.count("/") and all(a == b or a[:1] == "{" for a, b in parts)
            if same and operation.method == method:
                kind = operation_statuses(operation)[int(response.status)]
                if response.events_after is not None:
                    assert response.content_type == "text/event-stream"
                elif response.body:
                    registered.codec.decode(kind, json.loads(response.body))
                else:
                    assert kind is None
                self.checked.add((method, operation.path, int(response.status)))
                return
        assert response.status in (401, 404, 405)
        CODEC.decode(Problem, json.loads(response.body))


@pytest.fixture
def client() -> Client:
    world = World(slices=frozenset({7}))
    router = world.routers["R3"].router
    router.know(replace(router.known, router_id=None), 0)
    world.connect()
    return Client(world)


@pytest.fixture
def full(client: Client) -> Client:
    """Return a client of a controller with a VPN and a policy."""
    client.ask("POST", "/vpns", VPN, 201)
    client.ask("POST", "/policies", POLICY, 201)
    return client


# The document


def test_the_shipped_openapi_document_is_the_one_served_and_has_every_operation(client: Client) -> None:
    shipped = json.loads((ROOT / "controllers" / "openapi.json").read_text())
    assert shipped == description(), "write it anew: python3 -m controllers --openapi > controllers/openapi.json"
    served = client.ask("GET", "/openapi.json", authorization="")
    assert served["paths"].items() <= shipped["paths"].items(), "there are the other services, too"
    described = {(method.upper(), path) for path, methods in served["paths"].items() for method in methods}
    assert described == {(one.operation.method, one.operation.path) for one in OPERATIONS}


def test_the_page_shows_what_there_is(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "controller.md").read_text()
    blocks = re.findall(r"^```(json|python)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["json", "python", "json"]  # the last is what an IGP says
    client.ask("POST", "/vpns", json.loads(blocks[0][1]), 201)
    exec(blocks[1][1], {})
    assert "xoff-srv6" in capsys.readouterr().out
    paths = {
        path for cells in re.findall(r"^\| (`/.*?`) \|", page, re.MULTILINE) for path in re.findall("`(.*?)`", cells)
    }
    assert paths == {one.operation.path for one in OPERATIONS} - {"/openapi.json"}
    for status in DOCUMENT["components"]["schemas"]["Policy"]["properties"]["status"]["enum"]:
        assert f"`{status}`" in page


def test_every_reference_and_pattern_of_the_document_is_sound() -> None:
    text = json.dumps(DOCUMENT)
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names == DOCUMENT["components"]["schemas"].keys()

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("pattern"), str):
                assert value["pattern"].startswith("^") and value["pattern"].endswith("$")
            for member in value.values():
                walk(member)
        elif isinstance(value, list):
            for member in value:
                walk(member)

    walk(DOCUMENT)
    identifiers = [entry["operationId"] for path in DOCUMENT["paths"].values() for entry in path.values()]
    assert len(set(identifiers)) == len(identifiers)


# What it is for


def test_from_an_intent_to_installed_tunnels(client: Client) -> None:
    vpn = client.ask("POST", "/vpns", VPN, 201)
    assert [site["sid"] for site in vpn["intent"]["sites"]] == ["fd00:a:1:d000::", "fd00:a:3:d000::"]
    response = client.raw("POST", "/policies", json.dumps(POLICY).encode())
    assert response.status == 201 and response.headers["Location"] == "/policies/R1:100:R3"
    policy = client.ask("GET", "/policies/R1:100:R3")
    assert policy["status"] == "active" and policy["why"] is None
    assert policy["active"] == {
        "candidate": "dynamic",
        "routers": ["R1", "R2", "R3"],
        "segments": ["fd00:a:1:f02::", "fd00:a:2:1::", "fd00:a:3:d000::"],
        "delay_ns": 10_000_000,
    }
    assert policy["pairs"] == [{"upstream": "R1", "downstream": "R3", "missing": []}]
    reverse = client.ask("GET", "/policies/R1:100:R3/reverse")
    assert [(t["direction"], t["router"], t["segments"], t["state"]) for t in reverse["tunnels"]] == [
        ("back", "R3", ["fd00:a:3:1::", "fd00:a:2:1::", "fd00:a:1:f02::"], "installed"),
        ("forth", "R1", ["fd00:a:1:1::", "fd00:a:2:1::", "fd00:a:3:f02::"], "installed"),
    ]
    assert client.ask("GET", "/policies")["policies"] == [policy]
    assert client.ask("GET", "/vpns/red")["policies"] == ["R1:100:R3"]
    assert client.ask("GET", "/vpns")["vpns"] == [client.ask("GET", "/vpns/red")]
    assert [site["state"] for site in client.ask("GET", "/vpns/red")["sites"]] == ["installed", "installed"]


def test_the_same_intent_again_is_fine_another_is_a_conflict_and_put_replaces(full: Client) -> None:
    assert full.ask("POST", "/policies", POLICY)["id"] == "R1:100:R3"
    full.ask("POST", "/vpns", VPN)
    changed = POLICY | {"candidates": [{"type": "dynamic", "preference": 7}]}
    said = full.ask("POST", "/policies", changed, 409)
    assert said["detail"].endswith("replace it with PUT /policies/R1:100:R3")
    assert full.ask("PUT", "/policies/R1:100:R3", changed)["intent"]["candidates"][0]["preference"] == 7
    assert "PUT /vpns/red" in full.ask("POST", "/vpns", VPN | {"slice": 7}, 409)["detail"]
    assert full.ask("PUT", "/vpns/red", VPN | {"slice": 7})["intent"]["slice"] == 7
    assert full.ask("GET", "/policies/R1:100:R3")["slice"] == 7
    other = {"headend": "R3", "colour": 100, "endpoint": "R1", "vpn": "red"}
    full.ask("PUT", "/policies/R3:100:R1", other, 201)
    full.ask("PUT", "/vpns/blue", {**VPN, "name": "blue", "sites": VPN["sites"][:1]}, 422)


def test_what_is_taken_back_is_gone(full: Client) -> None:
    said = full.ask("DELETE", "/vpns/red", expect=409)["detail"]
    assert said == "VPN red is carried by R1:100:R3; remove these policies first"
    full.ask("DELETE", "/policies/R1:100:R3", expect=204)
    full.ask("DELETE", "/vpns/red", expect=204)
    assert full.ask("GET", "/policies") == {"policies": []}
    assert not any(fake.router.installed for fake in full.world.routers.values())
    for path in ("/policies/R1:100:R3", "/vpns/red"):
        assert full.ask("DELETE", path, expect=404)["detail"].endswith("there are none")


def test_a_policy_that_is_not_active_has_a_reason(full: Client) -> None:
    def status() -> tuple[str, str | None]:
        said = full.ask("GET", "/policies/R1:100:R3")
        return said["status"], said["why"]

    world = full.world
    world.routers["R2"].set_link("to3", world.now_ns, up=False)
    world.run()
    assert status() == ("no path", "dynamic: no path from R1 to R3 meets the constraints")
    assert full.ask("GET", "/policies/R1:100:R3")["active"] is None
    world.routers["R3"].is_slow = True
    world.routers["R2"].set_link("to3", world.now_ns, up=True)
    world.routers["R3"].set_link("to2", world.now_ns, delay_ns=50_000_000)
    world.run()
    world.disconnect("R1")
    assert status() == ("away", "R1 has no session, and keeps what it had")
    world.restart()
    full.north = server(world.manager)
    world.connect("R1")
    assert status() == ("waiting", "waiting for R2 to report")
    world.routers["R1"].refuses = lambda item: None if isinstance(item, TunnelItem) else "the kernel has no room"
    world.routers["R1"].router.installed.clear()
    world.restart()
    full.north = server(world.manager)
    world.routers["R3"].is_slow = False
    world.connect()
    full.ask("POST", "/policies", POLICY, 201)
    assert status() == ("refused", "the kernel has no room")


def test_a_policy_whose_path_a_new_controller_does_not_know_stays_installed(full: Client) -> None:
    full.world.restart()
    full.north = server(full.world.manager)
    full.world.connect("R1", "R3")
    full.world.run(11 * 10**9)
    said = full.ask("GET", "/policies/R1:100:R3")
    assert said["status"] == "waiting"
    assert said["why"] == "R2 has not reported, and without it there is no known path; what is installed stays"
    full.world.connect("R2")
    assert full.ask("GET", "/policies/R1:100:R3")["status"] == "active"


def test_the_topology_shows_routers_links_pauses_and_switches(full: Client) -> None:
    world = full.world
    world.manager.put_leaf(0x2A, Leaf("s1", ((1, "s1-eth1", True),), (("02:00:00:00:00:01", 1),), ((2, "s2", 3),)), 0)
    pfc = world.manager.network.topology.sids("R1")[-1]
    world.routers["R1"].router.report(Pause(pfc.address, "to2", 3, 7, stopped=True), 0)
    world.routers["R1"].router.count({"pfc acted on": 1}, 0)
    world.run()
    world.disconnect("R2")
    said = full.ask("GET", "/topology")
    assert [(r["name"], r["state"], r["pfc_capable"]) for r in said["routers"]] == [
        ("R1", "here", True), ("R2", "away", False), ("R3", "here", True)
    ]  # fmt: skip
    assert said["routers"][0]["pauses"][0]["slice"] == 7
    assert said["routers"][0]["counters"] == {"pfc acted on": 1}
    assert [(link["name"], link["up"], [end["pfc"] for end in link["ends"]]) for link in said["links"]] == [
        ("R1:to2-R2:to1", True, [True, False]),
        ("R2:to3-R3:to2", True, [False, True]),
    ]
    assert said["leaves"][0]["datapath"] == "000000000000002a"
    world.run(5 * 10**9)
    assert full.ask("GET", "/topology")["routers"][1]["state"] == "lost"


def test_sids_come_in_the_shape_of_rfc_9514_as_json_and_as_octets(client: Client) -> None:
    from testbed.subjects.srv6.protocol import advertisement
    from testbed.subjects.srv6.protocol.sid import CodePoints, Sid

    sids = client.ask("GET", "/sids?router=R1")["sids"]
    assert {sid["endpoint_behavior"]["name"] for sid in sids} == {"End", "End.X", "End.X.PFC"}
    for sid in sids:
        octets = {name: bytes.fromhex(text) for name, text in sid.pop("tlvs").items() if text}
        known = advertisement.codec(CodePoints()).decode(Sid, sid)
        node, announced = advertisement.parse(octets["nlri"], octets["attribute"], CodePoints())
        assert (announced.address, announced.behaviour) == (known.address, known.behaviour)
        assert node.router_id == IPv4Address("10.0.0.1")
        assert ("end_x" in octets) == known.behaviour.has_adjacencies
    assert client.ask("GET", "/sids?router=R3")["sids"][0]["tlvs"]["nlri"] is None  # it has said no router id
    assert len(client.ask("GET", "/sids")["sids"]) > len(sids)
    assert "there is no router 'R9'" in client.ask("GET", "/sids?router=R9", expect=404)["detail"]


def test_slices_show_what_is_in_them(full: Client) -> None:
    full.ask("PUT", "/vpns/red", VPN | {"slice": 7})
    (entry,) = full.ask("GET", "/slices")["slices"]
    assert (entry["id"], entry["names"], entry["policies"], entry["vpns"]) == (7, ["slice 7"], ["R1:100:R3"], ["red"])
    assert len(entry["links"]) == 2 and len(entry["routers"]) == 3


def test_events_come_as_a_list_or_as_a_stream_that_can_be_resumed(full: Client) -> None:
    listed = full.ask("GET", "/events?follow=false")
    assert [event["sequence"] for event in listed["events"]] == list(range(1, listed["last"] + 1))
    assert full.ask("GET", f"/events?follow=false&after={listed['last'] - 2}")["events"] == listed["events"][-2:]
    response = full.raw("GET", "/events?after=3")
    assert response.events_after == 3 and response.content_type == "text/event-stream"
    assert full.raw("GET", "/events", last_event_id="7").events_after == 7
    octets, last = full.north.events(listed["last"] - 1)
    newest = listed["events"][-1]
    assert octets.decode() == f"id: {last}\nevent: {newest['kind']}\ndata: {json.dumps(newest)}\n\n"
    assert full.north.events(last) == (b"", last)
    octets, last = full.north.events(10**9)  # of a controller before this one
    assert octets.startswith(b"event: gap\n") and last == listed["last"]


# Errors


@pytest.mark.parametrize("method, path", sorted((one.operation.method, one.operation.path) for one in OPERATIONS))
@pytest.mark.parametrize(
    ("said", "why"),
    [("", "there is no token"), ("Bearer wrong", "the token is wrong"), (f"Basic {TOKEN}", "the token is wrong")],
)
def test_without_the_token_nothing_is_read_or_written(
    client: Client, method: str, path: str, said: str, why: str
) -> None:
    if path == "/openapi.json":
        return
    response = client.raw(method, path.format(id="x", name="x"), authorization=said)
    assert response.status == 401
    assert response.headers == {"WWW-Authenticate": 'Bearer realm="xoff"'}
    assert json.loads(response.body)["detail"].startswith(why)
    assert client.north.counters["without_token"] == 1


def test_paths_and_methods_that_are_not_there_are_named_with_those_that_are(client: Client) -> None:
    assert (
        client.ask("GET", "/policy", expect=404)["detail"] == "there is nothing at '/policy'; did you mean /policies?"
    )
    assert "there are /openapi.json, /topology" in client.ask("GET", "/x/y/z/w", expect=404)["detail"]
    client.ask("GET", "/x/y/z/w", expect=401, authorization="")
    response = client.raw("PATCH", "/policies")
    assert (response.status, response.headers) == (405, {"Allow": "GET, POST"})
    client.ask("DELETE", "/openapi.json", expect=405, authorization="")


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/policies", b"{", 400, (None, "must be JSON")),
        ("/policies", b'{"colour":1,"colour":2}', 400, (None, "member 'colour' is repeated in one object")),
        ("/policies", [], 400, (None, "must be an object")),
        ("/policies", {}, 422, ("headend", "headend is missing; add it, for example 'R1'")),
        ("/policies", POLICY | {"colour": "red"}, 422, ("colour", "colour is 'red'; must be an integer")),
        ("/policies", POLICY | {"colour": 0}, 422, ("colour", "colour is 0; must be 1 to 4294967295")),
        ("/policies", POLICY | {"color": 7}, 422, ("color", "unknown member; known are headend, colour, endpoint")),
        ("/policies", POLICY | {"slice": -1}, 422, ("slice", "slice is -1; must be 0 to 4294967295")),
        ("/policies", POLICY | {"endpoint": "R9"}, 422, ("endpoint", "there is no router 'R9'; there are R1, R2, R3")),
        ("/policies", POLICY | {"endpoint": "R1"}, 422, (None, "policy R1 to R1, colour 100 ends where it starts")),
        ("/policies", POLICY | {"vpn": "blue", "colour": 7}, 422, ("vpn", "there is no such VPN; there are red")),
        ("/policies", POLICY | {"service": "fd00::1"}, 422, (None, "leave the service out, it is the VPN's SID")),
        ("/policies", POLICY | {"binding_sid": "10.0.0.1"}, 422, ("binding_sid", "must be an IPv6 address")),
        ("/policies", POLICY | {"candidates": []}, 422, ("candidates", "must have 1 to 16 members, not 0")),
        (
            "/policies",
            POLICY | {"candidates": [{"type": "dynamic", "max_delay_ns": "1ms"}]},
            422, ("candidates[0].max_delay_ns", "max_delay_ns is '1ms'; must be an integer"),
        ),
        (
            "/policies",
            POLICY | {"candidates": [{"type": "explicit", "segments": ["fd00::1", "x"]}]},
            422, ("candidates[0].segments[1]", "candidates[0].segments[1] is 'x'; must be an IPv6 address"),
        ),
        (
            "/policies",
            POLICY | {"candidates": [{"type": "dynamic"}, {"type": "dynamic", "name": "b"}]},
            422, (None, "one of the two has to differ, so that it is clear which one wins"),
        ),
        ("/vpns", VPN | {"sites": []}, 422, ("sites", "must have 1 to 256 members, not 0")),
        ("/vpns", VPN | {"behaviour": "End.DX4"}, 422, ("behaviour", "must be one of End.DT4, End.DT6, End.DT46")),
        ("/vpns", VPN | {"name": "blue"}, 422, ("sites[0].interfaces[0]", "it belongs to VPN red; take it out there")),
    ],
)  # fmt: skip
def test_a_wrong_body_names_field_value_and_way_out_and_changes_nothing(
    full: Client, path: str, body: Any, status: int, said: tuple[str | None, str]
) -> None:
    field, text = said
    before = (dict(full.world.manager.policies), dict(full.world.manager.vpns), full.world.log())
    octets = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = full.raw("POST", path, octets)
    found = json.loads(response.body)
    assert response.status == status == found["status"] and response.content_type == "application/problem+json"
    assert text in found["detail"]
    assert found.get("field") == field
    if field:
        assert found["wanted"] and "value" in found
    assert (full.world.manager.policies, full.world.manager.vpns) == before[:2] and full.world.log() == []


def test_other_mistakes_of_a_request_are_named(full: Client) -> None:
    assert (
        "send Content-Type: application/json" in full.ask("POST", "/policies", POLICY, 415, content_type="")["detail"]
    )
    said = full.ask("PUT", "/policies/R1:7:R3", POLICY, 422)
    assert said["field"] == "path.id" and said["wanted"].endswith("R1:100:R3")
    assert full.ask("PUT", "/vpns/blue", VPN, 422)["field"] == "path.name"
    assert full.ask("GET", "/events?since=3", expect=422)["field"] == "query.since"
    said = full.ask("GET", "/events?after=-3", expect=422)
    assert said["detail"].startswith("query.after is '-3'; must match [0-9]{1,15}")
    assert full.ask("GET", "/sids?router=R%201", expect=422)["field"] == "query.router"
    said = full.ask("GET", "/events?follow=no", expect=422)
    assert said["detail"] == "query.follow is 'no'; must be one of true, false"
    assert full.ask("GET", "/policies/R1:7:R3", expect=404)["detail"].endswith("there are R1:100:R3")
    assert full.ask("GET", "/policies/nothing/reverse", expect=404)["detail"].startswith("there is no policy 'nothing'")
    assert full.ask("GET", "/vpns/nothing", expect=404)["detail"] == "there is no VPN 'nothing'; there are red"


@pytest.mark.parametrize("token", ["short", "x" * 15, "with a space in its middle", "ümlaut-ümlaut-ümlaut"])
def test_a_weak_or_unsendable_token_is_refused(token: str) -> None:
    with pytest.raises(UsageError, match="it needs 16 or more, printable ASCII, no spaces"):
        RestServer([], token, History())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(
    st.sampled_from(["/policies", "/vpns"]),
    st.sampled_from(sorted(POLICY) + sorted(VPN) + ["candidates", "binding_sid", "slice", "service"]),
    JSON,
)
def test_whatever_is_sent_is_taken_up_or_refused_with_a_problem(path: str, field: str, value: Any) -> None:
    world = World()
    world.connect()
    client = Client(world)
    client.ask("POST", "/vpns", VPN, 201)
    body = (POLICY if path == "/policies" else VPN | {"name": "blue", "sites": VPN["sites"][1:]}) | {field: value}
    response = client.raw("POST", path, json.dumps(body).encode())
    assert response.status in (200, 201, 400, 409, 422)
    if response.status >= 400:
        assert len(world.manager.policies) == 0 and list(world.manager.vpns) == ["red"]


SCRIPT: list[tuple[int, str, str, Any]] = [
    (200, "GET", "/openapi.json", None),
    (200, "GET", "/topology", None),
    (200, "GET", "/sids", None),
    (404, "GET", "/sids?router=R9", None),
    (422, "GET", "/sids?router=9", None),
    (200, "GET", "/slices", None),
    (200, "GET", "/events?follow=false", None),
    (422, "GET", "/events?after=x", None),
    (201, "POST", "/vpns", VPN),
    (200, "POST", "/vpns", VPN),
    (409, "POST", "/vpns", VPN | {"slice": 7}),
    (422, "POST", "/vpns", {}),
    (400, "POST", "/vpns", b"{"),
    (200, "PUT", "/vpns/red", VPN | {"slice": 7}),
    (201, "PUT", "/vpns/blue", VPN | {"name": "blue", "sites": [{**VPN["sites"][0], "interfaces": ["x"]}]}),
    (422, "PUT", "/vpns/green", VPN),
    (400, "PUT", "/vpns/green", []),
    (200, "GET", "/vpns", None),
    (200, "GET", "/vpns/red", None),
    (404, "GET", "/vpns/green", None),
    (201, "POST", "/policies", POLICY),
    (200, "POST", "/policies", POLICY),
    (409, "POST", "/policies", POLICY | {"slice": 7}),
    (422, "POST", "/policies", {}),
    (400, "POST", "/policies", b"{"),
    (200, "PUT", "/policies/R1:100:R3", POLICY),
    (201, "PUT", "/policies/R3:100:R1", POLICY | {"headend": "R3", "endpoint": "R1"}),
    (422, "PUT", "/policies/R3:100:R1", POLICY),
    (400, "PUT", "/policies/R3:100:R1", 7),
    (409, "PUT", "/vpns/red", VPN | {"colour": 7}),
    (200, "GET", "/policies", None),
    (200, "GET", "/policies/R1:100:R3", None),
    (404, "GET", "/policies/R1:7:R3", None),
    (200, "GET", "/policies/R1:100:R3/reverse", None),
    (404, "GET", "/policies/R1:7:R3/reverse", None),
    (409, "DELETE", "/vpns/red", None),
    (204, "DELETE", "/policies/R1:100:R3", None),
    (404, "DELETE", "/policies/R1:100:R3", None),
    (204, "DELETE", "/vpns/blue", None),
    (404, "DELETE", "/vpns/blue", None),
    (204, "DELETE", "/routers/R2", None),
    (404, "DELETE", "/routers/R2", None),
]


def test_each_operation_answers_with_each_status_that_it_describes_and_with_no_other(client: Client) -> None:
    for status, method, path, body in SCRIPT:
        octets = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        assert client.raw(method, path, octets).status == status, (method, path)
        if path != "/openapi.json":
            client.raw(method, path, octets, authorization="")
        client.raw(method, path, octets, host="another.example")
        if body is not None:
            client.raw(method, path, octets, content_type="text/plain")
    described = {
        (method.upper(), path, int(status))
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        for status in operation["responses"]
    }
    # How many may follow is for those who have the sockets.
    assert client.checked == described - {("GET", "/events", 503)}


def test_the_checker_of_answers_can_fail() -> None:
    with pytest.raises(InvalidError):
        CODEC.decode(Policies, {"policies": [{}]})


def test_queues_paused_without_a_slice_and_in_one_are_shown_together(client: Client) -> None:
    """Check a defect, which gave status 500: None and a number have no order."""
    for slice_id in (7, None, 3):
        pause = Pause(IPv6Address("fd00:a:1:f02::"), "to2", 3, slice_id, stopped=True)
        client.world.manager.receive("R1", pause, client.world.now_ns)
    (router,) = [one for one in client.ask("GET", "/topology")["routers"] if one["name"] == "R1"]
    assert [pause["slice"] for pause in router["pauses"]] == [None, 3, 7]


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8181", "[::1]:8181", "localhost", "LOCALHOST.:8181", "192.0.2.1", "r.test"]
)
def test_a_request_by_an_address_or_a_name_of_the_service_is_answered(client: Client, host: str) -> None:
    client.north = server(client.world.manager, names=["R.test"])
    client.ask("GET", "/topology", host=host)


@pytest.mark.parametrize("host", ["", "evil.example:8181", "127.0.0.1.evil.example", "localhost@evil.example", "1::]x"])
@pytest.mark.parametrize("path", ["/topology", "/openapi.json"])
def test_a_request_by_the_name_of_another_is_refused(client: Client, host: str, path: str) -> None:
    """Check that a web page whose name resolves to this address (DNS rebinding) gets no answer."""
    said = client.ask("GET", path, expect=421, host=host)
    assert "is not a name of this service" in said["detail"]


def test_a_removed_router_is_not_waited_for(client: Client) -> None:
    world = client.world
    client.ask("POST", "/vpns", VPN, 201)
    client.ask("POST", "/policies", POLICY, 201)
    client.north = server(world.manager, remove=world.south.remove)
    assert client.ask("GET", "/policies/R1:100:R3")["status"] == "active"
    client.ask("DELETE", "/routers/R2", expect=204)
    topology = client.ask("GET", "/topology")
    assert [router["name"] for router in topology["routers"]] == ["R1", "R3"] and topology["unreported"] == []
    assert client.ask("GET", "/policies/R1:100:R3")["status"] == "no path"
    assert "there are R1, R3" in client.ask("DELETE", "/routers/R2", expect=404)["detail"]
    world.connect("R2")
    assert client.ask("GET", "/policies/R1:100:R3")["status"] == "active"
