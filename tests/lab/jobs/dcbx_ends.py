"""A cable between two network namespaces, our DCBX agent at one end of it, and any settings for it."""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testbed.cli import main
from testbed.frames.dcbx.values import AppEntry, DcbxVersion, Ets, EtsRecommendation, Selector, Tsa
from testbed.linux.process import kernel
from testbed.subjects.dcbx.config import dump
from testbed.subjects.dcbx.daemon import control_socket
from testbed.subjects.dcbx.settings import (
    ApplicationAdmin,
    CnAdmin,
    DcbxSettings,
    EtsAdmin,
    PfcAdmin,
    Recommend,
    Shares,
)

OURS, THEIRS, PEER = "a0", "b0", "peer"
LOW, HIGH = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
_libc = ctypes.CDLL(None, use_errno=True)


def command(*words: str) -> str:
    """Run a program, and return its output."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: exit code {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def at_peer(*words: str) -> str:
    """Run a program at the far end."""
    return command("ip", "netns", "exec", PEER, *words)


@contextmanager
def cable(ours: str = LOW, theirs: str = HIGH) -> Iterator[None]:
    """Lay a cable between OURS, in the namespace of the job, and THEIRS, in one of its own, with these MAC
    addresses.
    """
    command("ip", "netns", "add", PEER)
    try:
        far = ("peer", "name", THEIRS, "address", theirs, "netns", PEER)
        command("ip", "link", "add", "name", OURS, "address", ours, "type", "veth", *far)
        at_peer("ip", "link", "set", "dev", "lo", "up")
        at_peer("ip", "link", "set", "dev", THEIRS, "up")
        command("ip", "link", "set", "dev", OURS, "up")
        yield
    finally:
        command("ip", "link", "delete", "dev", OURS)  # the namespace would take it along, but not at once
        command("ip", "netns", "delete", PEER)


class Process:
    """A command line in a process of its own: forked, because to load all of Python anew takes seconds here."""

    def __init__(self, words: Sequence[str], output: Path, is_far: bool = False, user: int = 0) -> None:
        self.code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                self._become(words, output, is_far, user)
                code = main(words)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)

    @staticmethod
    def _become(words: Sequence[str], output: Path, is_far: bool, user: int) -> None:
        handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for standard in (1, 2):
            os.dup2(handle, standard)
        sys.stdout, sys.stderr = (os.fdopen(standard, "w", buffering=1) for standard in (1, 2))
        if is_far:
            namespace = os.open(f"/run/netns/{PEER}", os.O_RDONLY)
            if _libc.setns(namespace, kernel.CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        if user:
            os.setuid(user)

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def has_ended(self) -> bool:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None

    def wait(self, seconds: float = 20) -> int | None:
        """Return the exit code, or None if the process goes on."""
        until(self.has_ended, seconds)
        return self.code


class Agent:
    """`xoff dcbx agent` at an end, with a file of its own."""

    def __init__(
        self,
        folder: Path,
        settings: DcbxSettings | str | None,
        interface: str = OURS,
        is_far: bool = False,
        *,
        more: Sequence[str] = ("--user", "root"),  # the folder of a run is root's, and settings are read again there
        waits: bool = True,
    ) -> None:
        self._interface = interface
        self.file = folder / f"{interface}.toml"
        self.log = folder / f"{interface}.jsonl"
        self.output = folder / f"{interface}.txt"
        words = ["dcbx", "agent", interface, "--log", str(self.log), *more]
        if settings is not None:
            self.write(settings)
            words += ["--config", str(self.file)]
        self.process = Process(words, self.output, is_far)
        if waits and not until(lambda: self.process.has_ended() or '"frame"' in self.text(self.log), 20):
            raise RuntimeError(f"the agent did not start: {self.text(self.output)}")

    def write(self, settings: DcbxSettings | str) -> None:
        """Write other settings; the agent notices by itself."""
        self.file.write_text(settings if isinstance(settings, str) else dump(settings))

    def state(self) -> dict[str, Any]:
        port: dict[str, Any] = control_socket.ask(self._interface)[self._interface]["port"]
        return port

    def feature(self, name: str, key: str) -> Any:
        return self.state()["features"][name][key]

    def records(self, what: str) -> list[dict[str, Any]]:
        """Return the records of the agent's log."""
        lines = [json.loads(line) for line in self.text(self.log).splitlines()]
        return [line for line in lines if line["what"] == what]

    @staticmethod
    def text(file: Path) -> str:
        return file.read_text() if file.exists() else ""

    def end(self, number: signal.Signals = signal.SIGTERM) -> int | None:
        self.process.send(number)
        return self.process.wait()


@contextmanager
def agent(
    folder: Path, settings: DcbxSettings | str | None, interface: str = OURS, is_far: bool = False
) -> Iterator[Agent]:
    made = Agent(folder, settings, interface, is_far)
    try:
        yield made
    finally:
        if not made.process.has_ended():
            made.end()


def until(is_true: Callable[[], object], seconds: float) -> bool:
    """Look fifty times a second until it is true; False if it never was."""
    deadline = time.monotonic() + seconds
    while not (done := bool(is_true())) and time.monotonic() < deadline:
        time.sleep(0.02)
    return done


def settle(seconds: float = 1.0) -> None:
    """Wait until the link has settled."""
    time.sleep(seconds)


def some_settings(dice: random.Random, version: DcbxVersion = DcbxVersion.PUBLISHED) -> DcbxSettings:
    """Draw settings that a port can have, with every TLV."""
    is_draft = version is DcbxVersion.DRAFT

    def bandwidth() -> tuple[int, ...]:
        cuts = sorted(dice.choices(range(101), k=7))
        return tuple(high - low for low, high in zip([0, *cuts], [*cuts, 100], strict=True))

    def assignment() -> tuple[int, ...]:
        return tuple(dice.choices([*range(8), *([13, 14, 15] if is_draft else [])], k=8))

    def tsa() -> tuple[int, ...]:
        return tuple(dice.choices([int(algorithm) for algorithm in Tsa], k=8))

    def entry() -> AppEntry:
        others = [Selector.OTHER_PORT] if is_draft else [Selector.DSCP]
        selector = dice.choice([Selector.ETHERTYPE, Selector.TCP, Selector.UDP, Selector.ANY_PORT, *others])
        least, most = {Selector.ETHERTYPE: (0x600, 0xFFFF), Selector.DSCP: (0, 63)}.get(selector, (1, 0xFFFF))
        return AppEntry(dice.randrange(8), selector, dice.randint(least, most))

    def entries() -> tuple[AppEntry, ...]:
        drawn = [entry() for _ in range(dice.randrange(9))]
        return tuple({(one.selector, one.protocol): one for one in drawn}.values())  # a protocol has one priority

    table = Ets(assignment(), bandwidth(), None if is_draft else tsa())
    recommend: Recommend | Shares | None
    if is_draft:
        recommends: list[Recommend | Shares] = [Shares(bandwidth()), Recommend(EtsRecommendation(bandwidth()))]
        recommend = dice.choice(recommends)
    else:
        recommend = Recommend(EtsRecommendation(bandwidth(), assignment(), tsa()))
    return DcbxSettings(
        version,
        ets=EtsAdmin(table, dice.random() < 0.5, recommend),
        pfc=PfcAdmin(dice.randrange(256), dice.random() < 0.5, dice.randint(1, 8)),
        applications=ApplicationAdmin(entries()),
        cn=CnAdmin(dice.randrange(256)),
    )
