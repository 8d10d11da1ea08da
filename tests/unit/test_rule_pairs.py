"""Rules that run in C are stated in Python: the heads of both name each other, and what compares them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_STATED, _COMPARED, _RUNS = (
    re.compile(rf"{words}: ([^:]*?)\.$", re.M) for words in ("Stated in", "Compared by", "Runs in C")
)


def _named(head: str, pattern: re.Pattern[str]) -> set[str]:
    """Return the files of a line of a head, which may go on for several lines."""
    found = pattern.search(re.sub(r"^ \* ?", "", head, flags=re.M))
    return {name.strip(" `") for name in found[1].replace("\n", " ").split(",")} if found else set()


def _programs() -> dict[str, tuple[set[str], set[str]]]:
    """Return, for each file in C with stated rules, the files that state them and those that compare."""
    found = {}
    for path in sorted((ROOT / "testbed").rglob("*.[ch]")):
        head = path.read_text().partition("\n#")[0]
        if "Stated in:" in head:
            found[str(path.relative_to(ROOT))] = _named(head, _STATED), _named(head, _COMPARED)
    return found


def _statements() -> dict[str, set[str]]:
    """Return, for each Python file that states rules, the files in C in which they run."""
    found = {}
    for path in sorted((ROOT / "testbed").rglob("*.py")):
        if "Runs in C:" in (text := path.read_text()):
            found[str(path.relative_to(ROOT))] = _named(ast.get_docstring(ast.parse(text)) or "", _RUNS)
    return found


def test_rules_in_c_and_their_statements_name_each_other() -> None:
    programs = {(program, one) for program, (stated, _) in _programs().items() for one in stated}
    statements = {(program, one) for one, programs in _statements().items() for program in programs}
    assert programs == statements
    assert {program.rpartition("/")[2] for program, _ in programs} >= {
        "port.bpf.c", "xoff_pfc_rules.h", "xoff_roce_user.c", "xoff_udp_kern.c",
    }  # fmt: skip


def test_what_compares_them_is_there() -> None:
    there = {path.name for folder in ("tests", "tools") for path in (ROOT / folder).rglob("*.py")}
    for program, (_, compared) in _programs().items():
        assert compared, f"{program} says by nothing that it is held equal to its statement"
        assert {one.rpartition("/")[2] for one in compared} <= there, program
