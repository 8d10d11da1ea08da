"""Print the docstrings of the project, so that somebody can read them as prose.

`python tools/docstrings.py --sample 50` prints fifty that are drawn at random; `--seed` draws the same ones again.
`python tools/docstrings.py testbed/net` prints all of a folder or file. `--riddles` keeps those whose first word is a
question word or a bare preposition, which is how most of the ones that nobody understands begin.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("testbed", "snappi_xoff", "controllers", "topologies", "experiments", "lessons", "tools", "tests", "bench")
RIDDLE = re.compile(
    r"(What|Of|How|Whether|Where|Who|Whose|Which|When|That|To|From|By|With|Without|For|None|As|If|Those|These|All that"
    r"|Its|Their|So|And|But|Not|Also|Here|There|Now|Than|Such)\b"
)
_DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Docstring:
    """One docstring and the place where it stands."""

    path: Path
    line: int
    subject: str
    """The name of the module, class, function or attribute that it describes."""
    text: str

    @property
    def is_riddle(self) -> bool:
        """True if its first word is one with which hardly any clear first line begins."""
        return RIDDLE.match(self.text) is not None

    def __str__(self) -> str:
        body = self.text.replace("\n", "\n    ")
        return f"{self.path}:{self.line} {self.subject}\n    {body}"


def in_file(path: Path, relative_to: Path = ROOT) -> Iterator[Docstring]:
    """Yield the docstrings of a file: of the module, its classes and functions, and the strings below attributes."""
    shown = path.relative_to(relative_to)
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, _DEFINITIONS):
            continue
        name = "module" if isinstance(node, ast.Module) else node.name
        for before, statement in zip([None, *node.body], node.body, strict=False):
            text = _text(statement)
            if text is None:
                continue
            if before is None:
                yield Docstring(shown, statement.lineno, name, text)
            elif isinstance(before, ast.Assign | ast.AnnAssign):
                target = before.targets[0] if isinstance(before, ast.Assign) else before.target
                yield Docstring(shown, statement.lineno, f"{name}.{ast.unparse(target)}", text)


def _text(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return "\n".join(line.strip() for line in value.strip().splitlines()) if isinstance(value, str) else None
    return None


def files(places: list[Path]) -> Iterator[Path]:
    """Yield the Python files in some folders, or the files themselves, by name."""
    for place in places:
        yield from sorted(place.rglob("*.py")) if place.is_dir() else [place]


def main(arguments: list[str]) -> int:
    """Print what the arguments ask for, and how many there are."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("places", nargs="*", type=Path, help="folders and files; all of the project's by default")
    parser.add_argument("--sample", type=int, metavar="N", help="N of them, drawn at random")
    parser.add_argument("--seed", type=int, help="draw the same ones as another time with this seed")
    parser.add_argument("--riddles", action="store_true", help="only those that begin like riddles")
    given = parser.parse_args(arguments)
    places = [place.resolve() for place in given.places] or [ROOT / folder for folder in FOLDERS]
    found = [one for path in files(places) for one in in_file(path)]
    if given.riddles:
        found = [one for one in found if one.is_riddle]
    total = len(found)
    if given.sample is not None:
        seed = random.randrange(10**6) if given.seed is None else given.seed
        found = random.Random(seed).sample(found, min(given.sample, total))
        print(f"seed {seed}")
    for one in found:
        print(one)
    print(f"{len(found)} of {total}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
