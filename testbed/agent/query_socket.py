"""Queries of the network's own process to agents and speakers, and their answers: packets in one socket each.

An answer that arrives late must not be taken for the answer to the next query, so both carry a number. The content of
an answer is in memory of its own, and only its file descriptor goes through the socket: the answer of a node with
hundreds of ports fits, and an agent never blocks on a reader.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any

_LARGEST_QUESTION = 1 << 17
_PATIENCE_S = 2.0
_NUMBER = struct.Struct("=Q")


@dataclass(frozen=True)
class Question:
    number: int
    verb: str
    """The verb of the query; empty if the other end is closed."""
    argument: Any = None


def ask(end: socket.socket, question: Question) -> dict[str, Any]:
    """Ask, and return the answer; older ones are dropped. TimeoutError, or another OSError, if no process answers."""
    deadline = time.monotonic() + _PATIENCE_S
    end.send(pickle.dumps(question))
    while True:
        end.settimeout(max(0.001, deadline - time.monotonic()))
        number, files, _, _ = socket.recv_fds(end, _NUMBER.size, 1)
        if not number:
            raise ConnectionError("it has ended")
        found: dict[str, Any] = {}
        for file in files:
            with open(file, "rb") as memory:
                memory.seek(0)
                found = json.load(memory)
        if number == _NUMBER.pack(question.number):
            return found


def receive(end: socket.socket) -> Question:
    data = end.recv(_LARGEST_QUESTION)
    if not data:
        return Question(0, "")
    question: Question = pickle.loads(data)  # from the process that forked this one; no other process has this socket
    return question


def answer(end: socket.socket, question: Question, what: dict[str, Any]) -> None:
    number = _NUMBER.pack(question.number)
    if not what:
        end.send(number)
        return
    with os.fdopen(os.memfd_create("xoff-answer", os.MFD_CLOEXEC), "wb", buffering=0) as memory:
        memory.write(json.dumps(what).encode())
        socket.send_fds(end, [number], [memory.fileno()])
