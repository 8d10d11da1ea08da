"""Access to the live view, and commands that viewers may send."""

from __future__ import annotations

import pytest

from testbed.errors import UsageError
from testbed.serve import commands
from testbed.serve.access import Access, Verdict

RULE = Access("127.0.0.1", 8470, "right")
OURS = "127.0.0.1:8470"
COOKIE = {"host": OURS, "cookie": "other=1; xoff-8470=right"}


def test_the_token_in_the_address_gets_a_cookie_which_is_enough_from_then_on() -> None:
    assert RULE.judge({"host": OURS}, "right") is Verdict.TAKE_COOKIE
    assert RULE.judge(COOKIE) is Verdict.ADMIT
    assert RULE.judge({"host": OURS, "authorization": "Bearer right"}) is Verdict.ADMIT


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"cookie": "xoff-8470=wrong"},
        {"cookie": "xoff-8471=right"},
        {"cookie": "xoff-8470="},
        {"authorization": "Bearer wrong"},
        {"authorization": "Basic right"},
        {"authorization": "Bearer wrong", "cookie": "xoff-8470=right"},
        {"cookie": "\x00;;;=="},
    ],
)
def test_anything_but_the_token_is_refused(headers: dict[str, str]) -> None:
    assert RULE.judge({"host": OURS, **headers}) is Verdict.WRONG_TOKEN
    assert RULE.judge({"host": OURS}, "wrong") is Verdict.WRONG_TOKEN
    assert RULE.judge({"host": OURS}, "") is Verdict.WRONG_TOKEN


@pytest.mark.parametrize("host", [OURS, "localhost:8470", "[::1]:8470", "127.0.0.2:8470"])
def test_this_machine_is_our_host(host: str) -> None:
    assert RULE.judge({**COOKIE, "host": host}) is Verdict.ADMIT


@pytest.mark.parametrize(
    "host",
    ["", "evil.example:8470", "127.0.0.1", "127.0.0.1:80", "localhost.evil.example:8470", "192.0.2.1:8470",
     "127.0.0.1:8470@evil.example", "user@127.0.0.1:8470", "127.0.0.1:8470/x", "[::1", "127.0.0.1:port", "0x7f.1:8470"],
)  # fmt: skip
def test_a_name_that_was_made_to_lead_here_is_refused_whatever_the_token(host: str) -> None:
    assert RULE.judge({**COOKIE, "host": host}) is Verdict.WRONG_HOST
    assert RULE.judge({"host": host}, "right") is Verdict.WRONG_HOST


@pytest.mark.parametrize(
    ("origin", "verdict"),
    [
        (f"http://{OURS}", Verdict.ADMIT),
        ("http://evil.example", Verdict.WRONG_ORIGIN),
        ("http://127.0.0.1:9999", Verdict.WRONG_ORIGIN),
        (f"https://{OURS}", Verdict.WRONG_ORIGIN),
        ("null", Verdict.WRONG_ORIGIN),
        (None, Verdict.WRONG_ORIGIN),
    ],
)
def test_a_page_of_another_origin_gets_no_socket_even_with_the_cookie(origin: str | None, verdict: Verdict) -> None:
    headers = COOKIE | ({"origin": origin} if origin else {})
    assert RULE.judge_socket(headers) is verdict


def test_a_program_without_an_origin_shows_its_token() -> None:
    assert RULE.judge_socket({"host": OURS, "authorization": "Bearer right"}) is Verdict.ADMIT


def test_a_server_for_other_machines_is_known_by_its_addresses_and_not_by_names() -> None:
    rule = Access("0.0.0.0", 8470, "right")
    assert not rule.is_loopback
    assert rule.judge({**COOKIE, "host": "192.0.2.1:8470"}) is Verdict.ADMIT
    assert rule.judge({**COOKIE, "host": "evil.example:8470"}) is Verdict.WRONG_HOST


def test_tokens_differ_and_are_long() -> None:
    assert len({Access("127.0.0.1", 1).token for _ in range(20)}) == 20
    assert len(Access("127.0.0.1", 1).token) >= 40


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "this is none"),
        ("[]", "JSON object with"),
        ('{"do": 1}', "JSON object with"),
        ('{"do": "kil"}', "did you mean kill?"),
        ('{"do": "kill"}', "kill takes node"),
        ('{"do": "kill", "node": "s1", "signal": 9}', "kill has no signal"),
        ('{"do": "pfc", "port": "s1-eth1", "priority": "3", "on": true}', "priority is '3'"),
        ('{"do": "pfc", "port": "s1\\u001b[31m", "priority": 3, "on": true}', "port is"),
        ('{"do": "pace", "speed": NaN}', "speed is 'nan'"),
        ('{"do": "traffic", "source": "' + "h" * 200 + '", "target": "r", "priority": 3}', "source is"),
        ('{"do": "stop", "x": "' + "x" * 3000 + '"}', "too long"),
        ("[" * 1500, "this is none"),
    ],
)
def test_a_command_that_is_none_is_refused_before_it_reaches_the_lab(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        commands.read(text)
    assert message in str(error.value)


def test_a_command_passes_as_it_is() -> None:
    assert commands.read('{"do": "stop"}') == {"do": "stop"}
    given = {"do": "ecn", "port": "s1-eth3", "priority": 3, "on": True, "kmin": "20kB", "kmax": "80kB", "pmax": "20%"}
    import json

    assert commands.read(json.dumps(given)) == given
