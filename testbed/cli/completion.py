"""`xoff completion`: what makes a shell complete xoff's commands."""

from __future__ import annotations

import argparse

from testbed.lab.result import Exit


def completion_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def completion(options: argparse.Namespace) -> int:
    """Print what makes a shell complete xoff's commands, as in: eval "$(xoff completion bash)"."""
    import argcomplete

    print(argcomplete.shellcode(["xoff"], shell=options.shell))
    return Exit.OK
