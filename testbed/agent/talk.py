"""Questions of the network's own process to agents and speakers, and their answers: packets in a socket of each.

An answer that comes too late must not be taken for that to the next question, so both carry a number.
"""

from __future__ import annotations

import json
import pickle
import socket
import time
from dataclasses import dataclass
from typing import Any

_LARGEST = 1 << 20
_PATIENCE_S = 2.0


@dataclass(frozen=True)
class Question:
    number: int
    verb: str
    """Empty: the other end is closed."""
    argument: Any = None


def ask(end: socket.socket, question: Question) -> dict[str, Any]:
    """The answer to this question; older ones are thrown away. TimeoutError, or another OSError if there is nobody."""
    deadline = time.monotonic() + _PATIENCE_S
    end.send(pickle.dumps(question))
    while True:
        end.settimeout(max(0.001, deadline - time.monotonic()))
        data = end.recv(_LARGEST)
        if not data:
            raise ConnectionError("it has ended")
        found: dict[str, Any] = json.loads(data)
        if found.pop("question") == question.number:
            return found


def receive(end: socket.socket) -> Question:
    data = end.recv(_LARGEST)
    if not data:
        return Question(0, "")
    question: Question = pickle.loads(data)  # from the process that forked us, and nobody else has this socket
    return question


def answer(end: socket.socket, question: Question, what: dict[str, Any]) -> None:
    end.send(json.dumps({"question": question.number} | what).encode())
