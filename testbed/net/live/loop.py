"""The loop of a live view's network: it writes lines of JSON about the network, and carries out commands in JSON.

Both go by the terminal of the job, as Mininet's command line does in a shell. One thread samples the network every
10 ms of the lab's time and writes lines; the other carries out commands.

| line | keys |
|---|---|
| `network` | those of the line in `networks.jsonl`; it comes once |
| `window` | `t_ns` (the end of the window), `events`, `buffers`, `loads`, `marks`, `flows` |
| `state` | `t_ns`, and `state`: settings of ports, cables, agents, flows, DCBX, SR; it comes when one has changed |
| `counters` | `t_ns`, and `rows`: what ports and pools have counted; it comes when something changed |
| `answer` | `id` of the command, `t_ns` (when it was taken), `ok`, `text` |
"""

from __future__ import annotations

import json
import os
import select
import sys
import termios
import threading
import time
from typing import Any

from testbed.errors import UsageError, XoffError
from testbed.net.build.network import network
from testbed.net.build.topo import LosslessTopo
from testbed.net.live.controls import Controls
from testbed.net.live.prepared import prepare
from testbed.net.live.sampler import Sampler
from testbed.net.shell.topologies import build
from testbed.net.watch import description, samplers

_STEP_NS, _WRITE_NS = 10_000_000, 50_000_000
_LONGEST_COMMAND = 4000
"""The octets of the longest command; a line from a terminal has at most 4095."""


def live(wanted: str) -> None:
    """Build the topology that `wanted` names, as in `incast,4`, and serve a live view until its input ends."""
    topo = build(wanted)
    if not isinstance(topo, LosslessTopo):
        raise UsageError(f"{wanted} has no lossless ports, so a live view has nothing to show; incast,4 has some")
    prepare(topo)
    _make_terminal_plain()
    with network(topo) as net:
        _Loop(net, type(topo).__name__).run()


def _make_terminal_plain() -> None:
    """Turn off echo, signals and the processing of output.

    Input stays line by line: a terminal that delivers single keys is taken for a prompt, at which the lab's time stands
    still.
    """
    settings = termios.tcgetattr(0)
    settings[1] &= ~termios.OPOST
    settings[3] &= ~(termios.ECHO | termios.ISIG)
    termios.tcsetattr(0, termios.TCSANOW, settings)


class _Loop:
    def __init__(self, net: Any, topology: str) -> None:
        self._net = net
        self._writing = threading.Lock()
        self._asking = threading.Lock()
        """The lock for sockets to agents and ports, which have one user at a time."""
        self._ended = threading.Event()
        self._start_ns = start_ns = time.monotonic_ns()
        self._controls = Controls(net)
        self._sampler = Sampler(net, self._controls, start_ns)
        described = description.started(net, "", topology, start_ns)
        del described["t_ns"]  # of the monotonic clock; that of a live network begins with it
        self._write({"live": "network", **described, "lab_ns": 0, "hosts": [host.name for host in net.hosts]})

    def run(self) -> None:
        """Sample the network and carry out commands until the input ends."""
        sampling = threading.Thread(target=self._sample, daemon=True)
        sampling.start()
        try:
            while (line := self._next_line()) is not None:
                self._obey(line)
        finally:
            self._ended.set()
            sampling.join()
            self._controls.close()

    def _next_line(self) -> bytes | None:
        """Return the next command, or None at the end of the input."""
        select.select([0], [], [])
        line = os.read(0, _LONGEST_COMMAND + 100)
        return line or None

    def _obey(self, line: bytes) -> None:
        number: Any = None
        taken_ns = time.monotonic_ns() - self._start_ns
        try:
            command = json.loads(line)
            number = command.pop("id")
            with self._asking:
                text = self._controls.perform(command)
            answer = {"ok": True, "text": text}
        except (XoffError, ValueError, OSError, RecursionError, AttributeError, KeyError, TypeError) as error:
            known = isinstance(error, (XoffError, OSError))
            answer = {"ok": False, "text": str(error) if known else f"no command: {error}"}
        self._write({"live": "answer", "id": number, "t_ns": taken_ns, **answer})

    def _sample(self) -> None:
        written_ns = 0
        for due_ns in samplers.ticks(_STEP_NS, self._ended):
            written_ns = written_ns or due_ns
            try:
                self._sampler.look(time.monotonic_ns())
                if due_ns - written_ns >= _WRITE_NS:
                    written_ns = due_ns
                    self._write(self._sampler.window())
                    with self._asking:
                        state = self._sampler.changed_state()
                    for line in (state, self._sampler.counters()):
                        if line is not None:
                            self._write(line)
            except XoffError as error:  # an agent that died does not answer until its successor has started
                print(error, file=sys.stderr)

    def _write(self, content: dict[str, Any]) -> None:
        data = json.dumps(content, separators=(",", ":")).encode() + b"\n"
        with self._writing:
            while data:
                data = data[os.write(1, data) :]
