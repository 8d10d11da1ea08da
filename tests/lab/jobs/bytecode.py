"""Compiles modules in the lab, in the way of its Python, and compares them with those that are there."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import testbed
from xoff import Run, experiment


@experiment
def compiles_anew(run: Run) -> None:
    """Compiles some of Xoff's modules in the lab, in its Python's own way."""
    code = Path(testbed.__path__[0]).parent
    missing = [str(path) for path in code.rglob("testbed/**/*.py") if not _compiled(path).exists()]
    some = sorted((code / "testbed/switch/buffer").glob("*.py"))
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place, "code")
        for path in some:
            target = copy / path.relative_to(code)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        subprocess.run(
            ["env", "-i", "PATH=/usr/bin:/bin", "LANG=C.UTF-8", "PYTHONHASHSEED=0", "python3", "-B", "-m", "compileall",
             "-q", "--invalidation-mode", "unchecked-hash", "-s", str(copy), "-p", str(code), str(copy)],
            check=True,
        )  # fmt: skip
        differ = [
            str(path)
            for path in some
            if _compiled(path).read_bytes() != _compiled(copy / path.relative_to(code)).read_bytes()
        ]
    run.figure("modules", len(some))
    run.claim("modules that were not compiled", missing, equals=[])
    run.claim("modules that the lab compiles otherwise", differ, equals=[])


def _compiled(path: Path) -> Path:
    return path.parent / "__pycache__" / f"{path.stem}.cpython-311.pyc"
