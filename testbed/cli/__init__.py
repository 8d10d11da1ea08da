"""The command line."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from types import FrameType
from typing import Any, NoReturn

import testbed
from testbed.errors import UsageError, XoffError

_EPILOG = """\
exit codes:
  0    fine
  1    a claim or a test did not hold
  2    what was asked for is wrong (a typo, a bad value)
  3    this machine: something is missing, no room, the lab broke down
  4    the experiment raised an error
  5    the experiment reached a limit of time, memory or processes
  6    the run is fine, but the lab could not keep its promises (--allow-degraded)
  130  interrupted; 143 after SIGTERM

First time here: xoff demo
"""


class Terminated(KeyboardInterrupt):
    """SIGTERM, which is handled as Ctrl-C is but for the exit code."""


class _Parser(argparse.ArgumentParser):
    """argparse, with one clear line for a mistake, and no options that a later one could make mean something else."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def build_parser() -> argparse.ArgumentParser:
    """Every command and option."""
    from testbed.cli import commands

    parser = _Parser(
        prog="xoff",
        description="A lossless-Ethernet lab on a stock Linux kernel in virtual time.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"xoff {testbed.__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    commands.add_all(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    previous = signal.signal(signal.SIGTERM, _on_sigterm)
    try:
        parser = build_parser()
        try:
            import argcomplete

            argcomplete.autocomplete(parser)
        except ImportError:
            pass  # the front door shows its help before anything is installed
        _refuse_unknown_command(parser, arguments)
        options, unknown = parser.parse_known_args(arguments)
        if unknown:
            _refuse_unknown_word(_commands(parser).get(options.command, parser), unknown[0])
        if options.command is None:
            parser.print_help()
            return 0
        code: int = options.perform(options)
        return code
    except XoffError as error:
        _complain(str(error))
        return error.exit_code
    except Terminated:
        _complain("terminated")
        return 143
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; that is no error of ours
        return 0
    finally:
        signal.signal(signal.SIGTERM, previous)


def _refuse_unknown_command(parser: argparse.ArgumentParser, arguments: list[str]) -> None:
    given = next((word for word in arguments if not word.startswith("-")), None)
    known = _commands(parser)
    if given is not None and given not in known:
        near = get_close_matches(given, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise UsageError(f"there is no command {given}; {hint}")


def _refuse_unknown_word(parser: argparse.ArgumentParser, given: str) -> NoReturn:
    near = get_close_matches(given.partition("=")[0], parser._option_string_actions, 1)
    raise UsageError(
        f"{parser.prog} does not take {given}; " + (f"did you mean {near[0]}?" if near else f"see {parser.prog} --help")
    )


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return next(dict(a.choices) for a in parser._actions if isinstance(a, argparse._SubParsersAction))


def _complain(text: str) -> None:
    try:
        from testbed.cli.ui import complain

        complain(text)
    except ImportError:
        print(f"xoff: {text}", file=sys.stderr)


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    raise Terminated
