"""The stand-alone agent: DCBX on any interfaces of the network namespace that it is started in, with sockets.

It sleeps until a frame, a change of a link, a signal, a changed file or a deadline wakes it. An interface that loses
its carrier, goes down or is removed is waited for, by its name. SIGHUP and a changed file have the settings read again;
SIGINT and SIGTERM end it: each peer is told, and each card is left as it was found.

What happens at one interface is in `testbed.agent.alone_port`; what DCBX decides, in `testbed.dcbx.port`.
"""

from __future__ import annotations

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
from typing import TextIO

from testbed.agent.alone_port import NEVER, AlonePort, Report, open_socket
from testbed.agent.control import Claim
from testbed.dcbx.config import WILLING, Config, ConfigError, parse
from testbed.errors import UsageError, XoffError
from testbed.linux import kernel, netlink
from testbed.linux.file_watch import FileWatch
from testbed.linux.link_state import Link, LinkWatch


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
        open_socket(links[0].name).close()  # whether we may, before anything else can be wrong
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
        set_ns = NEVER
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
