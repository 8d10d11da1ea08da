"""Debian packages that the lab's image lacks, for experiments that need them: `--with-deb frr`.

A lock file decides what a run has: each package with its version, its SHA-256 and its file in Debian's archive, and all
that it needs beyond the image. Xoff comes with locks for some (`extras/debian/`), and makes one of any others by
apt-get, which only computes: nothing is installed on this machine, and nobody needs to be root. Packages are fetched
into the cache once, and are checked each time before they are read.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import UsageError, XoffError, listed, plain
from testbed.experiment.definition import DEBIAN as PREFIX
from testbed.experiment.script import NO_TUNNELS
from testbed.lab.host import cache, prerequisites
from testbed.lab.host.cache import Report
from testbed.lab.image import image
from testbed.lab.image.deb_archive import PackageError
from testbed.lab.image.fetching import FEW_LINES, FetchError
from testbed.lab.image.shipped_locks import DEBIAN_FOLDER, SUFFIX, of_debian
from testbed.strict import regular_files

FILE = "package.deb"
LARGEST_LOCK = 4 << 20
"""The most octets of a lock file."""
_MIRROR = "http://deb.debian.org"
_MAIN, _SECURITY = "debian", "debian-security"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_APT_HELPER = Path("/usr/lib/apt/apt-helper")
_LARGEST = 1 << 30
_ROOM = 1 << 30
_TIMEOUT_S = 60.0
_STEP = 1 << 20
_LINE = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9+.-]+)==(?P<version>[A-Za-z0-9.+:~-]+)\s+--hash=sha256:(?P<sha256>[0-9a-f]{64})"
    r"\s+--file=(?P<file>debian(-security)?/pool/[A-Za-z0-9+._~%/-]+\.deb)(\s+--root=(?P<root>[a-z]+))?"
)
_NAME = re.compile(r"([a-z]+:)?[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+)?")
"""The other releases of Debian for which Xoff has a lock: that of trixie:frr is in trixie-frr.lock."""


@dataclass(frozen=True)
class Locked:
    """A package of a lock file."""

    name: str
    version: str
    sha256: str
    file: str
    """The path below Debian's mirrors, as in debian/pool/main/f/frr/frr_8.4.4-1.1_amd64.deb."""
    root: str = ""
    """The other release of Debian, in a root of its own, that the package is of; empty: the lab's own."""

    def __str__(self) -> str:
        return f"{self.shown} {self.version}"

    @property
    def shown(self) -> str:
        return f"{self.root}:{self.name}" if self.root else self.name

    @property
    def place(self) -> Path:
        """The folder of the package in the cache, which need not be there."""
        return cache.root() / f"deb-{self.sha256[:32]}"

    @property
    def here(self) -> Path | None:
        """The package in the cache, if it is there and is what the lock says."""
        path = cache.own(self.place, FILE) / FILE
        try:
            return path if cache.sha256(path) == self.sha256 else None
        except OSError:
            return None


@dataclass(frozen=True)
class Debs:
    """Debian packages in the cache."""

    locked: tuple[Locked, ...]

    @property
    def versions(self) -> dict[str, str]:
        return {one.shown: one.version for one in self.locked}

    @property
    def digest(self) -> str:
        """The digest of all names, versions and contents."""
        text = "".join(f"{one.shown}=={one.version} {one.sha256}\n" for one in self.locked)
        return hashlib.sha256(text.encode()).hexdigest()

    def files(self) -> dict[str, dict[str, Path]]:
        """Return the files of each root (`""` is the lab's) by the names that messages have for them.

        One that was damaged meanwhile is an error.
        """
        found: dict[str, dict[str, Path]] = {}
        for one in self.locked:
            if (path := one.here) is None:
                raise PackageError(f"the Debian package {one} in {one.place} is damaged; run it again to fetch it anew")
            found.setdefault(one.root, {})[str(one)] = path
        return found


__all__ = ["PREFIX", "Debs", "Locked", "ensure", "is_file", "lock", "locked", "put", "suite"]


def is_file(name: str) -> bool:
    """Return True if it is a lock file, and no name."""
    return name.endswith(SUFFIX)


def locked(names: Sequence[str]) -> Debs | None:
    """Return what the shipped locks or lock files of these names have, or None without names."""
    return Debs(tuple(_merged([(name, _lock(name)) for name in names]))) if names else None


def ensure(names: Sequence[str], report: Report) -> Debs | None:
    """Return the packages of these locks, from the cache or fetched now, or None without names."""
    if any("wireguard" in name for name in names):
        report(f"{', '.join(names)}: the kernel of the engine um has {NO_TUNNELS}")
    if (found := locked(names)) is None:
        return None
    if any(one.here is None for one in found.locked):
        with cache.locked("Debian packages", report):
            # Two releases of Debian may have the same package.
            if missing := list({one.sha256: one for one in found.locked if one.here is None}.values()):
                report(f"fetching {len(missing)} Debian packages for the lab, once: {listed(map(str, missing))}")
                cache.require_room(cache.root(), _ROOM, "Debian packages")
                _fetch(missing, names)
                cache.prune("deb-*")
    for one in found.locked:
        cache.used(one.place)
    return found


def put(one: Locked, source: Path) -> None:
    """Put a package that came from elsewhere into the cache, unless it is there; it has to be the one of the lock."""
    if one.here is None:
        if cache.sha256(source) != one.sha256:
            raise _wrong(one)
        with cache.owned("deb") as work:
            shutil.copyfile(source, work / FILE)
            cache.leave_only(work, FILE)
            cache.publish(work, one.place)


def lock(wanted: Sequence[str], status: bytes, suite: str, report: Report) -> str:
    """Return a lock file for packages, as in "frr" or "frr=8.4.4-1.1", and for what they need beyond a lab whose dpkg
    has this `status`. Those of another release, as in "trixie:frr", are locked with all that they need."""
    for name in wanted:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is no name of a Debian package, such as frr, frr=8.4.4-1.1 or trixie:frr")
    suites = {name.split("=")[0].rpartition(":")[0] for name in wanted}
    if len(suites) > 1:
        raise UsageError(f"{listed(wanted)} are of several releases of Debian; lock those of each for themselves")
    if root := suites.pop() if suites else "":
        status, suite = b"", root
    if shutil.which("apt-get") is None or not _KEYRING.is_file():
        raise PackageError(
            "Debian packages are locked by apt-get with the package debian-archive-keyring, and this machine lacks "
            "one of them; make the lock on a Debian or Ubuntu machine and bring the file here"
        )
    with tempfile.TemporaryDirectory() as folder:
        files = _resolved([name.removeprefix(f"{root}:") for name in wanted], status, suite, Path(folder), report)
    its_root = f" --root={root}" if root else ""
    lines = [
        f"{one.name}=={one.version} \\\n    --hash=sha256:{one.sha256} \\\n    --file={one.file}{its_root}\n"
        for one in sorted(files, key=lambda one: one.name)
    ]
    if not lines:
        raise UsageError(f"the lab's image has {listed(wanted)} already, with all that they need")
    return f"# xoff image lock --deb {' '.join(wanted)}\n" + "".join(lines)


def _resolved(wanted: Sequence[str], status: bytes, suite: str, work: Path, report: Report) -> Iterator[Locked]:
    """Yield what apt-get would install beside the packages of `status`."""
    for part in ("lists/partial", "archives/partial", "etc/preferences.d", "etc/apt.conf.d"):
        (work / part).mkdir(parents=True)
    (work / "status").write_bytes(status)
    (work / "sources").write_text("".join(_sources(suite)))
    options = {
        "Dir::State": work, "Dir::State::lists": work / "lists", "Dir::State::status": work / "status",
        "Dir::State::extended_states": work / "extended", "Dir::Cache": work, "Dir::Cache::archives": work / "archives",
        "Dir::Etc::sourcelist": work / "sources", "Dir::Etc::sourceparts": "-", "Dir::Etc::preferences": "-",
        "Dir::Etc::preferencesparts": work / "etc/preferences.d", "APT::Install-Recommends": "false",
        "APT::Architecture": "amd64", "APT::Architectures": "amd64", "APT::Sandbox::User": "",
        "Acquire::Languages": "none", "Acquire::Retries": "2", "Debug::NoLocking": "true",
    }  # fmt: skip
    flags = [f"-o{name}={value}" for name, value in options.items()]
    report(f"asking the mirrors of Debian for the packages of {suite}")
    _apt(["apt-get", "-qq", *flags, "update"], f"getting the lists of packages of {suite}")
    printed = _apt(
        ["apt-get", "-qq", *flags, "--print-uris", "-y", "--no-remove", "install", "--", *wanted],
        f"finding what the lab's image lacks for {listed(wanted)}",
    )
    files = [urllib.parse.unquote(line[1 : line.index("' ")]) for line in printed.splitlines() if line.startswith("'")]
    records = _apt(["apt-cache", *flags, "dumpavail"], "reading the lists of packages").split("\n\n")
    known = {}
    for record in records:
        fields = dict(re.findall(r"^(Package|Version|Filename|SHA256): (.*)$", record, re.MULTILINE))
        if fields.keys() == {"Package", "Version", "Filename", "SHA256"}:
            known[fields["Filename"]] = fields
    for url in files:
        archive, _, name = url.rpartition("/pool/")
        fields = known[f"pool/{name}"]
        place = _SECURITY if archive.endswith(_SECURITY) else _MAIN
        yield Locked(fields["Package"], fields["Version"], fields["SHA256"], f"{place}/{fields['Filename']}")


def _sources(suite: str) -> Iterator[str]:
    signed = f"deb [signed-by={_KEYRING}]"
    if mirror := os.environ.get("XOFF_MIRROR", ""):
        yield f"{signed} {mirror} {suite} main\n"
        return
    yield f"{signed} {_MIRROR}/{_MAIN} {suite} main\n"
    yield f"{signed} {_MIRROR}/{_MAIN} {suite}-updates main\n"
    yield f"{signed} {_MIRROR}/{_SECURITY} {suite}-security main\n"


def _apt(command: list[str], what: str) -> str:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
        env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
    )  # fmt: skip
    if done.returncode:
        lines = [line for line in plain(done.stderr + done.stdout).splitlines() if line.strip()]
        raise FetchError("\n  ".join([f"{what} failed:", *lines[-FEW_LINES:]]))
    return done.stdout


def _lock(name: str) -> str:
    if name in of_debian():
        return (DEBIAN_FOLDER / f"{name.replace(':', '-')}{SUFFIX}").read_text()
    if not is_file(name):
        if name in image.reference().get("debian", {}):
            raise UsageError(f"--with-deb {name}: the lab's image has {name} already; leave it out")
        raise UsageError(
            f"--with-deb {name}: Xoff has locked versions of {listed(of_debian())}; for another package make a lock "
            f"file, xoff image lock --deb {name} > {name}.lock, and use --with-deb {name}.lock"
        )
    try:
        return regular_files.text(Path(name), LARGEST_LOCK)
    except OSError as error:
        raise UsageError(f"--with-deb {name}: it cannot be read: {error.strerror}") from None


def _merged(locks: Iterable[tuple[str, str]]) -> list[Locked]:
    """Return every package of some lock files, by name."""
    by_name: dict[tuple[str, str], Locked] = {}
    for source, text in locks:
        lines = [re.sub(r"(^|\s)#.*", "", line) for line in text.replace("\\\n", " ").splitlines()]
        for line in filter(None, map(str.strip, lines)):
            fields = _LINE.fullmatch(re.sub(r"\s+", " ", line))
            if fields is None or ".." in fields["file"].split("/"):
                raise UsageError(
                    f"--with-deb {source}: {line[:60]!r} is not locked; each line is NAME==VERSION --hash=sha256:... "
                    "--file=..., as `xoff image lock --deb NAME` writes it"
                )
            one = Locked(fields["name"], fields["version"], fields["sha256"], fields["file"], fields["root"] or "")
            other = by_name.setdefault((one.root, one.name), one)
            if (other.version, other.sha256) != (one.version, one.sha256):
                raise UsageError(
                    f"--with-deb {source}: {one} is requested, and another lock has {other}; lock both together: "
                    "xoff image lock --deb A B > both.lock"
                )
    return [by_name[key] for key in sorted(by_name)]


def _fetch(packages: Sequence[Locked], names: Sequence[str]) -> None:
    """Fetch packages of these locks: by apt's own program, which knows the machine's proxies, else by Python."""
    with cache.owned("debs") as work:
        if _APT_HELPER.is_file():
            command = [str(_APT_HELPER), "-oAPT::Sandbox::User=", "-oAcquire::Retries=2", "download-file"]
            for one in packages:
                command += [_url(one), str(work / one.sha256), f"SHA256:{one.sha256}"]
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
                env={**os.environ, "LC_ALL": "C"},
            )  # fmt: skip
            said = done.stdout + done.stderr
        else:
            said = "".join(map(str, filter(None, (_download(one, work / one.sha256) for one in packages))))
        for one in packages:
            place = work / one.sha256
            if not place.is_file():
                raise _missing(one, said, names)
            put(one, place)
            place.unlink()


def _download(one: Locked, place: Path) -> str | None:
    """Fetch a package by HTTP; return why it did not come."""
    import urllib.request  # with TLS, mail headers and HTTP, a quarter of what every lab would import to begin a job

    taken = 0
    try:
        with urllib.request.urlopen(_url(one), timeout=_TIMEOUT_S) as source, place.open("wb") as out:
            while data := source.read(_STEP):
                if (taken := taken + len(data)) > _LARGEST:
                    raise PackageError(f"{_url(one)} has more than {_LARGEST >> 20} MB; no Debian package has so much")
                out.write(data)
    except (OSError, ValueError) as error:
        place.unlink(missing_ok=True)
        return f"{_url(one)}: {error}\n"
    return None


def _url(one: Locked) -> str:
    mirror = os.environ.get("XOFF_MIRROR", "")
    name = urllib.parse.quote(one.file, safe="/+~")
    if mirror and one.file.startswith(f"{_MAIN}/"):
        return f"{mirror.rstrip('/')}/{name.removeprefix(f'{_MAIN}/')}"
    return f"{_MIRROR}/{name}"


def _missing(one: Locked, said: str, names: Sequence[str]) -> XoffError:
    """Return the error for a package that did not come: a mirror that dropped it, or one that does not answer."""
    if re.search(r"Hash Sum mismatch|Hashes of received file", said):
        return _wrong(one)
    lines = [line for line in plain(said).splitlines() if one.file.rpartition("/")[2] in line or "rror" in line]
    why = f"the Debian package {one} cannot be fetched from {_url(one)}"
    if re.search(r"\b404\b|No such file", said):
        why = f"{why}, which keeps only the newest version. {_anew(one, names)}"
    return FetchError("\n  ".join([why, *lines[-FEW_LINES:]]))


def _anew(one: Locked, names: Sequence[str]) -> str:
    """Say how to make the lock anew that has this package, by the command in the first line of each lock."""
    name = next(name for name in names if one in _merged([(name, _lock(name))]))
    made_by = re.match(r"# (xoff image lock --deb [^\n]+)\n", _lock(name))
    command = made_by[1] if made_by else f"xoff image lock --deb {name.removesuffix(SUFFIX)}"
    file, use = (name, "") if is_file(name) else (f"{name}{SUFFIX}", f", and use {name}{SUFFIX} in place of {name}")
    return (
        f"Lock what is there now, {command} > {file}{use}; or name an archive of a day in XOFF_MIRROR, as in "
        "https://snapshot.debian.org/archive/debian/20261126T000000Z"
    )


def _wrong(one: Locked) -> PackageError:
    return PackageError(
        f"the Debian package {one} from {_url(one)} is not the one of the lock: its SHA-256 differs; nothing of it was "
        "used"
    )


def suite() -> str:
    """Return the release of Debian that the lab runs."""
    found: str = prerequisites.table()["lab"]["suite"]
    return found
