"""Progress on the screen while something runs, and tables of results."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import IO

from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, Task, TaskID, TextColumn
from rich.progress_bar import ProgressBar
from rich.status import Status
from rich.table import Table
from rich.text import Text

from testbed.cli.screen import amount, streams
from testbed.cli.screen.amount import Amount, Bar
from testbed.cli.screen.console import print_error, say, shown, stderr, stdout
from testbed.cli.screen.live_network import LiveNetwork
from testbed.experiment.fidelity import Verdict
from testbed.lab.engines.forecast import Step, costs
from testbed.lab.host import cores
from testbed.lab.results.result import Result, expectation
from testbed.lab.results.result import Status as RunStatus
from testbed.lab.runs.outlook import Outlook
from testbed.units import written

_LONG_S = 10.0
"""The time in s that a part of a run has to take to be announced."""
_MOST_LETTERS = 44
"""The most letters of a step of the set-up beside its bar; the line above has it whole."""
_REDRAWN = 5
"""Drawings in a second; each takes some of the lab's CPU."""


@contextmanager
def setting_up(steps: Sequence[Step] = ()) -> Iterator[Callable[[str], None]]:
    """Yield a function that reports set-up steps: each is a line, and in a terminal the last one has a spinner.

    If `steps` have to be made, whose cost is known, there is a bar with the time left instead.
    """
    with ExitStack() as stack:
        status: Status | None = None
        work: Amount | None = None
        cpu_s = costs(steps, cores=1).time_s

        def report(text: str) -> None:
            nonlocal status, work
            say(text)
            if cpu_s:
                if work is None:
                    expected_s = costs(steps, len(cores.available())).time_s
                    work = stack.enter_context(amount.shown("setting up", cpu_s, expected_s))
                    stack.enter_context(amount.by_cpu_time(work))
                work.at(0, text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…")
            elif stderr.is_terminal:
                if status is None:
                    status = stack.enter_context(stderr.status("", spinner="dots"))
                status.update(f"[dim]{escape(text)}[/dim]")

        yield report


class _Times(Bar):
    """A progress column with virtual time, wall time, and what is left, or where that is not known their ratio.

    A task that stands for several runs has a bar instead.
    """

    def render(self, task: Task) -> ProgressBar | Text:
        if task.total:
            return super().render(task)
        virtual_s, wall_s = task.fields["virtual_s"], task.fields["wall_s"]
        if not wall_s:
            return Text("")
        ratio = virtual_s / wall_s if wall_s else 0.0
        last = task.fields["outlook"] or f"ratio {ratio:.2f}"
        return Text(f"{virtual_s:.1f} s virtual, {wall_s:.1f} s wall, {last}", style="cyan")


class Screen:
    """Progress lines at the bottom of a terminal with the jobs' output above; plain output elsewhere."""

    def __init__(self, many: bool, quiet_stdout: bool, network: LiveNetwork | None = None) -> None:
        """`network` is drawn above the progress line, in a terminal that has cursor movements and colours."""
        self._many = many
        self.foresees = not quiet_stdout
        """True if it shows how long runs will take."""
        # With --json, standard output is for the JSON alone.
        self._out: IO[str] = sys.stderr if quiet_stdout else sys.stdout
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._progress: Progress | None = None
        self._live: Live | None = None
        if stderr.is_terminal:
            columns = (SpinnerColumn(), TextColumn("[bold]{task.description}[/bold]"), _Times())
            self._progress = Progress(*columns, console=stderr, transient=True, refresh_per_second=8)
            if network is not None and not stderr.is_dumb_terminal and not stderr.no_color:
                shown = Group(network, self._progress)
                self._live = Live(shown, console=stderr, transient=True, refresh_per_second=_REDRAWN)

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._stack.enter_context(self._live)
        elif self._progress is not None:
            self._stack.enter_context(self._progress)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def watch(self, name: str, *, tells: bool = True) -> Watch:
        """Return a watcher for one run. If it does not tell, it shows the time that passes and nothing that is said."""
        task = None
        if self._progress is not None:
            task = self._progress.add_task(name, total=None, virtual_s=0.0, wall_s=0.0, outlook="")
        return Watch(self, name, task, tells)

    def all_of(self, what: str, total: float, begun_s: float | None = None) -> Amount:
        """Return the amount of all runs, with a line of its own; they begin now, or began at a monotonic time."""
        return Amount(what, total, self._progress, begun_s=begun_s)

    def print(self, text: str, is_error: bool) -> None:
        """Print whole lines of a job's output."""
        with self._lock:
            if self._progress is not None and (sys.stderr if is_error else self._out).isatty():
                self._progress.console.print(Text.from_ansi(text), soft_wrap=True)
            else:
                stream = sys.stderr if is_error else self._out
                streams.write_data(f"{text}\n", stream)
                stream.flush()

    def update(self, task: TaskID, virtual_s: float, wall_s: float) -> None:
        if self._progress is not None:
            self._progress.update(task, virtual_s=virtual_s, wall_s=wall_s)

    def foresee(self, task: TaskID, outlook: str) -> None:
        """Show what a run does now, and how much of it is left."""
        if self._progress is not None:
            self._progress.update(task, outlook=outlook)

    def describe(self, task: TaskID, text: str) -> None:
        if self._progress is not None:
            self._progress.update(task, description=escape(text))

    def finish(self, task: TaskID) -> None:
        if self._progress is not None:
            self._progress.remove_task(task)

    @property
    def prefixes(self) -> bool:
        """True if lines begin with the name of their run."""
        return self._many


class Several:
    """The progress through several runs, of which it is known how long each takes beside the others."""

    def __init__(self, screen: Screen, what: str, unit: str, costs_s: Sequence[float]) -> None:
        self._unit, self._total = unit, len(costs_s)
        self._ended, self._done_s = 0, 0.0
        self._all = screen.all_of(what, sum(costs_s))
        self._show()

    def ended(self, cost_s: float) -> None:
        """Count a run that has ended."""
        self._ended += 1
        self._done_s += cost_s
        self._show()

    def _show(self) -> None:
        self._all.at(self._done_s, f"{self._ended} of {self._total} {self._unit}")


class Watch:
    """The watcher of one run, which shows it on the screen (an `api.Watcher`)."""

    def __init__(self, screen: Screen, name: str, task: TaskID | None, tells: bool = True) -> None:
        self._screen = screen
        self._name = name
        self._task = task
        self._tells = tells
        self._rest = {False: b"", True: b""}
        self._shown = self._foreseen = 0.0
        self._announced = ""

    def report(self, text: str) -> None:
        if self._tells:
            say(text)

    def output(self, data: bytes, is_error: bool) -> None:
        if not self._tells:
            return
        *lines, self._rest[is_error] = (self._rest[is_error] + data).split(b"\n")
        for line in lines:
            self._print(line, is_error)

    def progress(self, virtual_ns: int, wall_s: float) -> None:
        if self._task is not None and time.monotonic() - self._shown > 0.1:
            self._shown = time.monotonic()
            self._screen.update(self._task, virtual_ns / 1e9, wall_s)

    def outlook(self, outlook: Outlook | None) -> None:
        """Show what the run does now and how much is left; what takes long is also announced by a line."""
        if self._task is None or not self._screen.foresees:
            return
        takes_long = outlook is not None and (outlook.takes_s or 0.0) >= _LONG_S
        if self._tells and outlook is not None and takes_long and outlook.announcement != self._announced:
            self._announced = outlook.announcement
            say(f"{self._name}: {outlook.announcement}")
        if time.monotonic() - self._foreseen > 0.1:
            self._foreseen = time.monotonic()
            self._screen.foresee(self._task, str(outlook or ""))

    def describe(self, text: str) -> None:
        """Show another name for the run, where progress is shown."""
        if self._task is not None:
            self._screen.describe(self._task, text)

    def close(self) -> None:
        """Print the rest of the output, which has no end of line, and remove the progress line."""
        for is_error, rest in self._rest.items():
            if rest:
                self._print(rest, is_error)
        if self._task is not None:
            self._screen.finish(self._task)

    def _print(self, line: bytes, is_error: bool) -> None:
        text = line.decode(errors="replace")
        self._screen.print(f"{self._name} | {text}" if self._screen.prefixes else text, is_error)


def show(result: Result) -> None:
    """Print the summary of one run."""
    table = Table(box=None, pad_edge=False, show_header=True, header_style="dim", padding=(0, 2, 0, 0))
    for column in (result.experiment, "measured", "expected"):
        table.add_column(column, overflow="fold")
    claimed = {claim.name for claim in result.claims}
    for figure in result.figures:
        if figure.name not in claimed:
            table.add_row(f"  {shown(figure.name)}", shown(written(figure.value, figure.unit)), "")
    held, failed = ("✓", "✗") if stdout.encoding.startswith("utf") else ("+", "-")
    for claim in result.claims:
        mark = f"[green]{held}[/green]" if claim.passed else f"[red]{failed}[/red]"
        measured = written(claim.measured, claim.unit)
        table.add_row(f"{mark} {shown(claim.name)}", shown(measured), shown(expectation(claim)))
    if table.row_count:
        stdout.print(table)
    times, fidelity = result.times, result.fidelity
    verdict = fidelity.explained if fidelity.verdict is Verdict.UNKNOWN else fidelity.verdict
    cpu = "" if times.cpu_s is None else f"{times.cpu_s:.1f} s of CPU, "
    stdout.print(
        f"[dim]{times.virtual_ns / 1e9:.3f} s virtual in {times.wall_s:.1f} s wall (ratio {times.ratio:.2f}), {cpu}"
        f"fidelity {shown(verdict)}, digest {result.digest[:16]}, in {shown(result.folder)}[/dim]",
        soft_wrap=True,
    )
    name = result.experiment
    if result.status is not RunStatus.OK:
        print_error(f"{name}: {result.reason}; what it had until then is in {result.folder}")
    elif not result.passed:
        wrong = [claim.name for claim in result.claims if not claim.passed]
        print_error(f"{name}: not as claimed: {', '.join(wrong)}")
    # What ended otherwise did not end for want of CPU: set-up and errors keep it busy, and nothing is wrong with that.
    came_to_an_end = result.status in (RunStatus.OK, RunStatus.TIMEOUT, RunStatus.WALL_TIMEOUT)
    if fidelity.verdict is Verdict.DEGRADED and came_to_an_end:
        print_error(f"{name}: the lab did not keep its fidelity bounds: {'; '.join(fidelity.reasons)}")
