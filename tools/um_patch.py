"""Apply the patch of User-Mode Linux to newer kernel sources of Debian, and print how well it applies.

`python tools/um_patch.py` looks for packages `linux-source-X.Y` that are newer than the one in
`testbed/lab/packages.toml`, in the suite that the lab takes its source from and in sid. It unpacks the files that the
patch changes, about forty of them, and runs `patch --dry-run`. `--pinned` does the same with the package that the lab
uses now. The exit code is 1 if a hunk fails. docs/um-patch.md describes how to rebase the patch then.

apt-get downloads the packages, so their signatures are checked. It works in a folder of its own; neither root nor a
change of the machine's package lists is needed.
"""

from __future__ import annotations

import argparse
import functools
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATCH = ROOT / "testbed/lab/um/linux/uml.patch"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR = "http://deb.debian.org/debian"
_CHANGED = re.compile(r"^--- a/(\S+)$", re.MULTILINE)
_NAME = r"^linux-source-[0-9]+\.[0-9]+$"


class UnavailableError(Exception):
    """Raised if Debian's packages cannot be read on this machine; the message says why."""


@dataclass(frozen=True)
class Source:
    """One version of a package with a kernel's source."""

    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}"

    def is_newer_than(self, other: Source) -> bool:
        command = ["dpkg", "--compare-versions", self.version, "gt", other.version]
        return subprocess.run(command, check=False).returncode == 0


@dataclass(frozen=True)
class Outcome:
    """The outcome of the patch on one source."""

    source: Source
    failed: tuple[str, ...]
    """Lines of `patch` that name failed hunks and missing files."""
    moved: tuple[str, ...]
    """Lines of `patch` about hunks that apply at another line, or with other context around them."""


def pinned() -> tuple[Source, str]:
    """Return the source that the lab's kernel is built from, and its suite."""
    um = tomllib.loads((ROOT / "testbed/lab/packages.toml").read_text())["um"]
    return Source(um["source"], um["version"]), um["suite"]


class Archive:
    """Debian's package lists in a folder of their own."""

    def __init__(self, folder: Path, suites: tuple[str, ...], mirror: str = MIRROR) -> None:
        for tool in ("apt-get", "apt-cache", "dpkg", "dpkg-deb", "patch"):
            if shutil.which(tool) is None:
                raise UnavailableError(f"this machine has no {tool}")
        if not KEYRING.exists():
            raise UnavailableError(f"this machine has no {KEYRING}; it is in the package debian-archive-keyring")
        self._folder = folder
        for name in ("lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        lines = [f"deb [signed-by={KEYRING}] {mirror} {suite} main\n" for suite in dict.fromkeys(suites)]
        (folder / "sources.list").write_text("".join(lines))
        done = self._run("apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "update")
        if done.returncode != 0:
            raise UnavailableError(f"the package lists of {mirror} cannot be read: {done.stderr.strip()}")

    def sources(self) -> list[Source]:
        """Return all sources of kernels, with the oldest first."""
        names = re.findall(r"^(\S+) - ", self._run("apt-cache", "search", "--names-only", _NAME).stdout, re.MULTILINE)
        lines = self._run("apt-cache", "madison", *names).stdout.splitlines() if names else []
        found = {
            Source(name, version) for name, version, *_ in ([part.strip() for part in x.split("|")] for x in lines)
        }
        return sorted(found, key=functools.cmp_to_key(_order))

    def unpack(self, source: Source, names: list[str], into: Path) -> None:
        """Download the package, and unpack these files of its kernel."""
        done = self._run("apt-get", "-q", "download", f"{source.package}={source.version}", cwd=self._folder)
        if done.returncode != 0:
            raise UnavailableError(f"{source} cannot be downloaded: {done.stderr.strip()}")
        (package,) = self._folder.glob(f"{source.package}_*.deb")
        into.mkdir()
        inner = f"./usr/src/{source.package}.tar.xz"
        wanted = [f"{source.package}/{name}" for name in names]
        # tar's exit code is not 0 if the newer kernel lacks a file; `patch` then names it.
        script = 'dpkg-deb --fsys-tarfile "$1" | tar -x -O "$2" | tar -x -J -C "$3" --strip-components=1 "${@:4}"'
        command = ["bash", "-c", script, "unpack", str(package), inner, str(into), *wanted]
        subprocess.run(command, capture_output=True, check=False)
        package.unlink()
        if not any(into.iterdir()):
            raise UnavailableError(f"nothing of {source} could be unpacked")

    def _run(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        folder = self._folder
        settings = {
            "Dir::Etc::sourcelist": folder / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State": folder,
            "Dir::State::lists": folder / "lists",
            "Dir::State::status": folder / "status",
            "Dir::Cache": folder / "cache",
        }
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        return subprocess.run(
            [command[0], *options, *command[1:]], cwd=cwd, capture_output=True, text=True, check=False
        )


def _order(one: Source, other: Source) -> int:
    return 1 if one.is_newer_than(other) else -1


def changed_files(patch: str) -> list[str]:
    """Return the paths of the files that a patch changes, without those that it adds."""
    return sorted(set(_CHANGED.findall(patch)))


def apply(source: Source, tree: Path, patch: Path = PATCH) -> Outcome:
    """Try the patch on a tree of files, which stays as it is."""
    command = ["patch", "--dry-run", "--force", "-p1", "-d", str(tree), "-i", str(patch)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    failed, moved, file = [], [], ""
    for line in done.stdout.splitlines():
        if line.startswith("checking file "):
            file = line.removeprefix("checking file ")
        elif " out of " in line:
            continue  # how many hunks of the file failed, after a line for each
        elif "FAILED" in line or "can't find file" in line or "ignored" in line:
            failed.append(f"{file}: {line}")
        elif "offset" in line or "fuzz" in line:
            moved.append(f"{file}: {line}")
    if done.returncode != 0 and not failed:
        failed.append(done.stderr.strip() or f"patch ended with exit code {done.returncode}")
    return Outcome(source, tuple(failed), tuple(moved))


def outcomes(sources: list[Source], archive: Archive, work: Path) -> Iterator[Outcome]:
    """Try the patch on each of the sources."""
    names = changed_files(PATCH.read_text())
    for source in sources:
        tree = work / f"{source.package}-{source.version}"
        archive.unpack(source, names, tree)
        yield apply(source, tree)
        shutil.rmtree(tree)


def main() -> int:
    parser = argparse.ArgumentParser(description="Apply the patch of User-Mode Linux to newer kernels of Debian.")
    parser.add_argument("--pinned", action="store_true", help="try the source that the lab uses now")
    parser.add_argument("--suite", action="append", default=[], help="another suite of Debian to look in (default sid)")
    options = parser.parse_args()
    now, suite = pinned()
    with tempfile.TemporaryDirectory() as folder:
        archive = Archive(Path(folder) / "apt", (suite, *(options.suite or ["sid"])))
        sources = archive.sources()
        chosen = [now] if options.pinned else [source for source in sources if source.is_newer_than(now)]
        if not chosen:
            print(f"no source is newer than {now}; there are: {', '.join(map(str, sources))}")
        is_good = True
        for outcome in outcomes(chosen, archive, Path(folder)):
            is_good &= not outcome.failed
            print(f"{outcome.source}: {len(outcome.failed)} problems, {len(outcome.moved)} hunks moved")
            for line in (*outcome.failed, *outcome.moved):
                print(f"  {line}")
    return 0 if is_good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UnavailableError as error:
        sys.exit(f"um_patch: {error}")
