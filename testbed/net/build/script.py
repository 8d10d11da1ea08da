"""A user's Python file that is run as a program, and what the lab gives one that is a script for Mininet.

Open vSwitch runs before the script begins. Links without a rate have one, as nothing else would limit traffic where the
work of the CPU takes no time. CPU limits of hosts are left out, with a warning. The verdict on fidelity is about the
time while a network is up; captures and `networks.jsonl` are as for one of `testbed.net.build.network`.
"""

from __future__ import annotations

import atexit
import os
import resource
import runpy
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from testbed.errors import UsageError
from testbed.experiment import script
from testbed.experiment.output import PLACED_NS
from testbed.experiment.replaced import replaced
from testbed.experiment.run import Run
from testbed.experiment.script_tests import must_pass
from testbed.linux import vswitch
from testbed.units import Rate

_DESCRIPTORS = 16384
"""The limit of open files that Mininet's own set-up sets."""


def run_script(source: Path, run: Run, arguments: str, line: Rate) -> None:
    """Run the script as a program, with `arguments` as a shell would split them; the lab is made ready for Mininet."""
    try:
        words = shlex.split(arguments)
    except ValueError as error:
        raise UsageError(f"arguments={arguments}: {error}") from None
    place_files(source)
    imported = script.imported_along(source)
    ready = _mininet_is_ready(run, line) if script.MININET in imported else nullcontext()
    with ready, must_pass(imported):
        as_program(source, words)


def place_files(source: Path) -> None:
    """Put the script and the files that came with it into the working directory, where a script expects them."""
    for one in sorted(source.parent.rglob("*")):
        if one.is_file() and "__pycache__" not in one.parts:
            place = Path.cwd() / one.relative_to(source.parent)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(one, place)
            os.utime(place, ns=(PLACED_NS, PLACED_NS))


def as_program(source: Path, arguments: Sequence[str] = ()) -> None:
    """Execute a file as `python3 FILE ARGUMENTS` would, with its threads and exit functions.

    Raise SystemExit if it fails.
    """
    before, sys.argv = sys.argv, [str(source), *arguments]
    try:
        runpy.run_path(str(source), run_name="__main__")
        _end_threads()
    except SystemExit as end:
        _end_threads()
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
        if end.code:
            raise
    finally:
        atexit._run_exitfuncs()  # the job's process itself ends without
        sys.argv = before


def _end_threads() -> None:
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


@contextmanager
def _mininet_is_ready(run: Run, line: Rate) -> Iterator[None]:
    from testbed.net.build import cpu_limits, line_rate
    from testbed.net.build.network import prepare_mininet, wait_for_round_moment
    from testbed.net.build.node_shells import few_processes

    vswitch.ensure_daemons()
    prepare_mininet()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _DESCRIPTORS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, max(hard, _DESCRIPTORS)))
    with few_processes(), line_rate.of_links(line), cpu_limits.left_out(), _networks_are_followed(run):
        wait_for_round_moment()  # whatever the imports took so far
        yield


@contextmanager
def _networks_are_followed(run: Run) -> Iterator[None]:
    """Mark in the run the time while a network of Mininet's is up; capture and describe those that are started whole.

    A script may also build one, and then start its controllers and switches singly. One of `network` does all of it.
    """
    from mininet.net import Mininet

    from testbed.net.build.network import Network

    networks: dict[Any, ExitStack] = {}
    build, start, stop = Mininet.build, Mininet.start, Mininet.stop

    def followed_build(net: Any) -> None:
        build(net)
        if not isinstance(net, Network):
            networks[net] = ExitStack()
            networks[net].enter_context(run.network_is_up())

    def followed_start(net: Any) -> None:
        if isinstance(net, Network):
            start(net)
            return
        if not net.built:
            net.build()
        stack = networks.setdefault(net, ExitStack())
        stack.close()  # to start it keeps the CPU busy, too
        stack.enter_context(_followed(net, run))
        start(net)
        stack.enter_context(run.network_is_up())

    def followed_stop(net: Any) -> None:
        networks.pop(net, ExitStack()).close()
        stop(net)

    try:
        with replaced(Mininet, build=followed_build, start=followed_start, stop=followed_stop):
            yield
    finally:
        for one in networks.values():
            one.close()


@contextmanager
def _followed(net: Any, run: Run) -> Iterator[None]:
    from testbed.net.build.network import wait_for_round_moment
    from testbed.net.fabric.fabric import Fabric
    from testbed.net.watch import captures, description

    since_ns, topology = time.monotonic_ns(), type(net.topo).__name__ if net.topo else ""
    net.fabric = Fabric.current()  # without ports of ours
    captured = captures.capturing(net, run, topology) if run.capture_octets else None
    wait_for_round_moment()
    run.lines(description.NETWORKS_LOG, [description.started(net, "", topology, since_ns)])
    try:
        yield
    finally:
        if captured is not None:
            captured.stop()
        run.lines(description.NETWORKS_LOG, [description.ended()])
