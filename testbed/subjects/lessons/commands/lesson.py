"""`xoff lesson`: guided labs, which check a student's work in the lab."""

from __future__ import annotations

import argparse
import json
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from testbed.cli import Terminated, output_file
from testbed.cli.arguments import whole_number
from testbed.cli.engine_setup import engine_option, ready
from testbed.cli.screen import console, progress, streams
from testbed.errors import UsageError
from testbed.experiment import definition
from testbed.lab.results.foreign import ForeignFolder
from testbed.lab.results.result import Exit, Result, Status
from testbed.lab.runs import api
from testbed.subjects.lessons import lesson as files
from testbed.subjects.lessons.check import Seen
from testbed.subjects.lessons.lesson import Lesson, Verdict

_RESULTS = "results"
"""The folder for results, within a lesson's folder."""


def options(parser: argparse.ArgumentParser) -> None:
    words = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = words.add_parser("list", help="list the lessons")
    listing.set_defaults(perform=list_)
    listing.add_argument("--json", action="store_true", help="JSON on standard output, for scripts")
    for name, perform, text in (
        ("start", start, "a folder with the page, the experiment to edit and the questions"),
        ("check", check, "run the experiment of a folder, and check it and the answers"),
        ("solution", solution, "for teachers: a folder with the solution, run and answered"),
    ):
        word = words.add_parser(name, help=text, description=perform.__doc__)
        word.set_defaults(perform=perform)
        word.add_argument("lesson", metavar="N", help="a lesson's number or name")
        word.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="default: lesson-N")
        if perform is start:
            word.add_argument(
                "--student", metavar="NAME", help="name or number of a student, for whom values are drawn"
            )
        else:
            engine_option(word)
            word.add_argument("--json", action="store_true", help="JSON on standard output, for scripts")
    word = words.add_parser("grade", help="for teachers: a table of a class's folders", description=grade.__doc__)
    word.set_defaults(perform=grade)
    word.add_argument("lesson", metavar="N", help="a lesson's number or name")
    word.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="a student's folder each")
    engine_option(word)
    limit_options(word)
    word.add_argument("--csv", type=Path, metavar="FILE", help="write the table as CSV")
    word.add_argument("--json", action="store_true", help="JSON on standard output, for scripts")
    word = words.add_parser("serve", help="for teachers: a server for a class", description=serve.__doc__)
    word.set_defaults(perform=serve)
    word.add_argument("lesson", metavar="N", help="a lesson's number or name")
    word.add_argument(
        "--students", type=Path, required=True, metavar="FILE", help="a student's name or number in each line"
    )
    word.add_argument("--listen", default="127.0.0.1", metavar="ADDRESS", help="default 127.0.0.1, this machine alone")
    word.add_argument(
        "--port", type=whole_number(0, 65535), default=8471, metavar="N", help="default 8471; 0: any that is free"
    )
    engine_option(word)
    limit_options(word)


def limit_options(parser: argparse.ArgumentParser) -> None:
    """Add the limits of one student's run."""
    parser.add_argument(
        "--wall", type=whole_number(1, 86400), default=300, metavar="S", help="seconds a run may take (default 300)"
    )
    parser.add_argument(
        "--memory", type=whole_number(100, 10**6), metavar="MB", help="memory of a run (default: usual)"
    )
    parser.add_argument(
        "-j", type=whole_number(1, 64), default=1, metavar="N", help="runs at the same time (default 1)"
    )


def lesson(options: argparse.Namespace) -> int:
    """Work through guided labs of 60 to 90 minutes: a page, an experiment to edit, questions, and a check of your own
    run."""
    raise AssertionError("argparse asks for an action")


def list_(options: argparse.Namespace) -> int:
    """List the lessons."""
    found = files.lessons()
    if options.json:
        rows = [{"number": one.number, "name": one.name, "title": one.title, "minutes": one.minutes} for one in found]
        print(json.dumps(rows, indent=1))
        return Exit.OK
    for one in found:
        console.stdout.print(f"{one.number}  [bold]{one.title}[/bold]  [dim]{one.minutes} min[/dim]")
        console.stdout.print(f"   {one.summary}")
    console.stdout.print("\nxoff lesson start 1 makes the folder of the first", style="dim")
    return Exit.OK


def start(options: argparse.Namespace) -> int:
    """Make a folder with a lesson's page, the experiment to edit and the questions."""
    chosen = files.find(options.lesson)
    folder = _folder(options, chosen)
    for path in files.begin(chosen, folder, student=options.student):
        print(path)
    console.say(f"read {folder / files.PAGE}, edit {files.EXPERIMENT} and {files.ANSWERS}, then:")
    console.say(f"xoff lesson check {chosen.number} {folder}")
    return Exit.OK


def check(options: argparse.Namespace) -> int:
    """Run the experiment of a lesson's folder in the lab, and compare the run and the answers with what is to come out.
    Exit code 0 if everything is right, 1 if something is not yet."""
    streams.outlast()
    chosen = files.find(options.lesson)
    folder = _folder(options, chosen)
    given = files.answers(chosen, folder)
    result = _run(chosen, folder, options)
    return _show(chosen, list(files.verdicts(chosen, Seen(_place(result)), given)), result, options.json)


def solution(options: argparse.Namespace) -> int:
    """Make a folder with a lesson's solution for teachers, run it, and write the answers that belong to this run."""
    streams.outlast()
    chosen = files.find(options.lesson)
    folder = options.folder or Path(f"solution-{chosen.number}")
    files.begin(chosen, folder, solved=True)
    result = _run(chosen, folder, options)
    seen = Seen(_place(result))
    values = files.solutions(chosen, seen)
    with ForeignFolder(folder).create(files.ANSWERS) as out:
        out.write(files.sheet(chosen, values).encode())
    return _show(chosen, list(files.verdicts(chosen, seen, values)), result, options.json)


def grade(options: argparse.Namespace) -> int:
    """Run the work of a class in the lab, each student's file with the values that were drawn for that student, and
    print a table. What students handed in is executed nowhere else."""
    streams.outlast()
    from testbed.subjects.lessons import grading, running

    chosen = files.find(options.lesson)
    submitted = [grading.submission(chosen, folder) for folder in options.folders]
    engine, limits = ready(options.engine), running.RunLimits(wall_s=options.wall, memory_mb=options.memory)
    rows: list[grading.Row] = []
    with ThreadPoolExecutor(options.j) as pool:
        for row, _ in pool.map(lambda one: running.checked(chosen, one, engine, limits), submitted):
            rows.append(row)
            console.say(f"{len(rows)} of {len(submitted)}: {console.shown(row.student)}")
    rows = grading.compared(rows, submitted)
    if options.csv is not None:
        with output_file.whole_file(options.csv, options.folders, "--csv") as out:
            out.write(grading.as_csv(chosen, rows).encode())
    if options.json:
        print(json.dumps(grading.as_json(chosen, rows), indent=1))
    else:
        _show_class(chosen, rows)
    return Exit.OK if all(not row.why for row in rows) else Exit.FAILED


def serve(options: argparse.Namespace) -> int:
    """Serve a lesson to a class until Ctrl-C: students hand in work in a browser, and a queue runs it in the lab, so
    many at a time as -j says. The address of each student is printed."""
    from testbed.serve import server
    from testbed.serve.access import Access
    from testbed.subjects.lessons import running
    from testbed.subjects.lessons.classroom import MOST_STUDENTS, Classroom, Queue, application
    from testbed.subjects.lessons.run_queue import RunQueue

    chosen = files.find(options.lesson)
    try:
        names = options.students.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{options.students}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from None
    students = [files.named(name) for name in names if name.strip()]
    if not 1 <= len(students) <= MOST_STUDENTS or len({files.normal(name) for name in students}) < len(students):
        raise UsageError(f"{options.students}: 1 to {MOST_STUDENTS} students are expected, each once")
    engine, limits = ready(options.engine), running.RunLimits(wall_s=options.wall, memory_mb=options.memory)
    with server.listen(options.listen, options.port) as listening:
        port = listening.getsockname()[1]
        queue: Queue = RunQueue(lambda work: running.checked(chosen, work, engine, limits), options.j)
        room = Classroom(
            chosen, queue, {name: Access(options.listen, port) for name in students}, Access(options.listen, port)
        )

        def announce() -> None:
            console.say(f"lesson {chosen.number} for {len(students)} students; the addresses are shown here only")
            for name, access in (("(teacher)", room.teacher), *room.students.items()):
                print(f"{name},{access.url}", flush=True)

        try:
            ended_by = server.run(application(room), listening, None, announce)
        finally:
            queue.close()
    if ended_by == signal.SIGINT:
        raise KeyboardInterrupt
    raise Terminated(ended_by or signal.SIGTERM)


def _show_class(chosen: Lesson, rows: list[Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    marks = {True: "+", False: "."}
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name, justify in (("student", "left"), ("right", "right"), ("steps", "left"), ("answers", "left")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("", overflow="fold")
    for row in rows:
        notes = [f"same as {row.same_as}"] if row.same_as else []
        words = escape(console.shown("; ".join([*notes, *([row.why] if row.why else [])])))
        told = ("".join(marks[one] for one in part) or "-" for part in (row.steps, row.answers))
        table.add_row(escape(console.shown(row.student)), f"{row.right}/{row.of}", *told, words)
    console.stdout.print(f"[bold]lesson {chosen.number}: {chosen.title}[/bold]")
    console.stdout.print(table, crop=False)


def _folder(options: argparse.Namespace, chosen: Lesson) -> Path:
    folder: Path = options.folder or Path(f"lesson-{chosen.number}")
    return folder


def _run(chosen: Lesson, folder: Path, options: argparse.Namespace) -> Result:
    path = folder / files.EXPERIMENT
    if not path.is_file():
        raise UsageError(f"{path} is not there; `xoff lesson start {chosen.number} {folder}` makes it")
    students = ForeignFolder(folder)
    if students.has(_RESULTS):
        students.require(_RESULTS)  # no link to elsewhere
    experiment = definition.load_file(path, within_s=definition.READ_WITHIN_S)
    engine = ready(options.engine)
    with progress.Screen(many=False, quiet_stdout=True) as screen, closing(screen.watch(experiment.name)) as watcher:
        result = api.run(experiment, on=engine, out=folder / _RESULTS, watcher=watcher)
    if result.status is not Status.OK:
        progress.show(result)
        raise LessonRunFailed(result)
    return result


class LessonRunFailed(UsageError):
    """Raised if the experiment did not come to its end, so that there is nothing to check."""

    def __init__(self, result: Result) -> None:
        super().__init__("the experiment did not come to its end, so nothing was checked")
        self.exit_code = result.exit_code()


def _place(result: Result) -> Path:
    assert result.folder is not None
    return result.folder


def _show(chosen: Lesson, found: list[Verdict], result: Result, as_json: bool) -> int:
    right = sum(verdict.is_right for verdict in found)
    if as_json:
        rows = [{"what": one.what, "right": one.is_right, "why": one.why} for one in found]
        print(json.dumps({"lesson": chosen.number, "right": right, "of": len(found), "items": rows,
                          "result": str(result.folder)}, indent=1))  # fmt: skip
    else:
        held, open_ = ("✓", "○") if console.stdout.encoding.startswith("utf") else ("+", "o")
        console.stdout.print(f"[bold]lesson {chosen.number}: {chosen.title}[/bold]")
        for one in found:
            mark = f"[green]{held}[/green]" if one.is_right else f"[yellow]{open_}[/yellow]"
            console.stdout.print(f"{mark} {console.shown(one.what)}")
            if one.why:
                console.stdout.print(f"    not yet: {console.shown(one.why)}")
        console.stdout.print(
            f"{right} of {len(found)} right; this run: {console.shown(str(result.folder))}", style="dim"
        )
    return Exit.OK if right == len(found) else Exit.FAILED
