"""The stand-alone agent: DCBX on any interfaces of the network namespace that it is started in, with sockets.

It sleeps until a frame, a change of a link, a signal, a changed file, a caller or a deadline wakes it. An interface
that loses its carrier, goes down or is removed is waited for, by its name. SIGHUP and a changed file have the settings
read again; SIGINT and SIGTERM end it: each peer gets a shutdown frame, and each NIC is restored.

One interface is `testbed.subjects.dcbx.daemon.interface`; DCBX itself is `testbed.subjects.dcbx.port`; queries and
permissions are `testbed.subjects.dcbx.daemon.control_socket`.
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

from testbed.errors import UsageError, XoffError
from testbed.linux.netlink import messages
from testbed.linux.netlink.link_state import Link, LinkWatch
from testbed.linux.process import kernel, privileges
from testbed.linux.process.file_watch import FileWatch
from testbed.subjects.dcbx.daemon.config_sources import ConfigSource, sources_of
from testbed.subjects.dcbx.daemon.control_socket import FORGET, Access, Answer, Claim
from testbed.subjects.dcbx.daemon.interface import AgentInterface, Tell, open_socket
from testbed.subjects.dcbx.daemon.log_file import LogFile
from testbed.subjects.dcbx.daemon.saved_settings import SavedSettingsFile
from testbed.units import NEVER

_KEPT = (privileges.Capability.NET_RAW, privileges.Capability.NET_ADMIN)
"""The capabilities that are needed later: for sockets of interfaces that come back, and for settings of NICs."""


class DcbxAgent:
    """DCBX on all interfaces of one process. `file` has the settings of all of them; without it each has its default
    file.
    """

    def __init__(
        self,
        interfaces: Sequence[str],
        file: Path | None = None,
        tell: Tell = print,
        log: LogFile | None = None,
        group: int | None = None,
    ) -> None:
        self._tell = tell
        self._links = LinkWatch()
        links = _chosen(list(dict.fromkeys(interfaces)), self._links.all())
        self._sources = sources_of((link.name for link in links), file)
        open_socket(links[0].name).close()  # whether we may, before anything else can be wrong
        self._netlink = messages.Socket()
        self._claims: dict[str, Claim] = {}
        self._saved: list[SavedSettingsFile] = []
        self._watches: list[tuple[FileWatch, ConfigSource]] = []
        self.ports: dict[str, AgentInterface] = {}
        try:
            access = Access(os.getuid(), group)
            for link in links:
                self._claims[link.name] = Claim(link.name, access)
            for link in links:
                say, source = self._tell_about(link.name), self._sources[link.name]
                if source.file and not file:
                    say(f"its settings are those of {source.file}")
                self._saved.append(SavedSettingsFile(link.name))
                config = source.config
                self.ports[link.name] = AgentInterface(link, config, self._netlink, say, log, store=self._saved[-1])
            for source in self._all_sources():
                self._watch(source)
        except BaseException:
            self._end(0)
            raise

    def _watch(self, source: ConfigSource) -> None:
        """Watch a source's file for changes, while this process may still read the folder."""
        if source.file:
            try:
                self._watches.append((FileWatch(source.file), source))
            except OSError as error:
                self._tell(f"{error.strerror}; SIGHUP has it read again")

    def _become(self, uid: int, gid: int) -> None:
        """Become another user than root. All that root is needed for was opened before."""
        privileges.drop(uid, gid, _KEPT)
        for source in self._all_sources():
            if source.file and not os.access(source.file, os.R_OK, effective_ids=True):
                self._tell(f"user {uid} cannot read {source.file}: a change of it does not count")

    def run(self, become: tuple[int, int] | None = None) -> None:
        """Run until a signal ends it; as another user and group, if they are given."""
        with _signals() as signals:
            try:
                if become:
                    self._become(*become)
                self._loop(signals)
            finally:
                self._end(time.monotonic_ns())

    def _end(self, now_ns: int) -> None:
        """Restore all interfaces. A failure at one does not keep the others from being restored."""
        wrong: BaseException | None = None
        for port in self.ports.values():
            try:
                port.stop(now_ns)
            except Exception as error:
                wrong = error
            port.close()
        for claim in self._claims.values():
            claim.close()
        for saved in self._saved:
            saved.close()
        for watch, _ in self._watches:
            watch.close()
        self._links.close()
        self._netlink.close()
        if wrong:
            raise wrong

    def _loop(self, signals: socket.socket) -> None:
        timer, waiting = kernel.Timer(), select.epoll()
        calls: dict[int, Callable[[], object]] = {timer.fd: timer.clear}
        calls[self._links.fd] = self._look_at_links
        for name, claim in self._claims.items():
            calls[claim.fd] = partial(self._serve, name)
        for watch, source in self._watches:
            calls[watch.fd] = partial(self._file_touched, watch, source)
        for fd in (*calls, signals.fileno()):
            waiting.register(fd, select.EPOLLIN)
        sockets: dict[int, AgentInterface] = {}
        now_ns = time.monotonic_ns()
        for port in self.ports.values():
            port.start(now_ns)
        set_ns = NEVER
        try:
            while True:
                self._register(waiting, sockets)
                due_ns = self._due_ns()
                if due_ns != set_ns:
                    timer.set(due_ns)
                    set_ns = due_ns
                for fd, _ in waiting.poll():
                    if fd == signals.fileno():
                        if self._signalled(signals):
                            return
                    elif fd in sockets:
                        with suppress(OSError):  # the interface has just gone, of which a message follows
                            sockets[fd].receive(time.monotonic_ns())
                    else:
                        calls[fd]()
                now_ns = time.monotonic_ns()
                for port in self.ports.values():
                    if port.deadline_ns <= now_ns:
                        port.expire(now_ns)
                for name, claim in self._claims.items():
                    if claim.deadline_ns is not None and claim.deadline_ns <= now_ns:
                        self._serve(name)
        finally:
            waiting.close()
            os.close(timer.fd)

    def _due_ns(self) -> int:
        times = [port.deadline_ns for port in self.ports.values()]
        return min(*times, *(claim.deadline_ns or NEVER for claim in self._claims.values()))

    def _register(self, waiting: select.epoll, sockets: dict[int, AgentInterface]) -> None:
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
        """Handle pending signals, and return True if one of them ends the process."""
        numbers = signals.recv(64)
        if any(number != signal.SIGHUP for number in numbers):
            return True
        if not any(source.file for source in self._all_sources()):
            self._tell("there is no file to read again; start with --config")
        for source in self._all_sources():
            if source.file:
                self._read_again(source, is_asked=True)
        return False

    def _all_sources(self) -> list[ConfigSource]:
        """Return each source once."""
        return list({id(source): source for source in self._sources.values()}.values())

    def _read_again(self, source: ConfigSource, is_asked: bool) -> None:
        try:
            changed = source.read_again()
        except XoffError as error:
            self._tell(f"{error}; the settings stay as they were")
            return
        if not (changed.text or is_asked):
            return
        said = f"{source.file} was read again; "
        said += "the settings are in force" if changed.settings else "nothing is different"
        if changed.timers:
            said += "; [lldp] counts from the next start of the agent"
        self._tell(said)
        if changed.settings:
            now_ns = time.monotonic_ns()
            for name, port in self.ports.items():
                if self._sources[name] is source:
                    port.configure(source.config, now_ns)

    def _file_touched(self, watch: FileWatch, source: ConfigSource) -> None:
        if watch.changed():
            self._read_again(source, is_asked=False)

    def _serve(self, name: str) -> None:
        self._claims[name].serve(time.monotonic_ns(), partial(self._perform, name))

    def _perform(self, name: str, request: str) -> Answer:
        port, now_ns = self.ports[name], time.monotonic_ns()
        about: Answer = {"interface": name, "pid": os.getpid(), "user": os.getuid(), "now_ns": now_ns}
        if request == FORGET:
            return about | {"forgotten": port.forget(now_ns)}
        file = self._sources[name].file
        return about | {"config": file and str(file), "port": port.snapshot()}

    def _tell_about(self, name: str) -> Tell:
        return lambda text: self._tell(f"{name}: {text}")


def _chosen(names: Sequence[str], links: Sequence[Link]) -> list[Link]:
    """Return the interfaces of these names; UsageError if LLDP makes no sense on one of them."""
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
            raise UsageError(f"{name} is not an Ethernet interface, so LLDP does not run on it; {others}")
    return [by_name[name] for name in names]


@contextmanager
def _signals() -> Iterator[socket.socket]:
    """Yield a socket from which the numbers of signals are read as they come."""
    reader, writer = socket.socketpair()
    for end in (reader, writer):
        end.setblocking(False)
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
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
