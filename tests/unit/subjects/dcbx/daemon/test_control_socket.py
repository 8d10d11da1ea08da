"""The socket at which a DCBX agent is found: one name for an interface, the users who may ask, and hostile callers."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from testbed.subjects.dcbx.daemon import control_socket
from testbed.subjects.dcbx.daemon.control_socket import FORGET, SHOW, Access, Answer, Claim, ControlError

PREFIX = f"unit{os.getpid()}"
"""The beginning of the names of this run's interfaces: the names are those of the whole network namespace."""
OWN = Access(os.getuid())


def name(text: str) -> str:
    return f"{PREFIX}{text}"


@contextmanager
def served(*names: str, access: Access = OWN, size: int = 0) -> Iterator[dict[str, list[str]]]:
    """Run an agent that answers to each name, and yield what was asked of it."""
    claims = {one: Claim(one, access) for one in names}
    asked: dict[str, list[str]] = {one: [] for one in names}
    ended = threading.Event()

    def perform(one: str, request: str) -> Answer:
        asked[one].append(request)
        return {"interface": one, "request": request, "long": "x" * size}

    def run() -> None:
        while not ended.is_set():
            for one, claim in claims.items():
                claim.serve(time.monotonic_ns(), lambda request, one=one: perform(one, request))  # type: ignore[misc]
            time.sleep(0.001)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield asked
    finally:
        ended.set()
        thread.join()
        for claim in claims.values():
            claim.close()


def test_there_is_one_agent_for_an_interface_and_another_when_it_has_ended() -> None:
    first = Claim(name("0"), OWN)
    with pytest.raises(ControlError) as error:
        Claim(name("0"), OWN)
    assert str(error.value) == (
        f"an agent serves {name('0')} already, process {os.getpid()}; see its state with `xoff dcbx show {name('0')}`, "
        "or stop it first"
    )
    Claim(name("1"), OWN).close()
    first.close()
    Claim(name("0"), OWN).close()


def test_agents_of_different_users_meet_whatever_their_runtime_folders_are(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Claim(name("0"), Access(os.getuid()))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(ControlError, match="serves"):
        Claim(name("0"), Access(os.getuid() + 1))
    first.close()


@pytest.mark.parametrize("names", [("p1", "p1.1", "p1.2"), ("q[1]", "q1", "q?", "q*", "*")])
def test_names_with_dots_and_glob_characters_are_themselves_and_no_others(names: tuple[str, ...]) -> None:
    own = [name(one) for one in names]
    with served(*own) as asked:
        assert {one for one in control_socket.served() if one.startswith(PREFIX)} == set(own)
        for one in own:
            assert control_socket.ask(one)[one]["interface"] == one
        assert asked == {one: [SHOW] for one in own}
        with pytest.raises(ControlError, match="no agent serves"):
            control_socket.ask(name("[q]1"))


def test_a_long_answer_comes_whole() -> None:
    with served(name("0"), size=1_000_000):
        assert len(control_socket.ask(name("0"))[name("0")]["long"]) == 1_000_000


def test_a_query_without_an_agent_is_refused_with_the_way_out() -> None:
    with pytest.raises(ControlError) as error:
        control_socket.ask(name("none"))
    wanted = (
        f"no agent serves {name('none')} in this network namespace; start one with `xoff dcbx agent {name('none')}`"
    )
    assert str(error.value) == wanted


def test_a_killed_agent_leaves_nothing_in_the_way() -> None:
    pid = os.fork()
    if pid == 0:
        Claim(name("0"), OWN)
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    with pytest.raises(ControlError, match="no agent serves"):
        control_socket.ask(name("0"))
    Claim(name("0"), OWN).close()


# Who may ask


@pytest.fixture
def as_user(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Have the agent take its callers for this user, with these groups."""

    def be(user: int, *groups: int) -> None:
        monkeypatch.setattr(control_socket, "_peer", lambda _: (1, user, groups[0]))
        monkeypatch.setattr(control_socket, "_groups", lambda _: groups[1:])

    return be


@pytest.mark.parametrize(
    ("user", "groups", "group", "may"),
    [
        (0, (0,), None, {SHOW, FORGET}),
        (7, (7,), None, {SHOW, FORGET}),
        (8, (8,), None, set()),
        (8, (8, 9), None, set()),
        (8, (8, 9), 9, {SHOW}),
        (8, (9,), 9, {SHOW}),
        (8, (8, 10), 9, set()),
    ],
    ids=["root", "its user", "another", "no group is named", "a member", "its first group", "of another group"],
)
def test_its_user_and_root_may_everything_and_a_group_may_read(
    as_user: Callable[..., None], user: int, groups: tuple[int, ...], group: int | None, may: set[str]
) -> None:
    as_user(user, *groups)
    ends = socket.socketpair()
    access = Access(7, group)
    assert {request for request in (SHOW, FORGET) if access.refuses(ends[0], request) is None} == may
    for end in ends:
        end.close()


def test_the_kernel_identifies_the_caller() -> None:
    ends = socket.socketpair()
    assert control_socket._peer(ends[0]) == (os.getpid(), os.getuid(), os.getgid())
    assert set(control_socket._groups(ends[0])) == set(os.getgroups())
    for end in ends:
        end.close()


def test_a_refused_user_gets_the_reason() -> None:
    with served(name("0"), access=Access(4_000_000_000)) as asked:
        if os.getuid() == 0:
            pytest.skip("root may ask every agent")
        with pytest.raises(ControlError, match="refuses: root and user 4000000000 may read"):
            control_socket.ask(name("0"))
        assert asked == {name("0"): []}


def test_a_process_that_is_not_an_agent_is_named_and_its_answer_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any process may take a name; only those that could be agents are."""
    monkeypatch.setattr(control_socket, "_is_believed", lambda *_: False)
    whose = (
        f"process {os.getpid()} of user {os.getuid()} holds the name of the agent of {name('0')} but is not an agent"
    )
    with served(name("0")) as asked:
        for attempt, text in (
            (lambda: control_socket.ask(name("0")), whose),
            (lambda: Claim(name("0"), OWN), f"{whose}; end it"),
        ):
            with pytest.raises(ControlError) as error:
                attempt()
            assert str(error.value) == text
        assert asked == {name("0"): []}


def test_another_user_without_packet_sockets_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_socket, "has", lambda *_: False)
    assert [control_socket._is_believed(1, user) for user in (0, os.geteuid(), os.geteuid() + 1)] == [True, True, False]
    monkeypatch.setattr(control_socket, "has", lambda *_: True)
    assert control_socket._is_believed(1, os.geteuid() + 1)
    assert not control_socket._is_believed(0, os.geteuid() + 1)


# What callers can do


def test_silent_callers_do_not_block_others_and_are_dropped() -> None:
    with served(name("0")) as asked:
        silent = [control_socket.connect(name("0")) for _ in range(100)]
        assert control_socket.ask(name("0"))[name("0")]["request"] == SHOW
        assert silent[0].recv(1) == b""  # the oldest had to go
        assert asked == {name("0"): [SHOW]}
        for one in silent:
            one.close()


def test_a_caller_is_given_up_after_its_time() -> None:
    claim = Claim(name("0"), OWN)
    caller = control_socket.connect(name("0"))
    claim.serve(0, lambda _: pytest.fail("nothing was asked"))
    assert claim.deadline_ns == 5 * 10**9
    claim.serve(5 * 10**9, lambda _: pytest.fail("nothing was asked"))
    assert caller.recv(1) == b""
    assert claim.deadline_ns is None
    claim.close()
    caller.close()


@pytest.mark.parametrize("octets", [b"SHOW\n", b"x" * 100, b"\n", b"\x00\xff\n", b"show now\n", b"s" * 5000])
def test_an_unknown_request_is_answered_with_the_valid_ones(octets: bytes) -> None:
    with served(name("0")) as asked, control_socket.connect(name("0")) as caller:
        caller.sendall(octets)
        assert b"unknown request; must be one of show, forget" in caller.recv(1000)
        assert asked == {name("0"): []}


@pytest.mark.parametrize(
    "octets", [b"", b"x", b"[]", b"1", b"{}", b'{"interface": "eth1"}', b"[" * 100_000, b"\xff", b'{"interface": 1}']
)
def test_an_answer_that_is_not_from_an_agent_is_refused(octets: bytes) -> None:
    with pytest.raises(ControlError, match="what serves eth0 does not answer as an agent does"):
        control_socket.read_answer(octets, "eth0")


def test_a_refusal_is_shown_without_terminal_escape_sequences() -> None:
    with pytest.raises(ControlError) as error:
        control_socket.read_answer(b'{"error": "no \\u001b[2J"}', "eth0")
    assert str(error.value) == "the agent of eth0 refuses: no ?[2J"
