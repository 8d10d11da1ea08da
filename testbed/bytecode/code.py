"""The code that a class of one's own is lowered to: operations, cells and faults.

A program works on a frame of cells of 8 octets, each a whole number or a double. An instruction has an operation, a
count and three fields: `dst`, `a` and `b`. What the fields are says `FORMS`, in the letters of the C header: `c` is a
cell that is read, `w` one that is written, `t` the instruction to go on at; `R` and `W` are the first of `n` cells.

Runs in C: `testbed/lab/um/linux/xoff_control_vm.c`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NamedTuple

FORMS = {
    "RET": "...", "MOV": "wc.", "COPY": "WR.", "LOAD": "wRc", "STORE": "Wcc", "NEED": ".c.", "FAIL": "...",
    "ADDI": "wcc", "SUBI": "wcc", "MULI": "wcc", "DIVI": "wcc", "MODI": "wcc", "QUOI": "wcc", "NEGI": "wc.",
    "ABSI": "wc.", "MINI": "wcc", "MAXI": "wcc",
    "ANDI": "wcc", "ORI": "wcc", "XORI": "wcc", "SHLI": "wcc", "SHRI": "wcc", "INVI": "wc.",
    "ADDF": "wcc", "SUBF": "wcc", "MULF": "wcc", "DIVF": "wcc", "NEGF": "wc.", "ABSF": "wc.", "MINF": "wcc",
    "MAXF": "wcc", "SQRTF": "wc.",
    "FLOAT": "wc.", "INT": "wc.", "ROUND": "wc.", "FLOOR": "wc.", "CEIL": "wc.",
    "CMPIF": "wcc",
    "JMP": "t..", "JZI": "tc.", "JNZI": "tc.", "JZF": "tc.", "JNZF": "tc.",
    "JLTI": "tcc", "JLEI": "tcc", "JEQI": "tcc", "JNEI": "tcc",
    "JLTF": "tcc", "JLEF": "tcc", "JEQF": "tcc", "JNLTF": "tcc", "JNLEF": "tcc", "JNEF": "tcc",
}  # fmt: skip
"""The operations, in the order of their numbers, with what their fields are."""
NUMBERS = {name: number for number, name in enumerate(FORMS)}

STATE = 12
"""The first of the cells with what a recorder shows, as doubles; those before it are fixed by the kind of class."""
MOST_STATE = 8
FIRST = STATE + MOST_STATE
MOST_CELLS = 2048
MOST_CODE = 16384
NO_ENTRY = 2**32 - 1

SHOW = 6
"""The entry of what a recorder shows, behind those of the methods."""

FAULTS = (
    "",
    "a whole number needs more than 64 bits",
    "a division by 0",
    "int() of a number that is not finite",
    "the square root of a number below 0",
    "an index outside its sequence",
    "None where a number is needed",
    "a shift by less than 0",
    "a loop without end",
    "rate_lab_bps is not above 0",
    "window is neither None nor 1 or more",
    "deadline_lab_ns stays where it is",
    "zip() of sequences that differ in length",
    "an assertion that does not hold, or raise",
    "an answer that is none of those that the method may give",
)
INDEX, NOTHING, UNEQUAL, RAISED = 5, 6, 12, 13
"""Those of the faults that a program itself has: FAIL."""

_INSTRUCTION = struct.Struct("=BBHHH")


class Place(NamedTuple):
    """A place in a Python file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{PurePath(self.file).name}:{self.line}"


class Instruction(NamedTuple):
    """One instruction."""

    operation: str
    dst: int = 0
    a: int = 0
    b: int = 0
    n: int = 0

    def __str__(self) -> str:
        count = f" x{self.n}" if self.n else ""
        return f"{self.operation:6}{count} {self.dst} {self.a} {self.b}"


@dataclass(frozen=True)
class Program:
    """The code of a class, which its objects share: rate controls of queue pairs, or rules of ports."""

    instructions: tuple[Instruction, ...]
    places: tuple[Place, ...]
    """Where each instruction comes from."""
    entries: tuple[int, ...]
    """For each of `methods`, and for SHOW, the first instruction, or NO_ENTRY."""
    cells: int
    methods: tuple[str, ...]
    stamps: int
    """The first of the cells with the stamps of an acknowledgement; 0: it reads none."""
    shown: tuple[tuple[str, str], ...]
    """The names of what a recorder shows, with their kinds."""
    octets: bytes = field(default=b"", compare=False)
    more: int = 0
    """The first of the cells with what an event brings beside the fixed ones; 0: there are none."""

    def __post_init__(self) -> None:
        packed = b"".join(_INSTRUCTION.pack(NUMBERS[one.operation], one.n, *one[1:4]) for one in self.instructions)
        object.__setattr__(self, "octets", packed)

    @property
    def wants(self) -> int:
        """The events that it has entries for, as a mask."""
        return sum((entry != NO_ENTRY) << place for place, entry in enumerate(self.entries[:SHOW]))

    def fault(self, number: int, at: int) -> str:
        """Return the sentence of a fault of an instruction."""
        place = self.places[at] if at < len(self.places) else "its code"
        return f"{FAULTS[number] if number < len(FAULTS) else f'fault {number}'}, at {place}"

    def text(self) -> str:
        """Return the program, an instruction a line, for people."""
        starts = {entry: name for name, entry in zip((*self.methods, "state"), self.entries, strict=False)}
        return "\n".join(
            f"{starts.get(number, ''):16}{number:5} {one!s:28} {place}"
            for number, (one, place) in enumerate(zip(self.instructions, self.places, strict=True))
        )
