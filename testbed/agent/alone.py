"""The stand-alone agent: DCBX on any interfaces of the network namespace that it is started in, with sockets.

It sleeps until a frame, a change of a link, a signal, a changed file or a deadline wakes it. An interface that loses
its carrier, goes down or is removed is waited for, by its name. SIGHUP and a changed file have the settings read again;
SIGINT and SIGTERM end it: each peer is told, and each card is left as it was found.

What DCBX decides is in `testbed.dcbx.port`; which of it a card can do, in `testbed.agent.card`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import testbed
from testbed.agent.card import Card
from testbed.agent.control import Claim
from testbed.agent.told import sentence
from testbed.dcbx import show
from testbed.dcbx.config import WILLING, Config, ConfigError, parse
from testbed.dcbx.events import ApplicationsChanged, CnChanged, EtsChanged, PfcChanged
from testbed.dcbx.port import DcbxPort
from testbed.dcbx.settings import PortIdentity
from testbed.errors import UsageError, XoffError
from testbed.frames import Mac
from testbed.frames.lldp import ChassisId, PortId
from testbed.frames.lldp_tlvs import Capabilities, Capability, Text, TextKind
from testbed.linux import kernel, netlink
from testbed.linux.file_watch import FileWatch
from testbed.linux.link_state import Link, LinkWatch
from testbed.linux.lldp_socket import LldpSocket

Report = Callable[[str], None]
_FOR_THE_CARD = (PfcChanged, EtsChanged, ApplicationsChanged, CnChanged)
_VALUES = frozenset({"card", "pfc_changed", "ets_changed", "applications_changed", "cn_changed"})
_NEVER = 1 << 62


class AgentError(XoffError):
    """This machine does not let an agent run."""

    exit_code = 3


class AlonePort:
    """One interface, there or not."""

    def __init__(self, link: Link, config: Config, ask: netlink.Socket, report: Report, log: TextIO | None) -> None:
        self.name = link.name
        self._config = config
        self._netlink = ask
        self._report = report
        self._log = log
        self._link = link
        self._counters = {"send_failed": 0, "tagged": 0}
        self._said: dict[str, str] = {}
        self._appear(link)
        if not link.is_up:
            report(f"it is down, and waited for; `ip link set {self.name} up` sets it up")
        elif not link.has_carrier:
            report("it has no carrier, which is waited for")

    def _appear(self, link: Link) -> None:
        assert link.mac is not None  # an Ethernet interface has one
        self._socket: LldpSocket | None = _socket(link.name)
        self.socket_is_new = True  # it may have the number of one that was closed
        self._link = link
        self._card = Card(link.name, self._netlink.ask, partial(self._say_once, "card"))
        self._dcbx = DcbxPort(_identity(link.mac, link.name), self._config.settings, self._config.timers)

    @property
    def fd(self) -> int | None:
        """None: the interface is not there."""
        return self._socket.fd if self._socket else None

    @property
    def deadline_ns(self) -> int:
        deadline = self._dcbx.deadline_ns
        return _NEVER if deadline is None else deadline

    @property
    def dcbx(self) -> DcbxPort:
        return self._dcbx

    def start(self, now_ns: int) -> None:
        """Begin, if the link can talk."""
        if self._link.can_talk and not self._dcbx.is_running:
            self._dcbx.start(now_ns)
            self._carry_out(now_ns)

    def link_changed(self, link: Link, now_ns: int) -> None:
        """Something is said of an interface that has this one's name or index."""
        if not link.exists or link.name != self.name:
            if link.index == self._link.index:
                self.vanished(now_ns)
            return
        if self._socket is None:
            try:
                self._appear(link)
            except AgentError as error:
                self._report(f"{error}; the interface is waited for")
                return
            self._report("it is there again")
        elif link.mac is not None and link.mac != self._dcbx.identity.mac:
            self.stop(now_ns)  # as the one that the peer knows
            self._report(f"its address is {link.mac} now")
            self._socket.close()
            self._socket = None
            self._appear(link)
        talked, self._link = self._link.can_talk, link
        if self._dcbx.is_running and not link.can_talk:
            self._dcbx.link_down(now_ns)
            self._carry_out(now_ns)
            self._report("the carrier is gone" if link.is_up else "it was set down")
        elif link.can_talk and not self._dcbx.is_running:
            if not talked:
                self._report("the carrier is there")
            self.start(now_ns)

    def configure(self, config: Config, now_ns: int) -> None:
        self._config = config
        self._dcbx.configure(config.settings, now_ns)
        self._carry_out(now_ns)

    def receive(self, now_ns: int) -> None:
        """Frames are there."""
        if self._socket is None:
            return
        for frame in self._socket.receive():
            if self._log:
                self._write(show.frame_record(frame, self._dcbx.settings.version, "received", now_ns))
            self._dcbx.receive(frame, now_ns)
            self._carry_out(now_ns)

    def expire(self, now_ns: int) -> None:
        self._dcbx.expire(now_ns)
        self._carry_out(now_ns)

    def stop(self, now_ns: int) -> None:
        """Tell the peer, and leave the card as it was."""
        was_running = self._dcbx.is_running
        self._dcbx.stop(now_ns)
        self._carry_out(now_ns, tell=False)
        restored = self._card.restore()
        self._report(
            f"ended{', and the peer was told to forget it' * was_running}{'; the card is as it was' * restored}"
        )

    def close(self) -> None:
        if self._socket:
            self._socket.close()

    def snapshot(self) -> dict[str, Any]:
        """For who asks: the port, and what the agent adds to it."""
        state = show.snapshot(self._dcbx)
        if self._socket:
            self._counters["tagged"] = self._socket.tagged
        counted = {name: count for name, count in self._counters.items() if count}
        state["counters"] = {**state["counters"], **counted}
        link = "up" if self._link.can_talk else "no carrier" if self._link.is_up else "down"
        return {"link": link if self._link.exists else "gone", "card": self._card.summary, **state}

    def vanished(self, now_ns: int) -> None:
        """There is no such interface any more."""
        if not self._link.exists:
            return
        self._link = Link(self._link.index, self.name, None, False, False, False, True, exists=False)
        self._dcbx.link_down(now_ns)
        self._carry_out(now_ns)
        if self._socket:
            self._socket.close()
        self._socket = None
        self._report("it was removed or renamed; another one of this name is waited for")

    def _carry_out(self, now_ns: int, tell: bool = True) -> None:
        for frame in self._dcbx.take_frames():
            self._send(frame, now_ns)
        events = self._dcbx.take_events()
        if any(isinstance(event, _FOR_THE_CARD) for event in events) and self._link.exists and tell:
            self._card.apply(self._dcbx.state)
        for event in events:
            record = show.record(event)
            if self._log:
                self._write(record)
            if tell and (text := sentence(record)):
                self._say_once(record["what"], text)

    def _send(self, frame: bytes, now_ns: int) -> None:
        if self._socket is None:
            return
        try:
            self._socket.send(frame)
        except OSError:  # the link has just gone, which is about to be said, or there is no room
            self._counters["send_failed"] += 1
            return
        if self._log:
            self._write(show.frame_record(frame, self._dcbx.settings.version, "sent", now_ns))

    def _say_once(self, kind: str, text: str) -> None:
        """A value is not said again: its event also comes when only the peer's side of it changes."""
        if kind not in _VALUES or self._said.get(kind) != text:
            self._said[kind] = text
            self._report(text)

    def _write(self, record: dict[str, Any]) -> None:
        assert self._log is not None
        self._log.write(json.dumps({"port": self.name, **record}) + "\n")
        self._log.flush()


class Agent:
    """All interfaces of one process."""

    def __init__(
        self, interfaces: Sequence[str], file: Path | None, report: Report = print, log: TextIO | None = None
    ) -> None:
        self._file = file
        self._report = report
        self._text, config = _read(file)
        self._config = config
        self._links = LinkWatch()
        links = _chosen(list(dict.fromkeys(interfaces)), self._links.all())
        _socket(links[0].name).close()  # whether we may, before anything else can be wrong
        self._netlink = netlink.Socket()
        self._claims: dict[str, Claim] = {}
        self.ports: dict[str, AlonePort] = {}
        try:
            for link in links:
                self._claims[link.name] = Claim(link.name)
                say = self._sayer(link.name)
                self.ports[link.name] = AlonePort(link, config, self._netlink, say, log)
        except BaseException:
            self.close()
            raise

    def run(self) -> None:
        """Until a signal ends it."""
        with _signals() as signals:
            try:
                self._loop(signals)
            finally:
                now_ns = time.monotonic_ns()
                for port in self.ports.values():
                    port.stop(now_ns)
                self.close()

    def close(self) -> None:
        for port in self.ports.values():
            port.close()
        for claim in self._claims.values():
            claim.close()
        self._links.close()
        self._netlink.close()

    def _loop(self, signals: socket.socket) -> None:
        timer, waiting = kernel.Timer(), select.epoll()
        watch = FileWatch(self._file) if self._file else None
        calls: dict[int, Callable[[], object]] = {timer.fd: timer.clear}
        calls[self._links.fd] = self._look_at_links
        for name, claim in self._claims.items():
            calls[claim.fd] = partial(self._answer, name)
        if watch:
            calls[watch.fd] = partial(self._file_touched, watch)
        for fd in (*calls, signals.fileno()):
            waiting.register(fd, select.EPOLLIN)
        sockets: dict[int, AlonePort] = {}
        now_ns = time.monotonic_ns()
        for port in self.ports.values():
            port.start(now_ns)
        set_ns = _NEVER
        try:
            while True:
                self._register(waiting, sockets)
                due_ns = min(port.deadline_ns for port in self.ports.values())
                if due_ns != set_ns:
                    timer.set(due_ns)
                    set_ns = due_ns
                for fd, _ in waiting.poll():
                    if fd == signals.fileno():
                        if self._signalled(signals):
                            return
                    elif fd in sockets:
                        with suppress(OSError):  # the interface has just gone, which is about to be said
                            sockets[fd].receive(time.monotonic_ns())
                    else:
                        calls[fd]()
                now_ns = time.monotonic_ns()
                for port in self.ports.values():
                    if port.deadline_ns <= now_ns:
                        port.expire(now_ns)
        finally:
            waiting.close()
            os.close(timer.fd)
            if watch:
                watch.close()

    def _register(self, waiting: select.epoll, sockets: dict[int, AlonePort]) -> None:
        """Wait for the sockets that were opened; closed ones have left by themselves."""
        for port in self.ports.values():
            if port.socket_is_new and port.fd is not None:
                waiting.register(port.fd, select.EPOLLIN)
                sockets[port.fd] = port
                port.socket_is_new = False

    def _look_at_links(self) -> None:
        changed = self._links.read()
        now_ns = time.monotonic_ns()
        if changed is None:
            changed = self._links.all()
            there = {link.name for link in changed}
            for name, port in self.ports.items():
                if name not in there:
                    port.vanished(now_ns)
        for link in changed:
            for port in self.ports.values():
                port.link_changed(link, now_ns)

    def _signalled(self, signals: socket.socket) -> bool:
        """Do what signals ask for; whether to end."""
        numbers = signals.recv(64)
        if any(number != signal.SIGHUP for number in numbers):
            return True
        self._read_again(is_asked=True)
        return False

    def _read_again(self, is_asked: bool) -> None:
        if self._file is None:
            self._report("there is no file to read again; start with --config")
            return
        try:
            text, config = _read(self._file)
        except XoffError as error:
            self._report(f"{error}; the settings stay as they were")
            return
        if text == self._text and not is_asked:
            return
        self._text = text
        same = config.settings == self._config.settings
        said = f"{self._file} was read again; " + ("nothing is different" if same else "the settings are in force")
        if config.timers != self._config.timers:
            said += "; [lldp] counts from the next start of the agent"
        self._config = Config(config.settings, self._config.timers)
        self._report(said)
        if not same:
            now_ns = time.monotonic_ns()
            for port in self.ports.values():
                port.configure(self._config, now_ns)

    def _file_touched(self, watch: FileWatch) -> None:
        if watch.changed():
            self._read_again(is_asked=False)

    def _answer(self, name: str) -> None:
        config = str(self._file) if self._file else None
        about = {"interface": name, "pid": os.getpid(), "config": config, "now_ns": time.monotonic_ns()}
        self._claims[name].answer({**about, "port": self.ports[name].snapshot()})

    def _sayer(self, name: str) -> Report:
        return lambda text: self._report(f"{name}: {text}")


def _read(file: Path | None) -> tuple[str, Config]:
    if file is None:
        return "", WILLING
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{file} cannot be read: {reason}") from None
    return text, parse(text, str(file))


def _chosen(names: Sequence[str], links: Sequence[Link]) -> list[Link]:
    """The interfaces of these names, if LLDP makes sense on them."""
    by_name = {link.name: link for link in links}
    fit = sorted(link.name for link in links if link.is_ethernet and not link.is_loopback)
    others = f"there are {', '.join(fit)}" if fit else "there is no Ethernet interface in this network namespace"
    for name in names:
        link = by_name.get(name)
        if link is None:
            near = get_close_matches(name, fit, 1)
            raise UsageError(f"there is no interface {name}; {f'did you mean {near[0]}?' if near else others}")
        if link.is_loopback:
            raise UsageError(f"{name} is a loopback interface, and has no peer; {others}")
        if not link.is_ethernet or link.mac is None:
            raise UsageError(f"{name} is no Ethernet interface, so nobody speaks LLDP on it; {others}")
    return [by_name[name] for name in names]


def _socket(name: str) -> LldpSocket:
    try:
        return LldpSocket(name)
    except PermissionError:
        raise AgentError(f"sending and hearing LLDP on {name} needs CAP_NET_RAW; run this as root") from None
    except OSError as error:
        raise AgentError(f"no socket for LLDP on {name}: {error.strerror or error}") from None


def _identity(mac: Mac, name: str) -> PortIdentity:
    is_station = int(Capability.STATION)
    tlvs = (
        Text(TextKind.SYSTEM_NAME, socket.gethostname().encode()[:255]),
        Text(TextKind.SYSTEM_DESCRIPTION, f"Xoff {testbed.__version__} on {os.uname().sysname}".encode()),
        Capabilities(is_station, is_station),
    )
    return PortIdentity(mac, ChassisId.of_mac(mac), PortId.interface(name), tlvs)


@contextmanager
def _signals() -> Iterator[socket.socket]:
    """A socket from which the numbers of signals are read as they come."""
    reader, writer = socket.socketpair()
    for end in (reader, writer):
        end.setblocking(False)
    wakeup = signal.set_wakeup_fd(writer.fileno())
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous = {number: signal.signal(number, lambda *_: None) for number in numbers}
    try:
        yield reader
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        reader.close()
        writer.close()
