"""The command line: the parser of all commands, and what happens to errors and signals."""

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
from testbed import early_end
from testbed.cli.screen import streams
from testbed.errors import UsageError, XoffError, message


class Terminated(KeyboardInterrupt):
    """Raised at SIGTERM, SIGHUP or SIGQUIT, which end a command as Ctrl-C does, with another exit code."""

    def __init__(self, number: int) -> None:
        self.word = early_end.WORDS[signal.Signals(number)]
        self.code = 128 + number


class _Parser(argparse.ArgumentParser):
    """A parser of argparse that reports a mistake in one line, and takes no abbreviated options.

    The option for the file or folder that a command writes is `--out`; `-o` and `--output` are understood, too.
    """

    def add_argument(self, *names: Any, **settings: Any) -> argparse.Action:
        action = super().add_argument(*names, **settings)
        if "--out" in names:
            hidden = {"default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
            super().add_argument("-o", "--output", **settings | hidden | {"dest": action.dest})
        return action

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
        # A value such as -5m is no option, so that what it was given to can refuse it.
        self._negative_number_matcher = re.compile(r"-\.?[0-9]")

    def error(self, message: str) -> NoReturn:
        parts = next((one for one in self._actions if isinstance(one, argparse._SubParsersAction)), None)
        if parts is not None and message.endswith(f"required: {parts.metavar}"):
            message += f", one of {', '.join(choice.dest for choice in parts._choices_actions)}"
        raise UsageError(f"{message}; see {self.prog} --help")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            from testbed.cli.arguments import hint

            offered = [choice.dest for choice in action._choices_actions]
            noun = self.prog.removeprefix("xoff ")
            raise UsageError(f"there is no {noun} command {value!r}; {hint(value, offered)}; see {self.prog} --help")
        super()._check_value(action, value)


class _TopParser(_Parser):
    """The parser of `xoff` itself, whose help shows the commands in groups."""

    def format_help(self) -> str:
        from testbed.cli import commands

        return (
            f"{self.format_usage()}\n{self.description}\nFirst time here: xoff demo\n\n{commands.overview()}\n"
            "options:\n"
            "  -h, --help            show this\n"
            "  --version             show the version\n"
            "  --completion SHELL    print what makes bash, zsh or fish complete xoff's commands\n\n"
            "xoff help COMMAND has the options of a command; xoff help lists topics, such as exit-codes and engines.\n"
        )


class _Completion(argparse.Action):
    """Print shell completion and end."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any) -> None:
        import argcomplete

        print(argcomplete.shellcode(["xoff"], shell=values), end="")
        parser.exit()


def build_parser(*wanted: str) -> argparse.ArgumentParser:
    """Return the parser of all commands, with the options of those that are `wanted`."""
    from testbed.cli import commands

    parser = _TopParser(
        prog="xoff",
        usage="xoff COMMAND ...",
        description="A lossless-Ethernet lab on a stock Linux kernel in virtual time.",
    )
    parser.add_argument("--version", action="version", version=f"xoff {testbed.__version__}")
    parser.add_argument("--completion", action=_Completion, choices=("bash", "zsh", "fish"))
    subparsers = parser.add_subparsers(metavar="COMMAND", dest="command", prog="xoff", parser_class=_Parser)
    commands.declare(subparsers, commands.by_name(), wanted)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    previous = {number: signal.getsignal(number) for number in early_end.WORDS}
    with streams.standard() as out:
        for number, handler in previous.items():
            if handler is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else _on_end)
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
    """Run one command, and turn whatever ends it into a message and an exit code."""
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
    """Report the exception that ended the command as a defect; exit code 1 would mean that a claim failed."""
    import traceback

    _complain(f"{traceback.format_exc()}this is a defect of xoff; a report of it needs all of these lines")
    return 7


def _perform(arguments: list[str]) -> int:
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(build_parser(*os.environ.get("COMP_LINE", "").split()))
    parser = build_parser(*arguments)
    given = arguments[0] if arguments and not arguments[0].startswith("-") else None
    if given is not None and given not in (known := _commands(parser)):
        from testbed.cli import commands
        from testbed.cli.arguments import hint

        parts = {part: f"{name} {part}" for name, one in commands.by_name().items() for part in one.parts}
        raise UsageError(f"there is no command {given}; {hint(given, list(known), parts)}")
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        _refuse_unknown_word(_innermost(parser, arguments), unknown[0])
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


def _innermost(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the command that the words name: that of `image build` rather than that of `image`."""
    for word in words:
        if word not in (known := _commands(parser)):
            break
        parser = known[word]
    return parser


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return next((dict(a.choices) for a in parser._actions if isinstance(a, argparse._SubParsersAction)), {})


def _say(text: str) -> None:
    with suppress(OSError):
        print(f"xoff: {message(text)}", file=sys.stderr)


def _complain(text: str) -> None:
    try:
        from testbed.cli.screen.console import print_error
    except ImportError:  # the front door's Python has only its standard library
        print(f"xoff: {message(text)}", file=sys.stderr)
    else:
        with suppress(OSError):  # standard error is closed too
            print_error(text)


def _on_end(number: int, frame: FrameType | None) -> None:
    raise Terminated(number)
