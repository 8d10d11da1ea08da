"""The command line."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

import testbed
from testbed.cli import streams
from testbed.errors import UsageError, XoffError, plain

_EPILOG = """\
exit codes:
  0    fine
  1    a claim or a test did not hold
  2    the command line is wrong (a typo, a bad value)
  3    this machine: something is missing, no room, the lab broke down
  4    the experiment raised an error
  5    the experiment reached a limit of time, memory or processes
  6    the run is fine, but the lab did not keep its fidelity bounds (--allow-degraded)
  7    a defect of xoff itself, with a traceback
  130  interrupted; 143 after SIGTERM, 129 when the terminal has gone

First time here: xoff demo
"""
_ENDS = {signal.SIGTERM: "terminated", signal.SIGHUP: "the terminal has gone"}


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, which are handled as Ctrl-C is but for the exit code."""

    def __init__(self, number: int) -> None:
        self.word = _ENDS[signal.Signals(number)]
        self.code = 128 + number


class _Parser(argparse.ArgumentParser):
    """argparse, with one clear line for a mistake, and no options that a later one could make mean something else."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
        # A value such as -5m is no option, so that what it was given to can refuse it.
        self._negative_number_matcher = re.compile(r"-\.?[0-9]")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def build_parser(*wanted: str) -> argparse.ArgumentParser:
    """Every command, and the options of those that are `wanted`."""
    from testbed.cli import commands

    parser = _Parser(
        prog="xoff",
        description="A lossless-Ethernet lab on a stock Linux kernel in virtual time.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"xoff {testbed.__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    commands.add(subparsers, wanted)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    previous = {number: signal.getsignal(number) for number in _ENDS}
    with streams.standard() as out:
        for number, handler in previous.items():
            if handler is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, _on_end)
        try:
            code = _guarded(arguments, out)
            if out.lost is not None:
                _complain(str(out.lost))
                return code or out.lost.exit_code
            return code
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def _guarded(arguments: list[str], out: streams.Stream) -> int:
    """Run one command; what ends it becomes a message and an exit code."""
    try:
        try:
            code = _perform(arguments)
        except SystemExit:  # how argparse ends after --help
            out.flush()
            raise
        out.flush()
        return code
    except XoffError as error:
        _complain(str(error))
        return error.exit_code
    except Terminated as end:
        _complain(end.word)
        return end.code
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130
    except OSError as error:
        if out.error is not None:
            return 0  # the reader of the output has gone, which is no error; `main` reports any other
        where = "" if error.filename is None else f"{error.filename}: "
        _complain(f"{where}{error.strerror or error}")
        return 3
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "testbed":
            return _defect()
        _complain(
            f"{sys.executable} has no Python package {error.name}; ./xoff in the source has all that it takes, "
            "and so has what `pip install` made of that"
        )
        return 3
    except Exception:
        return _defect()


def _defect() -> int:
    """The exception that ends the command is a defect; exit code 1 would mean that a claim failed."""
    import traceback

    _complain(f"{traceback.format_exc()}this is a defect of xoff; a report of it needs all of these lines")
    return 7


def _perform(arguments: list[str]) -> int:
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(build_parser(*os.environ.get("COMP_LINE", "").split()))
    given = next((word for word in arguments if not word.startswith("-")), None)
    parser = build_parser(*filter(None, [given]))
    if given is not None and given not in _commands(parser):
        from testbed.cli.arguments import hint

        raise UsageError(f"there is no command {given}; {hint(given, list(_commands(parser)))}")
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        _refuse_unknown_word(_commands(parser).get(options.command, parser), unknown[0])
    if options.command is None:
        parser.print_help()
        return 0
    code: int = options.perform(options)
    return code


def _refuse_unknown_word(parser: argparse.ArgumentParser, given: str) -> NoReturn:
    from difflib import get_close_matches

    near = get_close_matches(given.partition("=")[0], parser._option_string_actions, 1)
    raise UsageError(
        f"{parser.prog} does not take {given}; " + (f"did you mean {near[0]}?" if near else f"see {parser.prog} --help")
    )


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return next(dict(a.choices) for a in parser._actions if isinstance(a, argparse._SubParsersAction))


def _complain(text: str) -> None:
    try:
        from testbed.cli.console import print_error
    except ImportError:  # the front door's Python has only its standard library
        print(f"xoff: {plain(text)}", file=sys.stderr)
    else:
        with suppress(OSError):  # standard error is closed too
            print_error(text)


def _on_end(number: int, frame: FrameType | None) -> None:
    raise Terminated(number)
