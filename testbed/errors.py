"""The root of Xoff's exceptions.

Every error that Xoff raises on purpose is a XoffError, so the command line can print it as one line
and leave tracebacks for real defects. A message names the thing, the value and the way out.
"""


class XoffError(Exception):
    """Something a user can understand and mend; the message is written for them."""

    exit_code: int = 1


class UsageError(XoffError):
    """What the user typed or wrote is wrong, and running it again changes nothing."""

    exit_code = 2


def plain(text: object) -> str:
    """Text as a terminal may have it: what is not printable, such as the start of an escape sequence, is written out.

    Names, figures and messages come from routers, jobs and files, and could otherwise give orders to the terminal. The
    ends of lines and tabs stay.
    """
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in str(text))
