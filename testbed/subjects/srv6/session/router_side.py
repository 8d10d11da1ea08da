"""A router's end of the session with the controller: the agent's reports go up, commands come down.

The controller also passes on the SIDs of all routers, for those that learn from data packets (scenario 2).

Sans-I/O. The agent reports its state (`know`), carries out the commands that come out of `receive`, and answers each
with `done` or `refuse`. The installed items are kept here over all sessions, and reported in full at the start of
each: so a controller that was restarted learns them, and one that was away finds out what it missed. Without a
controller nothing changes: the items stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv6Address

from testbed.subjects.srv6.protocol.sid import CodePoints, Sid
from testbed.subjects.srv6.session.messages import (
    Ack,
    Command,
    Counters,
    Directory,
    Install,
    Item,
    ItemKey,
    Nack,
    OwnTunnel,
    Pause,
    Report,
    Role,
    as_json,
    from_controller,
    item_as_json,
)
from testbed.subjects.srv6.session.session import End, Ended, Opened, Received, Session, SessionSettings
from testbed.typed_json.text import InvalidError

RECONNECT_NS = 500_000_000
"""The time that an agent waits before it connects again."""
_LONGEST_WHY = 300


class Router:
    """A router's end of the session with the controller."""

    def __init__(
        self,
        name: str,
        key: bytes,
        *,
        settings: SessionSettings = SessionSettings(),
        code_points: CodePoints = CodePoints(),
    ) -> None:
        self.name = name
        self.known = Report(name)
        self.installed: dict[ItemKey, Item] = {}
        self.directory: dict[IPv6Address, Sid] = {}  # what all routers advertise, as the controller sent it last
        self.directory_revision = 0  # changes with it
        self.session: Session | None = None
        self.ended: Ended | None = None  # how the last session did
        self._key, self._settings, self._code_points = key, settings, code_points
        self._asked: dict[int, Command] = {}  # in this session, without an answer yet

    def connect(self, nonce: bytes, now_ns: int) -> None:
        """Begin a session on a new connection to the controller."""
        self.session = Session(Role.AGENT, self.name, self._key, nonce, now_ns, settings=self._settings)
        self.ended = None
        self._asked.clear()

    def know(self, report: Report, now_ns: int) -> None:
        """Take in the router's SIDs, links, slices and counters. They are reported if they differ beyond counters."""
        before = self.known
        self.known = replace(report, node=self.name, installed=())
        if replace(before, counters=()) != replace(self.known, counters=()):
            self._report(now_ns)

    def count(self, counters: Mapping[str, int], now_ns: int) -> None:
        """Report counters alone."""
        counted = tuple(sorted(counters.items()))
        self.known = replace(self.known, counters=counted)
        self._say(Counters(counted), now_ns)

    def report(self, message: Pause | OwnTunnel, now_ns: int) -> None:
        """Report that a queue has stopped or goes on, or a tunnel of the router's own, if there is a session."""
        self._say(message, now_ns)

    def receive(self, data: bytes, now_ns: int) -> list[Command]:
        """Process received octets, and return their commands, to be carried out in this order."""
        if self.session is None:
            return []
        commands: list[Command] = []
        for event in self.session.receive(data, now_ns):
            match event:
                case Opened():
                    self._report(now_ns)
                case Received():
                    if (command := self._command(event, now_ns)) is not None:
                        commands.append(command)
                case Ended():
                    self.ended = event
        return commands

    def done(self, command: Command, now_ns: int) -> None:
        """Note that a command was carried out, and answer it."""
        if isinstance(command, Install):
            self.installed[command.item.identity] = command.item
        else:
            self.installed.pop(command.item.identity, None)
        self._answer(command, Ack(command.transaction), now_ns)

    def refuse(self, command: Command, why: str, now_ns: int) -> None:
        """Answer that a command cannot be carried out, and has changed nothing."""
        text = "".join(c if c.isprintable() else " " for c in why)  # messages of kernels and tools have several lines
        self._answer(command, Nack(command.transaction, text[:_LONGEST_WHY]), now_ns)

    def poll(self, now_ns: int) -> None:
        """Do all that is due: keepalives, or the end of a session whose controller is silent."""
        if self.session is not None:
            self._note(self.session.poll(now_ns))

    def disconnected(self, now_ns: int) -> None:
        if self.session is not None:
            self._note(self.session.disconnected(now_ns))

    @property
    def deadline_ns(self) -> int | None:
        return self.session.deadline_ns if self.session is not None else None

    def data_to_send(self) -> bytes:
        return self.session.data_to_send() if self.session is not None else b""

    def _command(self, event: Received, now_ns: int) -> Command | None:
        assert self.session is not None
        try:
            command = from_controller(event.message, self._code_points)
        except InvalidError as error:
            text = f"the controller sent an invalid message: {error}"
            self._note(self.session.close(text, now_ns, End.MALFORMED))
            return None
        if isinstance(command, Directory):
            self._update_directory(command)
            return None
        self._asked[command.transaction] = command
        if command.item.node != self.name:
            self.refuse(command, f"this is {self.name}", now_ns)
            return None
        return command

    def _update_directory(self, new: Directory) -> None:
        """Take over the changes of the directory."""
        if new.is_whole:
            self.directory.clear()
        for address in new.gone:
            self.directory.pop(address, None)
        self.directory |= {sid.address: sid for sid in new.sids}
        self.directory_revision += 1

    def _answer(self, command: Command, answer: Ack | Nack, now_ns: int) -> None:
        """Answer a command. One of an earlier session gets no answer, but may have changed what is installed."""
        if self._asked.get(command.transaction) is command:
            del self._asked[command.transaction]
            self._say(answer, now_ns)
        else:
            self._report(now_ns)

    def _note(self, events: list[Opened | Received | Ended]) -> None:
        for event in events:
            if isinstance(event, Ended):
                self.ended = event

    def _report(self, now_ns: int) -> None:
        if self.session is not None and self.session.is_open:
            report = as_json(self.known, self._code_points)
            report["installed"] = [item_as_json(item) for item in self.installed.values()]
            self.session.send(report, now_ns)

    def _say(self, message: Counters | Pause | OwnTunnel | Ack | Nack, now_ns: int) -> None:
        if self.session is not None and self.session.is_open:
            self.session.send(as_json(message, self._code_points), now_ns)
