"""The lab's half of Debian packages: what their maintainer scripts do, once, before any job has them.

The lab's root has the packages as `image/deb_tree.py` unpacked them. Here dpkg configures them: users and groups,
alternatives, links and folders come from the packages' own scripts, which find what a Debian without a service manager
has. Nothing is started (`policy-rc.d`). On `um` this is done in a lab of its own, and what it changed becomes part of
the disk; in a virtual machine it is done before the snapshot is taken.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from testbed.lab.image.deb_tree import UNPACKED

FAILED = "failed"
"""The member of the changes' tar that has, in place of changes, the reason why there are none."""
REMOVED = "removed"
"""The member that names the paths that are gone."""
RUN_FOLDERS = Path("/var/lib/dpkg/folders-of-runs")
"""The folders below /run, which is empty when a lab starts; a line each: path, mode in octal, user and group."""
_STATUS = Path("/var/lib/dpkg/status")
_INFO = Path("/var/lib/dpkg/info")
_POLICY = Path("/usr/sbin/policy-rc.d")
_UNITS = (Path("/usr/lib/systemd/system"), Path("/etc/systemd/system"))
_TMPFILES = Path("/usr/lib/tmpfiles.d")
_SKIPPED = {"/proc", "/sys", "/dev", "/run", "/tmp", "/xoff"}
_TRACES = ("/var/log/", "/var/cache/", "/var/lib/dpkg/updates/", "/var/lib/dpkg/lock", "/var/lib/dpkg/triggers/Lock")
"""The beginnings of paths of files that nobody needs after dpkg has ended."""
_OLD = ("-old", "-", ".dpkg-old")
"""The ends of names of files that were kept from before a change."""
_LINES = 8
_TIMEOUT_S = 300
_DIRECTORIES = {
    "RuntimeDirectory": "/run", "StateDirectory": "/var/lib", "LogsDirectory": "/var/log",
    "CacheDirectory": "/var/cache",
}  # fmt: skip
_MISSING = (
    (r"systemctl|systemd|service: not found|upstart", "a service manager that runs while it is set up"),
    (r"modprobe|insmod|/lib/modules|depmod", "a kernel module"),
    (r"/dev/[a-z]", "a device"),
    (r"Temporary failure in name resolution|Could not resolve|Network is unreachable", "a network"),
)

Seen = dict[str, tuple[int, ...]]


class ConfigureError(Exception):
    """Packages that cannot be configured in the lab; the message is for the user."""


def configure() -> None:
    """Have dpkg configure what is unpacked."""
    unpacked = Path("/", UNPACKED)
    text = unpacked.read_text()
    names = re.findall(r"^Package: (.*)$", text, re.MULTILINE)
    _STATUS.write_text(_amended(_STATUS.read_text(), text))
    unpacked.unlink()
    for folder in (_INFO, Path("/var/lib/dpkg/updates"), Path("/var/log"), Path("/var/cache/debconf")):
        folder.mkdir(parents=True, exist_ok=True)
    _POLICY.write_text("#!/bin/sh\nexit 101\n")
    _POLICY.chmod(0o755)
    before = _folders_below_run()
    try:
        for name in names:
            for script in sorted(_INFO.glob(f"{name}.preinst")) + sorted(_INFO.glob(f"{name}:*.preinst")):
                _perform([str(script), "install"], f"the script preinst of {name}", DPKG_MAINTSCRIPT_PACKAGE=name,
                         DPKG_MAINTSCRIPT_NAME="preinst")  # fmt: skip
        _perform(["dpkg", "--force-unsafe-io", "--configure", "-a"], "configuring the Debian packages")
        _perform(["ldconfig", "-X"], "ldconfig")
    finally:
        _POLICY.unlink()
    _make_service_folders(before)


def configure_and_send_changes(out: IO[bytes]) -> None:
    """Configure, and write what that changed in the root as a tar."""
    with tarfile.open(fileobj=out, mode="w|") as archive:
        before = _seen()
        try:
            configure()
        except ConfigureError as error:
            _add_text(archive, FAILED, str(error))
            return
        after = _seen()
        gone = sorted(path for path in before.keys() - after.keys() if str(Path(path).parent) in after)
        _add_text(archive, REMOVED, "".join(f"{path}\n" for path in gone))
        for path in sorted(after):
            is_trace = path.startswith(_TRACES) and not stat.S_ISDIR(after[path][0])
            if before.get(path) != after[path] and not is_trace and not path.endswith(_OLD):
                _add(archive, path)


def move_into_root(folder: Path) -> None:
    """Move a tree of files into the lab's root; what is there already is replaced, and folders are joined."""
    for path in sorted(folder.iterdir()):
        target = Path("/", *path.parts[len(folder.parts) :])
        _move(path, target)
    folder.rmdir()


def make_run_folders() -> None:
    """Make the folders below /run that a service manager would make."""
    with suppress(FileNotFoundError):
        for line in RUN_FOLDERS.read_text().splitlines():
            path, mode, user, group = line.split()
            _make_folder(path, mode, user, group)


def _make_folder(path: str, mode: str, user: str, group: str) -> None:
    Path(path).mkdir(parents=True, exist_ok=True)
    Path(path).chmod(int(mode, 8))
    shutil.chown(path, user, group)


def _move(path: Path, target: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        about = path.lstat()
        if not target.is_dir():
            target.mkdir()
            os.chown(target, about.st_uid, about.st_gid)
            target.chmod(stat.S_IMODE(about.st_mode))
        for child in sorted(path.iterdir()):
            _move(child, target / child.name)
        path.rmdir()
    else:
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        path.rename(target)


def _amended(status: str, more: str) -> str:
    """Return dpkg's status with the descriptions of further packages, which replace older ones of the same package."""
    new = {_identity(one): one for one in filter(str.strip, more.split("\n\n"))}
    kept = [one for one in filter(str.strip, status.split("\n\n")) if _identity(one) not in new]
    return "".join(f"{one.strip()}\n\n" for one in [*kept, *new.values()])


def _identity(description: str) -> tuple[str, ...]:
    return tuple(re.findall(r"^(?:Package): (.*)$", description, re.MULTILINE))


def _perform(command: list[str], what: str, **more: str) -> None:
    environment = {
        **os.environ, "DEBIAN_FRONTEND": "noninteractive", "DEBCONF_NONINTERACTIVE_SEEN": "true", "LC_ALL": "C.UTF-8",
        "DPKG_ROOT": "", "DPKG_ADMINDIR": "/var/lib/dpkg", **more,
    }  # fmt: skip
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", check=False, env=environment, timeout=_TIMEOUT_S,
        )  # fmt: skip
        said, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")
        code = -1
    if code:
        lines = [line for line in said.splitlines() if line.strip() and "no packages found matching" not in line]
        lines = [line for line in lines if "files list file for package" not in line]
        ended = f"ended with {code}" if code > 0 else f"did not end within {_TIMEOUT_S} s of lab time"
        needs = [name for pattern, name in _MISSING if re.search(pattern, "\n".join(lines[-_LINES:]))]
        needed = f"; it needs what the lab lacks there: {', '.join(needs)}" if needs else ""
        raise ConfigureError("\n  ".join([f"{what} in the lab {ended}{needed}:", *lines[-_LINES:]]))


def _seen() -> Seen:
    """Return what tells whether a file of the root has changed, by path."""
    found: Seen = {}
    waiting = ["/"]
    while waiting:
        folder = waiting.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.path in _SKIPPED:
                    continue
                about = entry.stat(follow_symlinks=False)
                is_folder = stat.S_ISDIR(about.st_mode)
                content = () if is_folder else (about.st_size, about.st_mtime_ns, about.st_ctime_ns)
                found[entry.path] = (about.st_mode, about.st_uid, about.st_gid, *content)
                if is_folder:
                    waiting.append(entry.path)
    return found


def _add(archive: tarfile.TarFile, path: str) -> None:
    about = os.lstat(path)
    member = tarfile.TarInfo(path.removeprefix("/"))
    member.mode, member.uid, member.gid = stat.S_IMODE(about.st_mode), about.st_uid, about.st_gid
    if stat.S_ISDIR(about.st_mode):
        member.type = tarfile.DIRTYPE
        archive.addfile(member)
    elif stat.S_ISLNK(about.st_mode):
        member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)  # noqa: PTH115 - a Path is not what the link says
        archive.addfile(member)
    elif stat.S_ISREG(about.st_mode):
        member.size = about.st_size
        with open(path, "rb") as content:
            archive.addfile(member, content)


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode(errors="replace")
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def _folders_below_run() -> set[str]:
    return {folder for folder, _, _ in os.walk("/run")}


def _make_service_folders(before: set[str]) -> None:
    """Make the folders that a service manager makes when it starts services, and note those below /run."""
    for path, mode, user, group in (*_of_units(), *_of_tmpfiles()):
        with suppress(LookupError, OSError, ValueError):  # of a user that no package makes, as in a unit that is unused
            _make_folder(path, mode, user, group)
    lines = []
    for path in sorted(_folders_below_run() - before):
        about = Path(path)
        with suppress(KeyError):
            lines.append(f"{path} {stat.S_IMODE(about.stat().st_mode):o} {about.owner()} {about.group()}\n")
    RUN_FOLDERS.write_text("".join(line for line in lines if len(line.split()) == 4))


def _of_units() -> Iterator[tuple[str, str, str, str]]:
    for unit in _files(_UNITS, "*.service"):
        settings = dict(re.findall(r"^(\w+)=[ \t]*(.*?)[ \t]*$", unit.read_text(errors="replace"), re.MULTILINE))
        user = settings.get("User") or "root"
        group = settings.get("Group") or user
        for setting, base in _DIRECTORIES.items():
            for name in settings.get(setting, "").split():
                if "%" not in name and ".." not in name:
                    yield f"{base}/{name}", settings.get(f"{setting}Mode", "0755"), user, group


def _of_tmpfiles() -> Iterator[tuple[str, str, str, str]]:
    for path in _files([_TMPFILES], "*.conf"):
        for line in path.read_text(errors="replace").splitlines():
            words = [*line.split(), "-", "-", "-", "-"]
            if words[0] in ("d", "D") and words[1].startswith(("/run/", "/var/")) and "%" not in words[1]:
                usual = ("0755", "root", "root")
                mode, user, group = (u if word == "-" else word for word, u in zip(words[2:5], usual, strict=True))
                yield words[1].rstrip("/"), mode.lstrip(":~"), user, group


def _files(folders: Iterable[Path], pattern: str) -> Iterator[Path]:
    """Yield regular files; a link to /dev/null switches one off."""
    for folder in folders:
        for path in sorted(folder.glob(pattern)):
            if path.is_file():
                yield path
