"""Compiles the port program: python3 -m testbed.linux.port_program.build

The object is part of the source tree, because its instructions count in the lab's time: a compiler of another version
would change results. To build it takes clang 14 and libbpf's headers; a test compares the tree's object with a new one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from testbed.errors import XoffError

_HERE = Path(__file__).parent
SOURCE = _HERE / "port.bpf.c"
TUNNEL_SOURCE = _HERE / "tunnel_ecn.bpf.c"
OBJECT = _HERE / "port.bpf.o"
WITH_WAITS = _HERE / "port_waits.bpf.o"
WITH_TELEMETRY = _HERE / "port_telemetry.bpf.o"
WITH_TRIMMING = _HERE / "port_trimming.bpf.o"
WITH_ALL = _HERE / "port_all.bpf.o"
WITH_DEI = _HERE / "port_dei.bpf.o"
TUNNEL_OBJECT = _HERE / "tunnel_ecn.bpf.o"
WITH_RULES = _HERE / "port_rules.bpf.o"
VARIANTS = {
    OBJECT: (),
    WITH_WAITS: ("WAITS",),
    WITH_TELEMETRY: ("WAITS", "TELEMETRY"),
    WITH_TRIMMING: ("TRIM",),
    WITH_ALL: ("WAITS", "TELEMETRY", "TRIM"),
    WITH_DEI: ("WAITS", "DEI"),
    WITH_RULES: ("WAITS", "TELEMETRY", "TRIM", "RULES"),
}
"""The macros that are defined in each object of the port program."""
SOURCES = dict.fromkeys(VARIANTS, SOURCE) | {TUNNEL_OBJECT: TUNNEL_SOURCE}
"""The source of each object."""
COMPILER, STRIPPER = "clang-14", "llvm-strip-14"


class BuildError(XoffError):
    """The object could not be built."""


def build(target: Path, *definitions: str, source: Path = SOURCE) -> None:
    """Compile a source to `target`, with these macros defined."""
    for program in (COMPILER, STRIPPER):
        if not shutil.which(program):
            raise BuildError(f"{program} is missing; Debian 12 has it in clang-14 and llvm-14")
    with tempfile.TemporaryDirectory() as place:
        made = Path(place) / OBJECT.name
        # Else the object would contain the directory, and differ in each checkout.
        macros = [f"-D{name}" for name in definitions]
        _run([COMPILER, "-O2", "-g", "-ffile-compilation-dir=.", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3",
              *macros, "-I/usr/include/x86_64-linux-gnu", "-c", source.name, "-o", str(made)])  # fmt: skip
        _run([STRIPPER, "-g", str(made)])
        shutil.copyfile(made, target)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=_HERE, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{command[0]} failed:\n{done.stderr.strip()}")


if __name__ == "__main__":
    try:
        for made, written in SOURCES.items():
            build(made, *VARIANTS.get(made, ()), source=written)
    except XoffError as error:
        sys.exit(str(error))
