"""Make the results of this artifact again, and compare digests. Python 3.11 and nothing else is needed. Files of the
author's are read and run in the lab alone; the code in xoff/ runs on this machine, too.

python3 rerun.py            all commands
python3 rerun.py 1 3        some, by their number
python3 rerun.py --list     what there is
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE / "rerun"


def main(words: list[str]) -> int:
    content = json.loads((HERE / "artifact.json").read_text())
    commands = content["commands"]
    if "--list" in words:
        for number, one in enumerate(commands, 1):
            print(f"{number}  {one['figure'] or '-'}  ./xoff {' '.join(one['words'])}  ({one['minutes']:g} min)")
            print("".join(f"     {digest}\n" for digest in one["digests"]), end="")
        return 0
    if wrong := [word for word in words if word not in map(str, range(1, len(commands) + 1))]:
        print(f"rerun: {wrong[0]}: a number from 1 to {len(commands)} is expected, or --list", file=sys.stderr)
        return 2
    for name, expected in content["files"].items():
        if hashlib.sha256((HERE / "files" / name).read_bytes()).hexdigest() != expected:
            print(f"rerun: files/{name} has been changed", file=sys.stderr)
            return 2
    if content["lab"] is not None:
        done = _xoff("image", "import", str(HERE / "lab.tar"))
        if done:
            print("rerun: the lab could not be imported", file=sys.stderr)
            return 3
    chosen = [int(word) for word in words] or list(range(1, len(commands) + 1))
    same = sum(_again(number, commands[number - 1]) for number in chosen)
    print(f"{same} of {len(chosen)} commands gave the expected digests")
    return 0 if same == len(chosen) else 1


def _again(number: int, one: dict) -> bool:  # type: ignore[type-arg]
    """Run one command, and tell whether its digests are as expected."""
    out = OUT / str(number)
    code = _xoff(*one["words"], one["out"], str(out))
    found = sorted(json.loads(path.read_text())["digest"] for path in out.rglob("result.json"))
    is_same = found == sorted(one["digests"])
    label = one["figure"] or " ".join(one["words"])
    print(f"{number}  {'same digests' if is_same else 'DIFFERENT'}  {label}")
    if not is_same:
        print(f"   expected {', '.join(one['digests'])}\n   found    {', '.join(found) or f'none, exit code {code}'}")
    return is_same


def _xoff(*words: str) -> int:
    front_door = HERE / "xoff" / "xoff"
    program = [str(front_door)] if front_door.is_file() else ["-m", "testbed"]  # a copy of an installed package
    lab_alone = {**os.environ, "XOFF_READ_IN_LAB": "1"}
    return subprocess.run([sys.executable, *program, *words], cwd=HERE / "xoff", env=lab_alone, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
