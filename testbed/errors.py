"""The root of Xoff's exceptions.

Every error that Xoff raises on purpose is a XoffError, so the command line can print it as one line
and leave tracebacks for real defects. A message names the thing, the value and the way out.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any


class XoffError(Exception):
    """Something a user can understand and mend; the message is written for them."""

    exit_code: int = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """An error goes to other processes as it is, whatever its class is made with."""
        return _same, (type(self), self.args), self.__dict__


def _same(kind: type[XoffError], arguments: tuple[Any, ...]) -> XoffError:
    return kind.__new__(kind, *arguments)


class UsageError(XoffError):
    """Raised if something that the user typed or wrote is wrong, so that running it again changes nothing."""

    exit_code = 2


def plain(text: object) -> str:
    """Text as a terminal may have it: what is not printable, such as the start of an escape sequence, is written out.

    Names, figures and messages come from routers, jobs and files, and could otherwise give orders to the terminal. The
    ends of lines and tabs stay.
    """
    whole = str(text)
    if whole.replace("\n", "").replace("\t", "").isprintable():
        return whole
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in whole)


def message(text: object) -> str:
    """Text of a message, whose further lines are indented: what came from elsewhere cannot look like a message of its
    own.
    """
    return re.sub(r"\n(?=\S)", "\n  ", plain(text))


def one_line(text: object) -> str:
    """Text as `plain` has it, with the ends of lines and tabs written out, too."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


def nearest(name: object, known: Iterable[str]) -> str:
    """The way out where `name` is none of the known names: "did you mean s1?", or else what there is."""
    choices = sorted(known)
    near = get_close_matches(str(name), choices, 1)
    return f"did you mean {near[0]}?" if near else f"there {'is' if len(choices) == 1 else 'are'} {listed(choices)}"


def listed(names: Iterable[str], most: int = 20) -> str:
    """Names in a message, which must not be long."""
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return (", ".join(found[:most]) or "none") + more


_subjects: list[str] = []


@contextmanager
def warnings_of(subject: str) -> Iterator[None]:
    """Have warnings begin with what they are of, where that is not the user's own: the control of a case, for one."""
    _subjects.append(subject)
    try:
        yield
    finally:
        _subjects.pop()


def warn(text: str) -> None:
    """Print a warning: it is in the run's output, and the user sees it at once."""
    print(f"warning: {': '.join([*_subjects, text])}", file=sys.stderr, flush=True)
