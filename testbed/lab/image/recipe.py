"""The recipe of the lab image: from package lists to a kernel and a compressed initramfs.

Whatever varies from one build to the next (times, caches, host names, pip's notes about its folder) is left out, so
two machines that get the same package versions build the same bytes. This file is part of the image's key: after a
change of anything but its imports, every image is built anew.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import IO, Any

from testbed.errors import XoffError
from testbed.lab.host import cache, prerequisites, process_tree
from testbed.lab.host.cache import Report

KERNEL = "vmlinuz"
ROOT = "root.cpio.zst"
GUEST_FILES = ("init.py", "ryu-manager", "controller", "python.lock", "sources.lock", "build.lock")
GUEST = resources.files("testbed.lab") / "guest"
_PYTHON = "3.11"
_SITE = f"usr/local/lib/python{_PYTHON}/dist-packages"
_LIBRARY = f"usr/lib/python{_PYTHON}"
_COMPILE = (
    'chroot "$1" env -i PATH=/usr/bin:/bin LANG=C.UTF-8 PYTHONHASHSEED=0 '
    "python3 -B -m compileall -q -f --invalidation-mode unchecked-hash"
)
EPOCH = 1735689600  # 2025-01-01, the day on which the lab's clock starts too

# Caches, logs, documentation and what the building machine would leak into the image.
_DROPPED = (
    "boot/", "dev/", "etc/apt/", "proc/", "sys/", "run/", "tmp/",
    "usr/share/doc/", "usr/share/man/", "usr/share/info/", "usr/share/locale/", "usr/share/lintian/",
    "var/cache/", "var/lib/apt/", "var/lib/dpkg/info/", "var/log/", "var/lib/systemd/",
    "etc/machine-id", "etc/hostname", "etc/resolv.conf", "etc/shadow-", "etc/passwd-", "etc/group-",
    "etc/gshadow-", "etc/openvswitch/conf.db", "etc/openvswitch/system-id.conf",
    "etc/openvswitch-testcontroller/", "var/lib/openvswitch/",  # keys that their installation draws
)  # fmt: skip
_TRACES = ("RECORD", "direct_url.json")
"""The files in which pip notes where it worked."""
_FETCHED = "fetched"
"""The file that says that archives with all Python packages are there."""
_BESIDE, _CODE = "beside.sh", "beside"
"""The script that a hook leaves running, in the new root's `tmp`, and the file that has its exit code."""
_CHATTER = ("I: ", "Get:", "Hit:", "Ign:", "Reading ", "Building ", "done")
"""The beginnings of lines of apt and mmdebstrap that say nothing about what went wrong."""
_IMPORTS = re.compile(rb"^(?:(?:from [\w.]+ )?import (?:\([^)]*\)|[^\n]*)\n+)+", re.MULTILINE)
_NO_SYNC = "force-unsafe-io"
"""The option by which dpkg does not wait for the disk: a root that is half made is thrown away."""
_EMPTY_DIRS = ("dev", "proc", "sys", "run", "tmp", "var/log", "var/cache", "xoff", "root")


class ImageError(XoffError):
    """The lab image could not be built or is not whole."""

    exit_code = 3


def make(work: Path, pins: Mapping[str, str], mirror: str, report: Report) -> dict[str, Any]:
    """Make kernel and initramfs in `work`, with `pins` as far as the mirror has them, and return the manifest."""
    report("installing Debian packages, the kernel and Python packages into the lab image")
    tree = work / "root.tar"
    _run_mmdebstrap(work, tree, pins, mirror)
    report("packing the lab image")
    manifest = _pack(tree, work)
    cache.leave_only(work, KERNEL, ROOT)
    return manifest


def digest_of(files: Mapping[str, str]) -> str:
    """Return the digest of an image, computed from those of its files."""
    return hashlib.sha256(json.dumps(dict(files), sort_keys=True).encode()).hexdigest()


def inputs() -> dict[str, str]:
    """Return the digest of every file that decides what the image contains, by its name."""
    found = {name: hashlib.sha256((GUEST / name).read_bytes()).hexdigest() for name in GUEST_FILES}
    return found | {"recipe.py": hashlib.sha256(without_imports(Path(__file__))).hexdigest()}


def without_imports(module: Path) -> bytes:
    """Return the text of a module without the imports at its top, which decide nothing of what it makes."""
    return _IMPORTS.sub(b"", module.read_bytes(), count=1)


def _command(
    argv: list[str],
    what: str,
    environment: Mapping[str, str] | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """Run a tool; if it fails, raise an error with the end of its output, without the lines about its progress."""
    code, said = process_tree.run(argv, environment or {}, meanwhile)
    if code:
        lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith(_CHATTER)]
        tail = "\n  ".join(lines[-8:])
        raise ImageError(f"{what} failed ({Path(argv[0]).name} ended with {code}):\n  {tail}")


def _install_python(site: Path, work: Path) -> None:
    """Put the pinned Python packages under `site`, for the guest's Python whatever ours is.

    Nothing of them is executed here: wheels are unpacked, and what comes as source is built in the lab's root.
    """
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels = [
        *pip, "install", "--no-compile", "--no-deps", "--require-hashes", "--only-binary", ":all:",
        "--python-version", _PYTHON, "--implementation", "cp",
        *[f"--platform=manylinux{tag}_x86_64" for tag in ("_2_28", "_2_17", "2014")],
    ]  # fmt: skip
    for lock, target, what in (
        ("python.lock", site / _SITE, "installing the image's Python packages"),
        ("build.lock", work / "build" / "tools", "getting the tools that build Ryu"),
    ):
        _command([*wheels, "--target", str(target), "-r", str(GUEST / lock)], what)
    _fetch_sources(pip, work)
    shutil.rmtree(site / _SITE / "bin", ignore_errors=True)  # launchers for the wrong interpreter
    for trace in _TRACES:
        for path in (site / _SITE).glob(f"*.dist-info/{trace}"):
            path.unlink()
    programs = {name: f"usr/local/bin/{name}" for name in ("ryu-manager", "controller")}
    for name, place in {"init.py": "init", **programs}.items():
        path = site / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((GUEST / name).read_bytes())
        path.chmod(0o755)
    lab = prerequisites.table()["lab"]
    content = {"modules": [module.name for module in prerequisites.lab_modules()], "preload": lab["python"]["preload"]}
    (site / "xoff").mkdir()
    (site / "xoff" / "lab.json").write_text(json.dumps(content))


# `pip download` executes a source's set-up to learn its name and version. This stands in for setuptools there, and
# reads them from where the source archive has them.
_STAND_IN = """
import pathlib, sys
from email.parser import HeaderParser

def get_requires_for_build_wheel(config_settings=None):
    return []

def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    content = pathlib.Path("PKG-INFO").read_text(encoding="utf-8")
    head = HeaderParser().parsestr(content)
    folder = pathlib.Path(metadata_directory, f"{head['Name'].replace('-', '_')}-{head['Version']}.dist-info")
    folder.mkdir()
    (folder / "METADATA").write_text(content, encoding="utf-8")
    return folder.name

__legacy__ = sys.modules[__name__]
"""


def _fetch_sources(pip: list[str], work: Path) -> None:
    """Get the sources of `sources.lock`, checked, and execute nothing of them."""
    stand_in = work / "stand-in" / "setuptools"
    stand_in.mkdir(parents=True)
    (stand_in / "__init__.py").touch()
    (stand_in / "build_meta.py").write_text(_STAND_IN)
    _command(
        [*pip, "download", "--no-deps", "--no-binary", ":all:", "--require-hashes",
         "--no-build-isolation", "--use-pep517", "--no-cache-dir",
         "--dest", str(work / "build" / "sources"), "-r", str(GUEST / "sources.lock")],
        "getting the sources of Ryu and the iperf3 wrapper",
        {"PYTHONPATH": str(stand_in.parent)},
    )  # fmt: skip


# Waits for the Python packages, which are fetched while Debian's are installed.
_WAIT_HOOK = f'until [ -e "$1/../{_FETCHED}" ]; do sleep 0.1; done'

# Builds and installs what comes as source, in the new root: as the user nobody, without network, and
# no process outlives it.
_BUILD_HOOK = f"""
set -e
install -d -o 65534 -g 65534 "$1/build/made"
unshare --net --pid --fork --kill-child chroot --userspec=65534:65534 --groups=65534 "$1" \
    env -i PATH=/usr/bin:/bin LANG=C.UTF-8 HOME=/build/made TMPDIR=/build/made PYTHONPATH=/build/tools \
    PYTHONHASHSEED=0 SOURCE_DATE_EPOCH={EPOCH} \
    sh -c 'exec python3 -B -m pip --quiet --isolated install --no-index --no-deps --no-build-isolation --no-compile \
        --no-cache-dir --target /build/made/site /build/sources/*'
for trace in {" ".join(_TRACES)}; do rm -f "$1"/build/made/site/*.dist-info/$trace; done
rm -rf "$1/build/made/site/bin"
cp -r "$1/build/made/site/." "$1/{_SITE}/"
rm -rf "$1/build"
"""

# Runs inside mmdebstrap's namespace with the new root as $1, while what comes as source is built: fetches the kernel
# through that root's apt, so its signature is checked, and unpacks it without running the boot loader's scripts. Then
# it compiles Python's own library. Its exit code is left for the hook that finishes the root.
_KERNEL_HOOK = f"""
cat > "$1/tmp/{_BESIDE}" <<'END'
set -e
cd "$1/tmp"
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
wanted=$(apt-cache depends {{meta}} | sed -n 's/^ *Depends: \\(linux-image-.*\\)/\\1/p' | head -n 1)
if [ -n "{{pinned}}" ] && apt-cache show "{{pinned}}" >/dev/null 2>&1; then wanted="{{pinned}}"; fi
apt-get download -q "$wanted"
dpkg-deb --fsys-tarfile linux-image-*.deb | tar -x -C "$1" --keep-directory-symlink
rm linux-image-*.deb
mkdir -p "$1/xoff"
echo "$wanted $(apt-cache policy "$wanted" | sed -n 's/^ *Candidate: //p')" > "$1/xoff/kernel"
for tree in "$1"/lib/modules/*; do chroot "$1" depmod "$(basename "$tree")"; done
find "$1/{_LIBRARY}" -name __pycache__ -prune -exec rm -rf '{{{{}}}}' +
{_COMPILE} /{_LIBRARY} >/dev/null 2>&1 || true
END
(code=0; sh "$1/tmp/{_BESIDE}" "$1" || code=$?; echo "$code" > "$1/tmp/code"; mv "$1/tmp/code" "$1/tmp/{_CODE}") &
"""

_FINISH_HOOK = f"""
set -e
find "$1/usr" -path "$1/{_LIBRARY}" -prune -o -name __pycache__ -prune -exec rm -rf '{{}}' +
sed -i /^{_NO_SYNC}$/d "$1"/etc/dpkg/dpkg.cfg.d/99mmdebstrap
{_COMPILE} /usr/lib/python3/dist-packages /{_SITE} >/dev/null 2>&1 || true
chroot "$1" dpkg-query -W -f '${{Package}} ${{Version}}\\n' > "$1/xoff/debian"
until [ -e "$1/tmp/{_CODE}" ]; do sleep 0.1; done
code=$(cat "$1/tmp/{_CODE}")
rm "$1/tmp/{_CODE}" "$1/tmp/{_BESIDE}"
exit "$code"
"""

# dpkg leaves these out. They are no options of mmdebstrap's, which would have each essential package go through a
# filter in Python. What these packages bring of them goes before they are configured.
_EXCLUDE_HOOK = """
mkdir -p "$1/etc/dpkg/dpkg.cfg.d"
for part in doc man info locale; do
    rm -rf "$1/usr/share/$part"/*
    echo "path-exclude=/usr/share/$part/*"
done >> "$1/etc/dpkg/dpkg.cfg.d/99mmdebstrap"
"""


def _run_mmdebstrap(work: Path, tree: Path, pins: Mapping[str, str], mirror: str) -> None:
    lab = prerequisites.table()["lab"]
    pinned = next((name for name in pins if name.startswith("linux-image-")), "")
    archives = {work / "site": "/", work / "build": "/build"}
    hooks = [
        _KERNEL_HOOK.format(meta=lab["kernel"]["image"], pinned=pinned), _WAIT_HOOK, 'mkdir "$1/build"',
        *[f"tar-in {shlex.quote(str(folder.with_suffix('.tar')))} {place}" for folder, place in archives.items()],
        _BUILD_HOOK, _FINISH_HOOK,
    ]  # fmt: skip

    def fetch(temporary: Path) -> None:
        _install_python(work / "site", work)
        for folder in archives:
            with tarfile.open(folder.with_suffix(".tar"), "w") as archive:
                archive.add(folder, arcname=".", filter=_owned_by_root)
        (temporary / _FETCHED).touch()

    packages = [package.name for package in prerequisites.image_packages()]
    options = ["--variant=essential", "--format=tar", f"--dpkgopt={_NO_SYNC}"]
    what = "building the lab image's root"
    bootstrap(options, packages, hooks, str(tree), work, pins=pins, mirror=mirror, what=what, meanwhile=fetch)


def bootstrap(
    options: list[str],
    packages: list[str],
    hooks: list[str],
    target: str,
    work: Path,
    *,
    pins: Mapping[str, str],
    mirror: str,
    what: str,
    meanwhile: Callable[[Path], object] = lambda _: None,
) -> None:
    """Make a root of the lab's Debian with `packages`, checked by apt, and run `hooks` on it; as root or as a user.

    `meanwhile` is called while that goes on, with the folder in which the root is.
    """
    temporary = cache.elsewhere(work)
    preferences = temporary / "preferences"  # apt, as another user, cannot enter a closed home, and would go without
    preferences.write_text(
        "".join(f"Package: {name}\nPin: version {version}\nPin-Priority: 1001\n\n"
                for name, version in pins.items())
    )  # fmt: skip
    preferences.chmod(0o644)
    environment = {"SOURCE_DATE_EPOCH": str(EPOCH), "TMPDIR": str(temporary)}
    program = prerequisites.find_program("mmdebstrap")
    if program is None:
        raise ImageError("mmdebstrap is missing; `xoff doctor` shows how to get it")
    command = [
        program, *options, "--mode=unshare", "--include=" + ",".join(packages),
        '--aptopt=APT::Install-Recommends "false"',
        f'--aptopt=Dir::Etc::Preferences "{preferences}"',
        f"--extract-hook={_EXCLUDE_HOOK}",
        *[f"--customize-hook={hook}" for hook in hooks],
        prerequisites.table()["lab"]["suite"], target, *([mirror] if mirror else []),
    ]  # fmt: skip
    source = mirror or "the mirrors of Debian"
    _command(command, f"{what} from {source}", environment, lambda: meanwhile(temporary))


def _pack(tree: Path, work: Path) -> dict[str, Any]:
    """Turn the tar into a kernel and a compressed initramfs; return the manifest."""
    debian: dict[str, str] = {}
    release = ""
    with tarfile.open(tree, encoding="utf-8") as archive:
        members = {member.name.removeprefix("./"): member for member in archive}
        for name, member in members.items():
            if name.startswith("boot/vmlinuz-"):
                release = name.removeprefix("boot/vmlinuz-")
                with _opened(archive, member) as source, (work / KERNEL).open("wb") as out:
                    shutil.copyfileobj(source, out)
        for listing in ("xoff/debian", "xoff/kernel"):
            with _opened(archive, members[listing]) as source:
                debian |= dict(line.split() for line in source.read().decode().splitlines())
            del members[listing]
        program = prerequisites.find_program("zstd") or "zstd"
        with (
            (work / ROOT).open("wb") as out,
            # A fixed level. The bytes do not depend on the number of workers, as long as there are any.
            subprocess.Popen([program, "-q", "-9", "-T2"], stdin=subprocess.PIPE, stdout=out) as zstd,
        ):
            assert zstd.stdin is not None
            for chunk in _cpio(archive, members):
                zstd.stdin.write(chunk)
            zstd.stdin.close()
        if zstd.returncode:
            raise ImageError(f"zstd ended with {zstd.returncode} while packing the lab image")
    if not release:
        raise ImageError("the kernel package held no kernel")
    files = {name: cache.sha256(work / name) for name in (KERNEL, ROOT)}
    return {
        "digest": digest_of(files),
        "kernel": release,
        "debian": debian,
        "python": locked_versions(),
        "files": files,
    }


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644  # whatever our umask is
    return member


def _opened(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    source = archive.extractfile(member)
    if source is None:
        raise ImageError(f"{member.name} in the image's root is not a file")
    return source


def locked_versions() -> dict[str, str]:
    lines = [
        line.split()[0]
        for name in ("python.lock", "sources.lock")
        for line in (GUEST / name).read_text().splitlines()
        if "==" in line
    ]
    return dict(sorted(line.split("==") for line in lines))


def _cpio(archive: tarfile.TarFile, members: dict[str, tarfile.TarInfo]) -> Iterator[bytes]:
    """Yield the members of the tar as a cpio archive (`newc`), sorted and with one time for all."""
    kept = {
        name: member
        for name, member in members.items()
        if name and not any(name.startswith(part) or name + "/" == part for part in _DROPPED)
    }
    for number, name in enumerate(sorted(kept.keys() | set(_EMPTY_DIRS)), start=1):
        member = kept.get(name)
        if member is None:
            yield from _entry(name, number, 0o040755, b"")
        elif member.isdir():
            yield from _entry(name, number, 0o040000 | member.mode, b"", member)
        elif member.issym():
            yield from _entry(name, number, 0o120777, member.linkname.encode(), member)
        elif member.isfile() or member.islnk():
            with _opened(archive, member) as source:  # a hard link becomes a copy
                yield from _entry(name, number, 0o100000 | member.mode, source.read(), member)
    yield from _entry("TRAILER!!!", 0, 0, b"")


def _entry(name: str, number: int, mode: int, content: bytes, member: tarfile.TarInfo | None = None) -> Iterable[bytes]:
    raw = name.encode() + b"\0"
    owner = (member.uid, member.gid) if member else (0, 0)
    fields = (number, mode, *owner, 1, EPOCH, len(content), 0, 0, 0, 0, len(raw), 0)
    header = b"070701" + b"".join(b"%08x" % field for field in fields)
    yield header + raw + bytes(-(len(header) + len(raw)) % 4)
    yield content + bytes(-len(content) % 4)
