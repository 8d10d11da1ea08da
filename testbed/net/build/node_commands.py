"""The commands of a node's set-up, carried out by few processes.

Commands for `ip` and `tc` that follow each other are lines of one batch, and those of `sysctl` one command. A process
each would be most of what a router takes to start: a program of the lab takes some 500 page faults to load.
"""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

from testbed.linux.netlink.messages import Message, Socket
from testbed.linux.process import kernel

_SYSCTL = ("sysctl", "-qw")
_BATCHED = (("ip", "-6"), ("ip",), ("tc",))
_NEEDS_A_SHELL = re.compile(r"[^\w\s./:,=@+-]")
_QUOTED = re.compile(r'"([^"]+)"')
_FAILED = re.compile(r"^Command failed -:(\d+)$", re.MULTILINE)


class Step(Protocol):
    """A step of a router's set-up that is netlink requests, not a command."""

    def requests(self, index_of: Callable[[str], int]) -> list[Message]:
        """Return the requests; `index_of` gives the index of an interface."""
        ...


def send(node: Any, step: Step) -> None:
    """Send the requests of a step to the kernel of a node. NetlinkError if one is refused."""
    with kernel.in_network_of(node.pid):
        connection = Socket()
        try:
            connection.send(step.requests(socket.if_nametoindex))
        finally:
            connection.close()


@dataclass(frozen=True)
class Batch:
    """Commands that one process carries out, or the node's shell if they have no program in common."""

    program: tuple[str, ...]
    commands: list[str] = field(default_factory=list)

    def arguments(self) -> list[str]:
        if self.program == _SYSCTL:
            return [*self.program, *(word for command in self.commands for word in self._words(command))]
        return [*self.program, "-batch", "-"]

    def lines(self) -> str:
        """The lines that the program reads."""
        return "".join(" ".join(self._words(command)) + "\n" for command in self.commands)

    def failure(self, output: str) -> tuple[str, str]:
        """Return the command that failed, and the reason.

        The program names the line, or a word of it that it cannot parse.
        """
        reason = " ".join(_FAILED.sub("", output).split())
        if found := _FAILED.search(output):
            return self.commands[int(found[1]) - 1], reason
        words = set(_QUOTED.findall(output))
        suspects = [command for command in self.commands if words & set(self._words(command))]
        return suspects[0] if suspects else " ".join(self.arguments()), reason

    def _words(self, command: str) -> list[str]:
        return command.split()[len(self.program) :]


def batches(commands: Iterable[str]) -> list[Batch]:
    """Return the commands in their order, as few batches."""
    return [Batch(program, list(group)) for program, group in groupby(commands, key=_program)]


def run(node: Any, commands: Iterable[str]) -> tuple[str, str] | None:
    """Carry the commands out in a node; return the first that failed and the reason, or None."""
    for batch in batches(commands):
        if not batch.program:
            for command in batch.commands:
                if refused := node.cmd(command).strip():
                    return command, refused
            continue
        with kernel.in_network_of(node.pid):
            done = subprocess.run(
                batch.arguments(), input=batch.lines(), text=True, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        if done.returncode or done.stdout.strip():
            return batch.failure(done.stdout or f"{batch.program[0]} ended with {done.returncode}")
    return None


def _program(command: str) -> tuple[str, ...]:
    """Return the program whose batch takes a command, or None if it needs a shell or has options of its own."""
    words = tuple(command.split())
    if not _NEEDS_A_SHELL.search(command):
        for program in (_SYSCTL, *_BATCHED):
            if words[: len(program)] == program and not "".join(words[len(program) :]).startswith("-"):
                return program
    return ()
