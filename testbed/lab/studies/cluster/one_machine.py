"""A process on a worker that has some parts of a network: their kernels, and the relay to those of other machines.

    python -m testbed.lab.studies.cluster.one_machine < request

The request is a line of JSON, then the job's octets; after them come commands of the user's machine, a line of JSON
each, and what is said to it goes to standard output in the same way. The end of the commands is the end of the process.
Exit codes are as those of `one_run`. With the argument `sweep` it removes what such processes left that were killed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import IO, Any

from testbed.errors import XoffError, plain
from testbed.experiment.output import Record, RecordKind
from testbed.lab.engines.um import PreparedUm
from testbed.lab.host import cache
from testbed.lab.partition import memory
from testbed.lab.partition.link import Listener, Membership, call
from testbed.lab.partition.relay import Peer, Relay
from testbed.lab.studies.cluster.on_worker import WANTS_LAB
from testbed.lab.studies.cluster.one_run import prepared_for
from testbed.lab.um.machine import Machine
from testbed.linux.process import kernel as linux

_MEET_WITHIN_S = 30.0
_LOOK_S, _TELL_S, _SPINS_S = 0.01, 0.15, 2.0
_PIECE = 1 << 20


class _User:
    """The user's machine, which sends commands and hears what is said."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)  # nothing else may get between the lines
        self._turn = threading.Lock()
        self.commands: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self.has_gone = threading.Event()

    def say(self, content: Mapping[str, Any]) -> None:
        with self._turn, suppress(BrokenPipeError):
            self._out.write(json.dumps(content).encode() + b"\n")
            self._out.flush()

    def listen(self) -> None:
        for line in sys.stdin.buffer:
            self.commands.put(json.loads(line))
        self.has_gone.set()

    def next(self) -> Mapping[str, Any] | None:
        """Wait for a command; None if there comes none any more."""
        while not self.has_gone.is_set():
            with suppress(queue.Empty):
                return self.commands.get(timeout=0.1)
        return None


def main(words: Sequence[str]) -> int:
    """Have the parts, and return the exit code."""
    if words == ["sweep"]:
        for place in (cache.root(), *cache.folder("cluster").glob("lab-*")):
            if (place / "tmp").is_dir():
                cache.sweep(place / "tmp")
        return 0
    linux.die_with_parent()
    user = _User()
    signal.signal(signal.SIGTERM, _end)
    request = json.loads(sys.stdin.buffer.readline())
    job = sys.stdin.buffer.read(request["octets"])
    try:
        prepared = prepared_for(request)
        if prepared is None:
            return WANTS_LAB
        threading.Thread(target=user.listen, daemon=True).start()
        with cache.owned("cluster-parts") as work:
            roomy = prepared.with_room(request["memory_mb"], request["written_mb"])
            _have_parts(user, request, roomy, job, work)
    except XoffError as error:
        print(plain(error), file=sys.stderr)
        return 1
    except _EndedError:
        pass
    return 0


class _EndedError(Exception):
    """Raised where the process is when it is told to end."""


def _end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _EndedError


def _have_parts(user: _User, request: Mapping[str, Any], prepared: PreparedUm, job: bytes, work: Path) -> None:
    placement: list[list[int]] = request["placement"]
    number, parts = request["machine"], sum(map(len, placement))
    own = placement[number]
    us = Membership(bytes.fromhex(request["secret"]), number, alike(request))
    with ExitStack() as held:
        shared = held.enter_context(memory.shared(parts))
        relay = held.enter_context(closing(Relay(shared, parts, own)))
        listener = Listener(request["host"], us, lambda text: user.say({"report": text}))
        with closing(listener):
            user.say({"listens": listener.address})
            command = user.next()
            if command is None or "machines" not in command:
                return
            addresses = command["machines"]
            called = {other: call(us, other, (addresses[other][0], addresses[other][1])) for other in range(number)}
            answered = listener.await_(range(number + 1, len(placement)), _MEET_WITHIN_S)
        relay.begin([
            Peer(request["workers"][other], channel, placement[other])
            for other, channel in {**called, **answered}.items()
        ])  # fmt: skip
        machines = held.enter_context(prepared.parts_started(own, shared, job, work))
        user.say({"begun": True})
        _follow(user, relay, dict(zip(own, machines, strict=True)))


def _follow(user: _User, relay: Relay, machines: Mapping[int, Machine]) -> None:
    """Say what the parts write and how they are, until the user's machine wants no more."""
    with ExitStack() as opened:
        streams = {part: opened.enter_context(one.stream.open("rb")) for part, one in machines.items()}
        told_s = dict.fromkeys(machines, 0.0)
        looked_s, is_lost = 0.0, False
        while not user.has_gone.is_set():
            with suppress(queue.Empty):
                while True:
                    command = user.commands.get_nowait()
                    if "end" in command:
                        return
                    if (machine := machines.get(command["part"])) is not None:
                        machine.send(Record(RecordKind(command["kind"]), base64.b64decode(command["payload"])))
            now_s = time.monotonic()
            looks = now_s - looked_s > _SPINS_S
            looked_s = now_s if looks else looked_s
            said = False
            for part, machine in machines.items():
                tells = now_s - told_s[part] > _TELL_S
                if news := _news(part, machine, streams[part], tells=tells, looks=looks):
                    said = said or "data" in news
                    told_s[part] = now_s
                    user.say(news)
            if not is_lost and (lost := relay.lost()) is not None:
                is_lost = True
                user.say({"relay": lost})
            if not said:
                time.sleep(_LOOK_S)


def _news(part: int, machine: Machine, stream: IO[bytes], *, tells: bool, looks: bool) -> dict[str, Any]:
    """Return what is new of a part; nothing if it has written nothing and nothing is to be told."""
    lost = machine.lost()  # before reading: what it wrote before it ended is in the stream
    data = stream.read(_PIECE)
    news: dict[str, Any] = {"data": base64.b64encode(data).decode()} if data else {}
    if lost is not None and not data:
        news["lost"] = lost
    if tells:
        news |= {"cpu_s": machine.cpu_s(), "used_cpu_s": machine.used_cpu_s(), "stopped": machine.stopped()}
    if looks:
        news["spins"] = machine.spins()
    return {"part": part, **news} if news else {}


def alike(request: Mapping[str, Any]) -> bytes:
    """Return a digest of what all machines of a network must have alike."""
    named = ("image", "kernel", "packages", "placement", "job")
    content = [{name: request[name] for name in named}, {name: one["sha256"] for name, one in request["parts"].items()
                                                         if name != "lab"}]  # fmt: skip
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).digest()


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # threads may wait in memory for ever
