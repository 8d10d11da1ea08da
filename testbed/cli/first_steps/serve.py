"""`xoff serve`: a live view of a lab, and results to replay, in browsers."""

from __future__ import annotations

import argparse
import signal
import time
from contextlib import nullcontext
from pathlib import Path

from testbed.cli import Terminated
from testbed.cli.engine_setup import engine_option, ready
from testbed.cli.screen import console
from testbed.errors import UsageError
from testbed.lab.engines.words import WORDS
from testbed.lab.results.folder import read
from testbed.net.shell import topologies
from testbed.strict.numbers import whole

DEFAULT_PORT = 8470


def options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument(
        "what", nargs="+", metavar="WHAT",
        help="a topology to run, as in incast,4, or result folders to replay, or both",
    )  # fmt: skip
    what.completer = lambda **_: topologies.names()  # type: ignore[attr-defined]
    engine_option(parser, [engine for engine in WORDS if engine.interactive])
    parser.add_argument(
        "--speed", type=_speed, default=1.0, metavar="N",
        help="on um: seconds of virtual time in a second (default 1; 0.1: ten times slower); viewers can change it",
    )  # fmt: skip
    parser.add_argument("--port", type=_port, default=DEFAULT_PORT, metavar="N", help=f"default {DEFAULT_PORT}; 0: any")
    parser.add_argument(
        "--listen", default="127.0.0.1", metavar="ADDRESS",
        help="default 127.0.0.1, this machine alone; another address lets others in who have the token",
    )  # fmt: skip
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE",
        help="the file with the token, for a program that asks for /metrics; made if it is not there (default: a new "
        "token each time)",
    )  # fmt: skip
    # Other commands take it, so it is given here too.
    parser.add_argument("--partitions", type=_refused_partitions, help=argparse.SUPPRESS)


def serve(options: argparse.Namespace) -> int:
    """Serve a live view to browsers: a running lab with controls, or results to replay. Ctrl-C ends it."""
    topology, results = _sorted_out(options.what)
    from testbed.serve import running, server
    from testbed.serve.access import Access, token_of
    from testbed.serve.app import application
    from testbed.serve.live_lab import LiveLab

    kept = {"token": token_of(options.token_file)} if options.token_file is not None else {}
    with server.listen(options.listen, options.port) as listening:
        access = Access(options.listen, listening.getsockname()[1], **kept)
        starting = (
            running.started(topology, ready(options.engine), options.speed) if topology is not None else nullcontext()
        )
        with starting as lab:
            live = LiveLab(lab, _network_of(lab)) if lab is not None else None
            ended_by = server.run(
                application(access, results, live), listening, live, lambda: _announce(access, topology, results)
            )
    if ended_by == signal.SIGINT:
        raise KeyboardInterrupt
    if ended_by is not None:
        raise Terminated(ended_by)
    raise UsageError(f"the lab has ended: {lab.ended if lab is not None else 'there is none'}")


def _sorted_out(what: list[str]) -> tuple[str | None, list[Path]]:
    """Return the topology and the result folders among the words, after reading each of them once."""
    unknown: list[str] = []
    results: list[Path] = []
    for word in what:
        path = Path(word)
        if path.is_dir() or "/" in word:
            read(path)
            results.append(path)
        else:
            topologies.check(word)
            unknown.append(word)
    if len(unknown) > 1:
        raise UsageError(
            f"{unknown[0]} and {unknown[1]}: one lab runs at a time; start another xoff serve for the other"
        )
    return (unknown[0] if unknown else None), results


def _network_of(lab: object) -> dict[str, object]:
    """Wait until the network runs, and return the line that describes it."""
    from testbed.serve.running import RunningLab

    assert isinstance(lab, RunningLab)
    printed: list[str] = []
    while True:
        for line in lab.lines(time.monotonic()):
            if line.get("live") == "network":
                return line
            printed.append(str(line.get("text", "")))
        if lab.ended is not None:
            reason = lab.ended.removeprefix("UsageError: ")
            others = [line for line in printed if reason not in line]  # the lab prints its reason too
            raise UsageError("\n  ".join([reason, *others[-4:]]))
        time.sleep(0.01)


def _announce(access: object, topology: str | None, results: list[Path]) -> None:
    from testbed.serve.access import Access

    assert isinstance(access, Access)
    shown = [*([topology] if topology else []), *(path.name for path in results)]
    console.say(f"{', '.join(shown)}: open this address; its token is shown here only. Ctrl-C ends it")
    print(access.url, flush=True)
    if not access.is_loopback:
        console.say(f"{access.address} can be reached from other machines: who has the token has the controls, too")


def _refused_partitions(text: str) -> int:
    """Refuse to have a live view over several kernels, with the reason."""
    raise argparse.ArgumentTypeError(
        f"{text[:40]} kernels cannot have a live view: what a click does acts at a node that one of them has, and the "
        "others would have to know of it before it happens. Leave it out"
    )


def _port(text: str) -> int:
    if (port := whole(text, 2**16 - 1)) is None:
        raise argparse.ArgumentTypeError(f"{text[:40]} is not a port; it is a whole number from 0 to 65535")
    return port


def _speed(text: str) -> float:
    from testbed.serve.running import FASTEST, SLOWEST

    try:
        speed = float(text)
    except ValueError:
        speed = -1.0
    if not SLOWEST <= speed <= FASTEST:
        raise argparse.ArgumentTypeError(f"{text} is not a speed; it is {SLOWEST:g} to {FASTEST:g}")
    return speed
