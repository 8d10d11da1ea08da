"""The engines by their words for `--engine`, and what the command line says of them without importing them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineWord:
    """The description of an engine before it is used; its class has the same."""

    name: str
    """The word for `--engine`."""
    summary: str
    """A phrase for the help of `--engine`."""
    reproducible: bool = False
    """True if the lab's time is virtual, so that two runs of a job give the same digest."""
    interactive: bool = True
    """True if a user can take part: the lab's clock is real, or waits for the user."""


UM = EngineWord("um", "virtual time on User-Mode Linux, where the CPU's work is free", reproducible=True)
VM = EngineWord(
    "vm", "virtual time on QEMU, where an instruction takes a nanosecond", reproducible=True, interactive=False
)
REALTIME = EngineWord("realtime", "the virtual machine in real time")
HOST = EngineWord("host", "this machine, as root")
WORDS = (UM, VM, REALTIME, HOST)
DEFAULT = UM.name
"""The engine of a run that names none."""
