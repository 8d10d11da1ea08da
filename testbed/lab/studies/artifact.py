"""An artifact: results, the code that made them, and what a reviewer needs to make them again and compare digests.

It is a folder of its own, to be packed and sent: `README.md`, `artifact.json` (commands, expected digests, minutes),
`rerun.py` (Python alone), `results/`, `xoff/` with the code, `files/` with the user's files, and
`ro-crate-metadata.json` (RO-Crate 1.1), by which archives know what it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import testbed
from testbed.errors import UsageError
from testbed.lab.job.job import OURS
from testbed.lab.job.job import read as code_of
from testbed.lab.results.foreign import ForeignError, ForeignFolder
from testbed.lab.results.result import RESULT, Again, Result, Status
from testbed.lab.studies.benchmark import FILE as BENCHMARK
from testbed.lab.studies.sweep_tables import SUMMARY
from testbed.strict.problems import shown

CONTENT, README, RERUN, CRATE = "artifact.json", "README.md", "rerun.py", "ro-crate-metadata.json"
LAB = "lab.tar"
RESULTS, CODE, FILES = "results", "xoff", "files"
SCHEMA = 1
_ROOT = Path(testbed.__path__[0]).parent
_OUT = {"run": "--out", "workload": "--out", "demo": "--out", "benchmark": "--out"}
"""The commands whose runs can be made again into a folder, and the option that names it."""
_NOT_NEEDED = ("docs/", "tests/", "bench/", "tools/", ".github/", ".ci/")
_MOST = 1000
_DEEPEST = 8
"""The most folders inside each other that are copied of a result."""
_LONGEST_S = 1e9
_LARGEST = 16 << 30
"""The most octets of results that are copied."""
_ELSEWHERE = ("--scheduler", "--lab", "--out", "--output", "-o")
"""Options by which a command would leave the reviewer's lab or the artifact's folder."""


@dataclass(frozen=True)
class Command:
    """A command that makes one run or several again, with the digests that have to come out."""

    words: tuple[str, ...]
    """The words after `xoff`, to be called in the folder of the code."""
    out: str
    """The option that names the folder of results."""
    digests: tuple[str, ...]
    minutes: float
    """The time that the runs took, on the machine that made them."""
    figure: str = ""
    """The figure or table of the publication, as the author names it."""
    results: tuple[str, ...] = ()
    """The result folders below `results/`."""

    @property
    def shown(self) -> str:
        return f"./xoff {shlex.join(self.words)}"


@dataclass(frozen=True)
class Packed:
    """An artifact that has been written."""

    folder: Path
    commands: tuple[Command, ...]
    octets: int = 0
    made_with: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    """The user's files that commands take, by their names in the artifact."""
    left_out: tuple[str, ...] = ()
    """The files of result folders that no run leaves there, with the reason for which each was not copied."""


def result_folders(folder: Path) -> list[Path]:
    """Return the result folders in a folder: itself, or those below it, as those of a sweep or in `results`."""
    if ForeignFolder(folder).has(RESULT):
        return [folder]
    here = ForeignFolder(folder)
    folders = [
        inner.path
        for place in (here, here.inside("runs"))
        for name in place.listing()
        if (inner := place.inside(name)).is_there() and inner.is_file(RESULT)
    ]
    if not folders:
        raise UsageError(f"{folder} has no results: neither {RESULT} nor folders with one; `xoff run` makes some")
    if len(folders) > _MOST:
        raise UsageError(f"{folder} has {len(folders)} results; an artifact has {_MOST} at most")
    return folders


def pack(folder: Path, out: Path, figures: Mapping[Path, str], lab: Path | None = None) -> Packed:
    """Write the artifact of a folder; `figures` names what results of the publication are from, by their folders."""
    folders = result_folders(folder)
    _require_empty(out, folder)
    known = {path.resolve() for path in folders}
    for path, name in figures.items():
        if path.resolve() not in known:
            raise UsageError(f"--figure {name}={path}: that is no result folder in {folder}")
    named = {path.resolve(): name for path, name in figures.items()}
    results = [(path, _read(path)) for path in folders]
    code = _checkout() or code_of(OURS)
    files = _user_files(results, code)
    for path, result in results:
        assert result.again is not None
        _require_known(path, result.again.command, files, code)
    commands = _commands(folder, results, named, files)
    (out / RESULTS).mkdir(parents=True)
    copied = _Copied()
    for path, _ in results:
        copied.folder(ForeignFolder(path), out / RESULTS / _name(folder, path))
    for table in (SUMMARY, "table.csv", BENCHMARK, "report.html"):
        if len(folders) > 1 and ForeignFolder(folder).has(table):
            copied.file(ForeignFolder(folder), table, out / RESULTS / table)
    for name, source in files.items():
        (out / FILES / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, out / FILES / name)
    _write_code(code, out / CODE)
    if lab is not None:
        shutil.copyfile(lab, out / LAB)
    shutil.copyfile(Path(__file__).with_name(RERUN), out / RERUN)
    first = results[0][1].provenance
    made_with = {name: str(getattr(first, name)) for name in ("xoff", "commit", "engine", "kernel_digest", "image")}
    content = {
        "schema": SCHEMA,
        "made_with": made_with,
        "commands": [asdict(one) for one in commands],
        "files": {name: _sha256(out / FILES / name) for name in files},
        "lab": _sha256(out / LAB) if lab is not None else None,
    }
    (out / CONTENT).write_text(json.dumps(content, indent=1) + "\n")
    (out / README).write_text(_readme(commands, made_with, lab is not None))
    (out / CRATE).write_text(json.dumps(crate(out, commands, made_with), indent=1) + "\n")
    octets = sum(path.lstat().st_size for path in out.rglob("*") if path.is_file())
    return Packed(out, tuple(commands), octets, made_with, files, tuple(copied.left_out))


class _Copied:
    """Copies of files that are from elsewhere, and what was left out."""

    def __init__(self) -> None:
        self.left_out: list[str] = []
        self._octets = 0

    def folder(self, source: ForeignFolder, target: Path, depth: int = _DEEPEST) -> None:
        """Copy what a run leaves: regular files without holes, and folders. No link is followed."""
        try:
            target.mkdir()
        except FileExistsError:
            raise UsageError(f"{source.path} would be {target.name}, as another result is; rename one") from None
        for name in source.listing():
            inner = source.inside(name)
            if not inner.is_there():
                self.file(source, name, target / name)
            elif depth:
                self.folder(inner, target / name, depth - 1)
            else:
                self.left_out.append(f"{inner.path} is in more than {_DEEPEST} folders inside each other")

    def file(self, source: ForeignFolder, name: str, target: Path) -> None:
        try:
            source.copy(name, target, _LARGEST - self._octets)
            self._octets += target.stat().st_size
        except (ForeignError, FileNotFoundError) as error:
            self.left_out.append(str(error))


def _require_empty(out: Path, folder: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is there already; name an empty or new folder with -o")
    if out.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{out} is in {folder}, which it is to have a copy of; name a folder elsewhere with -o")


def _read(path: Path) -> Result:
    try:
        result = Result.read(path)
        if result.again is not None and not (result.again.command and _is_text(result.again)):
            raise ValueError("its command is no list of words")
        if not 0 <= result.times.wall_s < _LONGEST_S:
            raise ValueError(f"it took {shown(result.times.wall_s)} s")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path / RESULT} cannot be read ({error}); remove its folder, and run it again") from None
    if result.status is not Status.OK:
        raise UsageError(f"{path}: the run ended with {result.status}; an artifact has runs that came to their end")
    if result.again is None:
        raise UsageError(f"{path} does not say by which command it was made, as older versions of Xoff; run it again")
    return result


def _is_text(again: Again) -> bool:
    return all(isinstance(word, str) for word in (*again.command, *again.files, *again.files.values()))


def _user_files(results: Sequence[tuple[Path, Result]], code: Mapping[str, bytes]) -> dict[str, Path]:
    """Return the user's files that commands name, by their names in the artifact.

    A program finds the files beside it as before: those of a folder, and of folders in it, lie to each other as they
    did. A second folder with other files of the same names gets a folder of its own.
    """
    digests: dict[Path, str] = {}
    as_given: dict[Path, Path] = {}
    for path, result in results:
        assert result.again is not None
        for given, digest in result.again.files.items():
            if _in_code(Path(given)) in code:
                continue
            source = Path(os.path.normpath(Path(given).absolute()))
            as_given.setdefault(source, Path(given))
            if not source.is_file() or _sha256(source) != digest or digests.setdefault(source, digest) != digest:
                raise UsageError(
                    f"{path} was made with {given}, which is not there now or not the same; call this in the folder in "
                    "which the run was made, or run it again"
                )
    folders: dict[Path, list[Path]] = {}
    for source in digests:
        around = (one.parent for one in digests if source.is_relative_to(one.parent))
        outermost = min(around, key=lambda folder: len(folder.parts))
        folders.setdefault(outermost, []).append(source)
    files: dict[str, Path] = {}
    for number, (folder, sources) in enumerate(folders.items(), 1):
        for prefix in ("", f"{folder.name}/", f"{folder.name}-{number}/"):
            named = {f"{prefix}{source.relative_to(folder).as_posix()}": source for source in sources}
            if all(digests[files.get(name, source)] == digests[source] for name, source in named.items()):
                break
        files |= named
    return {name: as_given[source] for name, source in files.items()}


def _commands(
    folder: Path, results: Sequence[tuple[Path, Result]], figures: Mapping[Path, str], files: Mapping[str, Path]
) -> list[Command]:
    """Return the commands, each once, in the order of the results."""
    found: dict[tuple[str, ...], list[tuple[Path, Result]]] = {}
    for path, result in results:
        assert result.again is not None
        words = result.again.command
        if words[0] not in _OUT:
            raise UsageError(
                f"{path} was made by `xoff {words[0]}`, and an artifact takes results of {', '.join(_OUT)} and sweep"
            )
        found.setdefault(_in_artifact(words, files), []).append((path, result))
    return [
        Command(
            words,
            _OUT[words[0]],
            tuple(sorted(result.digest for _, result in made)),
            round(sum(result.times.wall_s for _, result in made) / 60, 2),
            "; ".join(dict.fromkeys(figures[path.resolve()] for path, _ in made if path.resolve() in figures)),
            tuple(_name(folder, path) for path, _ in made),
        )
        for words, made in found.items()
    ]


def _require_known(path: Path, words: Sequence[str], files: Mapping[str, Path], code: Mapping[str, bytes]) -> None:
    """Refuse a command by which something else runs than Xoff and the files whose digests the result has, or elsewhere
    than in the lab.
    """
    shown = shlex.join(words)[:200]
    for word, following in zip(words, (*words[1:], ""), strict=True):
        option, _, value = word.partition("=")
        if option in _ELSEWHERE or (option == "--engine" and (value or following) == "host"):
            raise UsageError(f"{path} was made by `xoff {shown}`; {option} has no place in an artifact's command")
    for word in words[1:]:
        for part in _files_in(word):
            placed = _place(part, files)
            if not placed.startswith(f"../{FILES}/") and os.path.normpath(placed) not in code:
                raise UsageError(
                    f"{path} was made by `xoff {shown}`, and {part} is not among the files whose digests it has; run "
                    "it again"
                )


def _files_in(word: str) -> Iterator[str]:
    """Yield the parts of a word that name files: those of Python, and paths to what is there or leads elsewhere."""
    for part in re.split("[,=:]", word):
        is_path = part.startswith(("/", "./", "../", "~")) or ("/" in part and Path(part).exists())
        if part and (is_path or part.endswith(".py")):
            yield part


def _in_artifact(words: Sequence[str], files: Mapping[str, Path]) -> tuple[str, ...]:
    """Return a command's words with the paths that files have in the artifact, seen from the folder of the code."""
    return tuple(",".join(_place(part, files) for part in word.split(",")) for word in words)


def _place(word: str, files: Mapping[str, Path]) -> str:
    name, equals, value = word.rpartition("=")
    path, colon, rest = value.partition(":")
    placed = next((one for one, source in files.items() if path and source.resolve() == Path(path).resolve()), None)
    if placed is not None:
        return f"{name}{equals}../{FILES}/{placed}{colon}{rest}"
    if Path(path).is_absolute() and Path(path).is_relative_to(_ROOT):
        return f"{name}{equals}{Path(path).relative_to(_ROOT)}{colon}{rest}"
    return word


def _in_code(path: Path) -> str:
    """Return the name that a file has in the code if it comes with it."""
    return os.path.relpath(path.resolve(), _ROOT)


def _name(folder: Path, path: Path) -> str:
    return folder.resolve().name if path == folder else str(path.relative_to(folder)).replace(os.sep, "-")


def _write_code(code: Mapping[str, bytes], out: Path) -> None:
    """Write Xoff: what git has of a checkout, without documentation and tests, or the installed packages."""
    for name, content in code.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(content)
        if os.access(_ROOT / name, os.X_OK):
            (out / name).chmod(0o755)


def _checkout() -> dict[str, bytes]:
    """Return the files of the checkout that is at work, as they are now; none if Xoff is installed."""
    if not (_ROOT / "xoff").is_file():
        return {}
    listed = subprocess.run(
        ["git", "-C", str(_ROOT), "ls-files", "-z", "--cached"], capture_output=True, text=True, check=False
    )
    names = listed.stdout.split("\0") if listed.returncode == 0 else []
    if not names:  # an artifact's own copy, which git does not know
        names = [str(path.relative_to(_ROOT)) for path in _ROOT.rglob("*") if "__pycache__" not in path.parts]
    kept = [name for name in names if name and not name.startswith(_NOT_NEEDED) and (_ROOT / name).is_file()]
    return {name: (_ROOT / name).read_bytes() for name in sorted(kept)}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _readme(commands: Sequence[Command], made_with: Mapping[str, str], has_lab: bool) -> str:
    minutes = max(1, round(sum(one.minutes for one in commands)))
    rows = "\n".join(
        f"| {one.figure or '-'} | `{one.shown}` | {', '.join(f'`{digest[:16]}`' for digest in one.digests[:8])}"
        f"{f' and {len(one.digests) - 8} more' if len(one.digests) > 8 else ''} | {one.minutes:g} |"
        for one in commands
    )
    lab = (
        f"`rerun.py` takes the lab from `{LAB}`, so nothing is downloaded and nothing is compiled.\n"
        if has_lab
        else "The first run downloads Debian packages and builds the lab with its kernel, once: 10 to 20 minutes.\n"
    )
    return f"""# Artifact

Results of [Xoff](xoff/README.md) {made_with["xoff"]}, and all that makes them again. Runs are in virtual time: they
give the same digests on each machine, whatever its speed and load.

## Requirements

Linux on x86-64, Python 3.11 or newer, 4 GB of memory, 4 GB of disk. No root, no special hardware.
{lab}
## Make the results again

    python3 rerun.py             all {len(commands)} commands, {minutes} minutes on the author's machine
    python3 rerun.py 1 3         some of them, by their number
    python3 rerun.py --list      numbers, commands and expected digests

It prints for each command whether the digests are the expected ones, and ends with exit code 0 if all are. Results go
to `rerun/`; `xoff/xoff report rerun/...` makes a page of one, `xoff/xoff compare results/A rerun/B` lists what differs.

| figure | command, in `xoff/` | digests | minutes |
|---|---|---|---|
{rows}

A digest is the SHA-256 of everything that a run reported and left: figures, claims, logs, time series. There is no
tolerance. If one differs, `result.json` has the kernel and the image that it was made with; these results are of kernel
`{made_with["kernel_digest"][:16]}` and image `{made_with["image"][:16]}`.

## What is where

| path | content |
|---|---|
| `{RESULTS}/` | the author's results, each with `result.json`, events, flows |
| `{CODE}/` | the code, with the locks of all packages (`requirements/`, `testbed/lab/`) |
| `{FILES}/` | the author's own files, if there are any |
| `{CONTENT}` | the table above for programs, with whole digests |
| `{CRATE}` | metadata by RO-Crate 1.1 |
"""


def crate(out: Path, commands: Sequence[Command], made_with: Mapping[str, str]) -> dict[str, Any]:
    """Return the metadata of an artifact's folder by RO-Crate 1.1, with an action for each command."""
    program = {
        "@id": f"{CODE}/",
        "@type": ["Dataset", "SoftwareApplication"],
        "name": "Xoff",
        "version": made_with["xoff"],
        "description": "The code that made the results.",
        "license": {"@id": "https://spdx.org/licenses/Apache-2.0"},
    }
    parts: list[dict[str, Any]] = [
        {"@id": README, "@type": "File", "name": "How to make the results again", "encodingFormat": "text/markdown"},
        {"@id": CONTENT, "@type": "File", "name": "Commands and digests", "encodingFormat": "application/json"},
        {"@id": RERUN, "@type": ["File", "SoftwareSourceCode"], "name": "Runs all and compares digests"},
        program,
    ]
    if (out / LAB).is_file():
        parts.append({"@id": LAB, "@type": "File", "name": "The lab: kernel and root file system"})
    if (out / FILES).is_dir():
        parts += [
            {"@id": path.relative_to(out).as_posix(), "@type": "File", "name": path.name, "sha256": _sha256(path)}
            for path in sorted((out / FILES).rglob("*"))
            if path.is_file()
        ]
    actions: list[dict[str, Any]] = []
    for number, one in enumerate(commands, 1):
        for name in one.results:
            parts.append({"@id": f"{RESULTS}/{name}/", "@type": "Dataset", "name": f"Result {name}"})
        actions.append(
            {
                "@id": f"#command-{number}",
                "@type": "CreateAction",
                "name": one.figure or f"Command {number}",
                "description": f"{one.shown}; digests {', '.join(one.digests)}",
                "instrument": {"@id": program["@id"]},
                "result": [{"@id": f"{RESULTS}/{name}/"} for name in one.results],
            }
        )
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": "Results of Xoff, with all that makes them again",
        "description": f"{len(commands)} commands; digests are the same on each machine.",
        "license": {"@id": "https://spdx.org/licenses/Apache-2.0"},
        "datePublished": "2026",
        "hasPart": [{"@id": one["@id"]} for one in parts],
        "mentions": [{"@id": one["@id"]} for one in actions],
    }
    about = {
        "@id": CRATE,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
    }
    return {"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": [about, root, *parts, *actions]}
