"""`xoff controller sr` where no controller is needed: what is asked, what is shown, and mistakes."""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from controllers.settings import Address, Settings, make_secrets
from testbed.cli import main
from testbed.errors import UsageError
from testbed.rest.client import Client
from testbed.rest.http import Request
from testbed.rest.server import RestServer
from testbed.subjects.srv6.rest.service import SrPolicyService
from testbed.subjects.srv6.session.messages import SliceInfo
from testbed.typed_json.codec import CODEC
from tests.unit.subjects.srv6.srv6_control import World

TOKEN = "a-token-for-tests-only"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A controller in memory that the command connects to."""
    made = World(slices=frozenset({7}))
    made.connect()
    north = RestServer([SrPolicyService(made.manager)], TOKEN, made.manager.history)

    def ask(client: Client, method: str, path: str, body: Any = None) -> Any:
        path, _, query = path.partition("?")
        pairs = tuple(tuple(part.split("=")) for part in query.split("&")) if query else ()
        headers = {"host": "localhost", "authorization": f"Bearer {client._token}", "content-type": "application/json"}
        request = Request(method, unquote(path), pairs, headers, json.dumps(body).encode())  # type: ignore[arg-type]
        response = north.handle(request, made.now_ns)
        made.run()
        said: Any = json.loads(response.body) if response.body else None
        if response.status >= 400:
            raise UsageError(f"the controller refuses: {said['detail']}")
        return said

    monkeypatch.setattr(Client, "ask", ask)
    monkeypatch.setenv("XOFF_SR_TOKEN", TOKEN)
    monkeypatch.setenv("COLUMNS", "220")
    monkeypatch.delenv("XOFF_SR_URL", raising=False)
    return made


def test_options_of_a_policy_become_its_intent(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.vpn("red", slice_id=7)
    options = ["--colour", "100", "--vpn", "red", "--binding-sid", "fd00:a:1:b::", "--slice", "7", "--json"]
    options += ["--pfc", "every-hop", "--max-delay", "20ms", "--exclude-any", "sea", "--preference", "7"]
    assert main(["controller", "sr", "policy", "add", "R1", "R3", *options]) == 0
    (intent,) = world.manager.policies.values()
    said: Any = json.loads(capsys.readouterr().out)
    assert said["intent"] == CODEC.encode(intent)
    assert said["intent"]["candidates"] == [
        {
            "type": "dynamic", "name": "dynamic", "preference": 7, "discriminator": 0, "pfc_ends": True,
            "pfc_every_hop": True, "include_any": [], "include_all": [], "exclude_any": ["sea"],
            "max_delay_ns": 20_000_000,
        }
    ]  # fmt: skip
    assert str(intent.binding_sid) == "fd00:a:1:b::"
    via = ["--via", "fd00:a:1:e02::,fd00:a:2:1::", "--replace"]
    assert main(["controller", "sr", "policy", "add", "R1", "R3", "--colour", "100", "--vpn", "red", *via]) == 0
    assert world.routers["R1"].segments(intent.key) == ["fd00:a:1:e02::", "fd00:a:2:1::", "fd00:a:3:d000::"]
    assert "R1:100:R3 active R1-R2-R3 10ms 7" in " ".join(capsys.readouterr().out.split())


def test_addresses_are_shown_as_they_are(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["controller", "sr", "sids", "R1"]) == 0
    assert "fd00:a:1:f02::" in capsys.readouterr().out  # and not with a picture for ":a:"
    assert main(["controller", "sr", "sids", "R9"]) == 2
    assert "there is no router 'R9'; there are R1, R2, R3" in capsys.readouterr().err


def test_what_the_topology_lacks_is_shown(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    lonely = world.routers["R3"].router
    lonely.know(type(lonely.known)("R3"), 0)
    world.run()
    world.disconnect("R2")
    assert main(["controller", "sr", "topology"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "R2 away no 0" in said
    assert "problem: R2:to3 is reported to lead to R3:to2, which does not report it" in said


def test_slices_and_vpns_and_events_have_their_tables(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.vpn("red", slice_id=7)
    for what, part in (
        ("slices", "7 slice 7 R1, R2, R3 2 red"),
        ("vpns", "red 100 R1 installed fd00:a:1:d000:: 10.1.100.0/24"),
        ("events", "0.000000 vpn_added VPN red is requested"),
    ):
        assert main(["controller", "sr", what]) == 0
        assert part in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: WHAT, one of topology, sids, policies,"),
        (["topologie"], "there is no controller sr command 'topologie'; did you mean topology?"),
        (["policy", "add", "R1", "R3"], "the following arguments are required: --colour"),
        (["policy", "add", "R1", "R3", "--colour", "red"], "argument --colour: invalid int value: 'red'"),
        (["policy", "add", "R1", "R3", "--colour", "1", "--max-delay", "5"], "'5' is not a duration: it has no unit"),
        (
            ["policy", "add", "R1", "R3", "--colour", "1", "--vpn", "x"],
            "vpn is 'x'; there is no such VPN; there are none",
        ),
        (["policy", "remove", "R1:1:R3"], "there is no policy 'R1:1:R3'; there are none"),
        (["vpn", "add", "nowhere.json"], "nowhere.json cannot be read: No such file or directory"),
        (["topology", "--url", "controller:80"], "--url controller:80: a URL is expected, as in http://127.0.0.1:8181"),
    ],
)
def test_a_mistake_gets_one_line_and_exit_code_2(
    world: World, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["controller", "sr", *arguments]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("xoff: ") and message in said and "Traceback" not in said


def test_a_file_that_is_no_intent_is_named(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "vpn.json"
    file.write_text('{"name": "red", "name": "blue"}')
    assert main(["controller", "sr", "vpn", "add", str(file)]) == 2
    assert "member 'name' is repeated in one object" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (b"\xff\xfe", "cannot be read: "),
        (b"", "holds no token"),
        (b"two\nlines", "holds no token"),
    ],
)
def test_a_token_that_cannot_be_read_is_named(
    content: bytes | None,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("XOFF_SR_TOKEN", raising=False)
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    assert main(["controller", "sr", "topology", "--token-file", str(file)]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    monkeypatch.delenv("XOFF_SR_TOKEN_FILE", raising=False)
    assert main(["controller", "sr", "topology"]) == 2
    assert "name its file with --token-file or in $XOFF_SR_TOKEN_FILE" in " ".join(capsys.readouterr().err.split())


# What the controller gets


def test_secrets_are_made_once_for_our_eyes_only_and_read(tmp_path: Path) -> None:
    key, token = make_secrets(tmp_path / "s")
    assert make_secrets(tmp_path / "s") == (key, token)
    assert [path.stat().st_mode & 0o777 for path in (key, token)] == [0o600, 0o600]
    settings = Settings.read({"XOFF_SR_KEY_FILE": str(key), "XOFF_SR_TOKEN_FILE": str(token)})
    assert settings.key != settings.token.encode() and len(settings.key) >= 32
    assert (str(settings.agents), str(settings.rest)) == ("127.0.0.1:7179", "127.0.0.1:8181")


@pytest.mark.parametrize(
    ("mode", "content", "message"),
    [
        (0o600, None, "cannot be read: No such file or directory"),
        (0o640, "x" * 20, r"key can be read by others \(mode 640\); take that away: chmod 600 "),
        (0o600, "  short \n", "key has 5 octets, and the key that routers' keys are made of has 16 to 4096"),
        (0o600, "x" * 5000, "key has 4097 octets, and the key that routers' keys are made of has 16 to 4096"),
    ],
)
def test_a_secret_that_is_none_is_refused(mode: int, content: str | None, message: str, tmp_path: Path) -> None:
    _, token = make_secrets(tmp_path / "s")
    key = tmp_path / "key"
    if content is not None:
        key.write_text(content)
        key.chmod(mode)
    with pytest.raises(UsageError, match=message):
        Settings.read({"XOFF_SR_KEY_FILE": str(key), "XOFF_SR_TOKEN_FILE": str(token)})
    with pytest.raises(
        UsageError, match="XOFF_SR_KEY_FILE names no file with the key that routers' keys are made of; make"
    ):
        Settings.read({})


@pytest.mark.parametrize("text", ["127.0.0.1:8181", "[::1]:0", "unix:/run/x"])
def test_addresses_are_written_as_they_are_read(text: str) -> None:
    assert str(Address.parse(text)) == text


@pytest.mark.parametrize("text", ["", "8181", ":8181", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "unix:", "a:-1"])
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(
        UsageError, match=r"is not an address to listen at; write 127\.0\.0\.1:8181, \[::1\]:8181 or unix:"
    ):
        Address.parse(text)


ESCAPE = "\x1b]0;owned\x07\x1b[31m\u202e"


def test_escape_sequences_of_routers_are_written_out_and_not_sent_to_the_terminal(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Labels of slices may have none any more; messages of an older router or another controller are neutral too."""
    known = world.routers["R1"].router.known
    bad = replace(known, slices=(SliceInfo(7, ESCAPE),), links=(replace(known.links[0], affinity=frozenset({ESCAPE})),))
    world.manager.receive("R1", bad, world.now_ns)
    world.manager.history.add(0, ESCAPE, "R1", f"a\nb {ESCAPE}")
    world.run()
    for arguments in (["slices"], ["events"], ["topology"], ["slices", "--json"], ["events", "--json"]):
        assert main(["controller", "sr", *arguments]) == 0
        said = capsys.readouterr().out
        assert said.replace("\n", "").isprintable()
        if arguments[0] != "topology":
            assert "x1b]0;owned" in said or "u001b]0;owned" in said


def test_a_router_that_is_removed_is_forgotten(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["controller", "sr", "router", "remove", "R2"]) == 0
    assert "router R2 is removed" in capsys.readouterr().err
    assert sorted(world.manager.reports) == ["R1", "R3"]
    assert main(["controller", "sr", "router", "remove", "R2"]) == 2
    assert "there is no router 'R2'; there are R1, R3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n[]", "what answers is not a controller, or one of another version: TypeError"),
        (
            b'HTTP/1.1 200 OK\r\n\r\n{"vpns": [{}]}',
            "what answers is not a controller, or one of another version: KeyError",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000, "answers with what is not JSON"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "no controller answers at http://127.0.0.1:"),
        (b"220 smtp.example.net ESMTP\r\n", "no controller answers at http://127.0.0.1:"),
    ],
)
def test_what_is_no_controller_gets_one_line(
    answer: bytes, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XOFF_SR_TOKEN", "t")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            connection.recv(4096)
            connection.sendall(answer)
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        assert main(["controller", "sr", "vpns", "--url", f"http://127.0.0.1:{server.getsockname()[1]}"]) == 3
        thread.join()
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_url_that_no_request_can_have_gets_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XOFF_SR_TOKEN", "t")
    assert main(["controller", "sr", "vpns", "--url", "http://here\nand.there"]) == 3
    assert "URL can't contain control characters" in capsys.readouterr().err
