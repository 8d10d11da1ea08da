"""The session between agent and controller: two ends in memory, and attackers on the line."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.subjects.srv6.protocol.domain import Srv6Error
from testbed.subjects.srv6.session.messages import Role, router_key
from testbed.subjects.srv6.session.session import (
    End,
    Ended,
    Event,
    Opened,
    Received,
    Session,
    SessionError,
    SessionSettings,
)
from testbed.typed_json.text import InvalidError

S = 10**9
KEY = b"the key that both of them have"


def end_of(role: Role, *, key: bytes = KEY, nonce: int = 0, name: str = "", now_ns: int = 0, **more: object) -> Session:
    chosen = name or {Role.AGENT: "R1", Role.CONTROLLER: "controller"}[role]
    return Session(role, chosen, key, bytes([nonce or len(role)]) * 32, now_ns, **more)  # type: ignore[arg-type]


def exchange(a: Session, b: Session, now_ns: int = 0) -> tuple[list[Event], list[Event]]:
    """Carry octets until there are no more. Return the events of both ends."""
    found: tuple[list[Event], list[Event]] = ([], [])
    while (to_b := a.data_to_send()) or (to_a := b.data_to_send()):
        if to_b:
            found[1].extend(b.receive(to_b, now_ns))
        else:
            found[0].extend(a.receive(to_a, now_ns))
    return found


def opened(**more: object) -> tuple[Session, Session]:
    agent, controller = end_of(Role.AGENT, **more), end_of(Role.CONTROLLER, **more)  # type: ignore[arg-type]
    exchange(agent, controller)
    assert agent.is_open and controller.is_open
    return agent, controller


def frame(octets: bytes) -> bytes:
    return struct.pack("!I", len(octets)) + octets


def hello(**changes: object) -> bytes:
    said = {"protocol": "xoff-srv6", "versions": [2], "role": "agent", "name": "R1", "nonce": "ab" * 32}
    return frame(json.dumps(said | changes).encode())


def reason(events: list[Event]) -> End:
    (ended,) = events
    assert isinstance(ended, Ended)
    return ended.reason


def test_two_ends_with_one_key_open_and_know_each_other() -> None:
    agent, controller = end_of(Role.AGENT), end_of(Role.CONTROLLER)
    assert exchange(agent, controller) == ([Opened("controller", 2)], [Opened("R1", 2)])
    agent.send({"type": "report", "n": 1}, 0)
    controller.send({"type": "install"}, 0)
    assert exchange(agent, controller) == (
        [Received({"type": "install"})],
        [Received({"type": "report", "n": 1})],
    )


def test_the_key_is_never_on_the_line() -> None:
    agent, controller = end_of(Role.AGENT), end_of(Role.CONTROLLER)
    line = b""
    for _ in range(4):
        one, other = agent.data_to_send(), controller.data_to_send()
        line += one + other
        controller.receive(one, 0)
        agent.receive(other, 0)
    assert agent.is_open and controller.is_open
    assert KEY not in line and KEY.hex().encode() not in line


@pytest.mark.parametrize("role", list(Role))
def test_a_peer_with_another_key_is_refused_by_both(role: Role) -> None:
    right, wrong = end_of(role), end_of(role.peer, key=b"some other key of theirs")
    found = exchange(right, wrong)
    assert {reason(events) for events in found} <= {End.NOT_AUTHENTIC, End.REFUSED}
    assert not right.is_open and not wrong.is_open
    assert Opened not in {type(event) for events in found for event in events}


@given(st.lists(st.integers(1, 200), max_size=30), st.integers(0, 9))
def test_messages_come_out_as_they_went_in_however_the_octets_are_cut(cuts: list[int], count: int) -> None:
    agent, controller = end_of(Role.AGENT), end_of(Role.CONTROLLER)
    agent.receive(controller.data_to_send(), 0)
    controller.receive(agent.data_to_send(), 0)
    agent.receive(controller.data_to_send(), 0)
    messages = [{"type": "x", "number": number, "text": "é" * number} for number in range(count)]
    for message in messages:
        agent.send(message, 0)
    data, found = agent.data_to_send(), list[Event]()
    for cut in cuts:
        found += controller.receive(data[:cut], 0)
        data = data[cut:]
    found += controller.receive(data, 0)
    assert [event for event in found if isinstance(event, Received)] == list(map(Received, messages))


@given(st.data())
def test_whatever_is_changed_on_the_line_no_false_message_gets_through(data: st.DataObject) -> None:
    agent, controller = opened()
    messages = [{"type": "x", "number": number} for number in range(3)]
    for message in messages:
        agent.send(message, 0)
    octets = bytearray(agent.data_to_send())
    place = data.draw(st.integers(0, len(octets) - 1))
    octets[place] ^= data.draw(st.integers(1, 255))
    found = controller.receive(bytes(octets), 0)
    heard = [event.message for event in found if isinstance(event, Received)]
    assert heard == messages[: len(heard)] and len(heard) < 3
    if controller.end is None:  # a length that grew: the rest is waited for
        assert controller.poll(5 * S) and controller.end is not None
    assert controller.end.reason in (End.NOT_AUTHENTIC, End.TOO_LONG, End.TOO_SHORT, End.TIMEOUT)


@given(st.permutations(range(4)), st.integers(0, 3))
def test_frames_that_are_repeated_left_out_or_moved_end_the_session(order: list[int], repeated: int) -> None:
    agent, controller = opened()
    frames = []
    for number in range(4):
        agent.send({"type": "x", "number": number}, 0)
        frames.append(agent.data_to_send())
    sent = [*order, repeated]
    found = controller.receive(b"".join(frames[number] for number in sent), 0)
    heard = [event.message["number"] for event in found if isinstance(event, Received)]
    assert heard == list(range(len(heard)))
    assert controller.end is not None and controller.end.reason is End.SEQUENCE


def test_a_recorded_session_cannot_be_replayed() -> None:
    agent, controller = end_of(Role.AGENT), end_of(Role.CONTROLLER)
    recorded = []
    controller_says = controller.data_to_send()
    agent.receive(controller_says, 0)
    recorded.append(agent.data_to_send())
    controller.receive(recorded[0], 0)
    agent.receive(controller.data_to_send(), 0)
    agent.send({"type": "report"}, 0)
    recorded.append(agent.data_to_send())
    assert controller.receive(recorded[1], 0) == [Received({"type": "report"})]
    again = end_of(Role.CONTROLLER, nonce=77)
    assert reason(again.receive(b"".join(recorded), 0)) is End.NOT_AUTHENTIC


def test_frames_of_one_direction_do_not_fit_the_other() -> None:
    _, controller = opened()
    controller.send({"type": "install"}, 0)
    assert reason(controller.receive(controller.data_to_send(), 0)) is End.NOT_AUTHENTIC


def test_a_hello_that_comes_back_is_recognised() -> None:
    controller = end_of(Role.CONTROLLER)
    assert reason(controller.receive(controller.data_to_send(), 0)) is End.REFLECTED


@pytest.mark.parametrize(
    ("octets", "expected", "text"),
    [
        (frame(b"{"), End.BAD_HELLO, "invalid hello: the value is b'{'; must be JSON: "),
        (frame(b"\xff"), End.BAD_HELLO, "must be JSON in UTF-8"),
        (frame(b"[" * 900), End.BAD_HELLO, "invalid hello: "),
        (frame(b"[]"), End.BAD_HELLO, "the value is []; must be an object"),
        (frame(b"GET / HTTP/1.1\r\n\r\n"), End.BAD_HELLO, "must be JSON"),
        (b"GET / HTTP/1.1\r\n", End.TOO_LONG, "a frame of 1195725856 octets is too long; at most 1024"),
        (hello(protocol="bgp"), End.BAD_HELLO, "protocol is 'bgp'; must be one of xoff-srv6"),
        (hello(nonce="ab"), End.BAD_HELLO, "nonce is 'ab'; must match [0-9a-f]{64}"),
        (hello(name="R 1"), End.BAD_HELLO, "name is 'R 1'; must match "),
        (hello(versions=[]), End.BAD_HELLO, "versions is []; must have 1 to 16 members, not 0"),
        (hello(versions=[7, 9]), End.NO_VERSION, "R1 has version 7, 9, this side 2; update the older side"),
        (hello(role="controller", name="other"), End.WRONG_ROLE, "other has the role controller, as this side has"),
        (hello() + frame(b"x"), End.TOO_SHORT, "a frame of 1 octets has no room for its MAC"),
        (hello() + frame(bytes(60)), End.NOT_AUTHENTIC, "does not authenticate; use the same key"),
        (hello() + struct.pack("!I", 1 << 31), End.TOO_LONG, "a frame of 2147483648 octets is too long; "),
    ],
)
def test_an_invalid_peer_ends_the_session_with_a_counted_reason_that_it_gets(
    octets: bytes, expected: End, text: str
) -> None:
    controller = end_of(Role.CONTROLLER)
    controller.data_to_send()
    (ended,) = controller.receive(octets, 0)
    assert isinstance(ended, Ended)
    assert ended.reason is expected and text in ended.text
    assert controller.counters == {f"end {expected}": 1}
    assert b"refused" in controller.data_to_send()
    assert controller.receive(hello(), 0) == [] and controller.deadline_ns is None


@pytest.mark.parametrize("message", [b"7", b"{}", b'{"type":7}', b'{"type":"x","type":"y"}', b'{"type":"x","n":1.5}'])
def test_a_message_that_is_none_ends_an_open_session_and_the_peer_learns_why(message: bytes) -> None:
    agent, controller = opened()
    agent._secure(message, 0)
    assert reason(controller.receive(agent.data_to_send(), 0)) is End.MALFORMED
    (ended,) = agent.receive(controller.data_to_send(), 0)
    assert isinstance(ended, Ended) and ended.reason is End.BYE
    assert ended.text.startswith("controller ends the session: R1 sent an invalid message: ")


def test_the_highest_version_of_both_is_spoken() -> None:
    agent, controller = end_of(Role.AGENT, versions=(3, 2, 1)), end_of(Role.CONTROLLER, versions=(2, 1))
    assert exchange(agent, controller) == ([Opened("controller", 2)], [Opened("R1", 2)])


def test_who_takes_a_version_out_of_a_hello_on_the_line_gets_no_session() -> None:
    agent, controller = end_of(Role.AGENT, versions=(2, 1)), end_of(Role.CONTROLLER, versions=(2, 1))
    weaker = agent.data_to_send().replace(b"[2, 1]", b"[1   ]")
    controller.receive(weaker, 0)
    agent.receive(controller.data_to_send(), 0)
    assert reason(controller.receive(agent.data_to_send(), 0)) in (End.NOT_AUTHENTIC, End.REFUSED)
    assert not agent.is_open and not controller.is_open


def test_keepalives_go_when_nothing_else_does_and_a_silent_peer_is_given_up() -> None:
    agent, controller = opened()
    assert agent.deadline_ns == S
    assert agent.poll(S - 1) == [] and agent.data_to_send() == b""
    assert agent.poll(S) == []
    assert controller.receive(agent.data_to_send(), S) == []
    assert controller.counters["keepalives_received"] == 2  # the first was the agent's proof
    assert agent.deadline_ns == 2 * S
    assert controller.deadline_ns == S
    controller.poll(4 * S)
    controller.data_to_send()  # lost
    (ended,) = agent.poll(4 * S)
    assert ended == Ended(End.TIMEOUT, "controller has been silent for 4000 ms")
    assert controller.poll(5 * S - 1) == [] and reason(controller.poll(5 * S)) is End.TIMEOUT


def test_a_peer_without_a_whole_hello_is_disconnected_in_time() -> None:
    controller = end_of(Role.CONTROLLER)
    controller.receive(hello()[:50], 3 * S)
    assert controller.deadline_ns == 4 * S
    assert reason(controller.poll(4 * S)) is End.TIMEOUT
    half = end_of(Role.CONTROLLER)
    half.receive(hello(), 3 * S)  # a hello, but no proof
    assert reason(half.poll(4 * S)) is End.TIMEOUT


def test_an_orderly_close_reaches_the_peer_once() -> None:
    agent, controller = opened()
    (ended,) = controller.close("it is restarted", 0)
    assert ended == Ended(End.CLOSED, "it is restarted")
    assert controller.close("again", 0) == [] and controller.disconnected(0) == []
    assert agent.receive(controller.data_to_send(), 0) == [
        Ended(End.BYE, "controller ends the session: it is restarted")
    ]
    assert agent.data_to_send() == b""


def test_nothing_can_be_sent_before_the_peer_is_known_or_beyond_the_limit() -> None:
    agent = end_of(Role.AGENT)
    with pytest.raises(SessionError, match="the session of R1 with an unknown peer is not open"):
        agent.send({"type": "report"}, 0)
    agent, controller = opened(settings=SessionSettings(longest_message=100))
    with pytest.raises(SessionError, match="a message of 122 octets to controller is too long; at most 100"):
        agent.send({"type": "x", "text": "y" * 100}, 0)
    agent.send({"type": "x"}, 0)
    assert exchange(agent, controller)[1] == [Received({"type": "x"})]


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(Srv6Error, match="the shared key has 3 octets; it needs at least 16"):
        Session(Role.AGENT, "R1", b"key", bytes(32), 0)
    with pytest.raises(Srv6Error, match="the nonce has 3 octets; it must be 32 fresh ones for each session"):
        Session(Role.AGENT, "R1", KEY, bytes(3), 0)
    with pytest.raises(InvalidError, match="name is ''; must match"):
        Session(Role.AGENT, "", KEY, bytes(32), 0)
    with pytest.raises(Srv6Error, match="make it at least twice that"):
        SessionSettings(timeout_ns=S)
    with pytest.raises(Srv6Error, match="hello_ns is 0; it must be an integer above 0"):
        SessionSettings(hello_ns=0)


@given(st.lists(st.binary(max_size=80), max_size=8), st.booleans())
def test_any_octets_end_a_session_or_are_waited_for_and_never_more(pieces: list[bytes], is_open: bool) -> None:
    controller = opened()[1] if is_open else end_of(Role.CONTROLLER)
    for piece in pieces:
        for event in controller.receive(piece, 0):
            assert isinstance(event, Ended)
    assert len(controller._inbox) < 4 + (4 << 20) + 40


def test_a_hello_may_have_fields_that_this_version_does_not_have() -> None:
    controller = end_of(Role.CONTROLLER)
    assert controller.receive(hello(later=[{"version": 2}], also=None), 0) == []
    assert controller.end is None and controller.peer == "R1"


def test_until_a_peer_has_proved_its_key_nothing_longer_than_a_hello_is_taken_from_it() -> None:
    """Check a defect: a refusal in the clear was parsed as JSON up to 4 MB."""
    controller = end_of(Role.CONTROLLER)
    controller.receive(hello(), 0)
    (ended,) = controller.receive(struct.pack("!I", 1025), 0)
    assert isinstance(ended, Ended) and ended.reason is End.TOO_LONG
    agent, controller = opened()
    agent.send({"type": "report", "text": "x" * 100_000}, 0)
    assert exchange(agent, controller)[1]


def test_the_key_is_that_of_the_name_in_the_hello() -> None:
    keys = {name: router_key(KEY, name) for name in ("R1", "R2")}
    for name, key, is_open in (("R1", keys["R1"], True), ("R1", keys["R2"], False), ("R3", keys["R1"], False)):
        agent, controller = end_of(Role.AGENT, name=name, key=key), end_of(Role.CONTROLLER, key=keys.get)  # type: ignore[arg-type]
        exchange(agent, controller)
        assert controller.is_open == is_open
    assert controller.end == Ended(End.UNKNOWN, "no router R3 is configured here")
    assert router_key(KEY, "R1") != router_key(KEY, "R1", 2) and len(router_key(KEY, "R1")) == 64


def test_frames_beyond_a_limit_wait_for_the_next_call() -> None:
    agent, controller = opened()
    for number in range(10):
        agent.send({"type": "ack", "transaction": number}, 0)
    assert len(controller.receive(agent.data_to_send(), 0, most_frames=4)) == 4
    assert controller.has_more
    assert len(controller.receive(b"", 0, most_frames=4)) == 4
    assert len(controller.receive(b"", 0)) == 2 and not controller.has_more
