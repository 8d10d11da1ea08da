"""The lab image: Debian's packages, the stock kernel and the Python parts, all in one initramfs.

Its key is a digest of everything that goes in; its digest is that of what came out. Whatever varies from
one build to the next (times, caches, host names) is removed, so two machines that are served the same
package versions build the same bytes. `reference.json` holds the versions that Xoff's own figures
were made with: a build pins to them as far as the mirror still has them and says where it had to differ.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO, Any

from testbed.errors import XoffError
from testbed.lab import cache, needs
from testbed.lab.cache import Report

KERNEL = "vmlinuz"
ROOT = "root.cpio.zst"
MANIFEST = "manifest.json"
_GUEST = resources.files("testbed.lab") / "guest"
_PYTHON = "3.11"
_SITE = f"usr/local/lib/python{_PYTHON}/dist-packages"
_EPOCH = 1735689600  # 2025-01-01, the day on which the lab's clock starts too
_ROOM = 2 << 30

# Caches, logs, documentation and what the building machine would leak into the image.
_DROPPED = (
    "boot/", "dev/", "etc/apt/", "proc/", "sys/", "run/", "tmp/",
    "usr/share/doc/", "usr/share/man/", "usr/share/info/", "usr/share/locale/", "usr/share/lintian/",
    "var/cache/", "var/lib/apt/", "var/lib/dpkg/info/", "var/log/", "var/lib/systemd/",
    "etc/machine-id", "etc/hostname", "etc/resolv.conf", "etc/shadow-", "etc/passwd-", "etc/group-",
    "etc/gshadow-", "etc/openvswitch/conf.db", "etc/openvswitch/system-id.conf",
)  # fmt: skip
_EMPTY_DIRS = ("dev", "proc", "sys", "run", "tmp", "var/log", "var/cache", "xoff", "root")


class ImageError(XoffError):
    """The lab image could not be built or is not whole."""

    exit_code = 3


@dataclass(frozen=True)
class Image:
    """A finished image in the cache."""

    path: Path
    key: str
    digest: str
    kernel: str
    debian: dict[str, str]
    python: dict[str, str]
    sizes: dict[str, int]

    @property
    def vmlinuz(self) -> Path:
        return self.path / KERNEL

    @property
    def initrd(self) -> Path:
        return self.path / ROOT

    def differences(self) -> list[str]:
        """How this image differs from the reference image; empty if it does not."""
        reference = _reference()
        if self.digest == reference.get("digest"):
            return []
        found = []
        for kind, mine in (("debian", self.debian), ("python", self.python)):
            theirs: dict[str, str] = reference.get(kind, {})
            for name in sorted(mine.keys() | theirs.keys()):
                if mine.get(name) != theirs.get(name):
                    found.append(f"{name} {mine.get(name, 'not there')}, reference {theirs.get(name, 'not there')}")
        return found or [f"same package versions, other contents (reference {reference.get('digest')})"]


def key() -> str:
    """The digest of everything that goes into the image."""
    parts = hashlib.sha256()
    lab = needs.table()["lab"]
    recipe = {
        "suite": lab["suite"],
        "kernel": lab["kernel"]["image"],
        "packages": [package.name for package in needs.lab_packages()],
        "modules": [module.name for module in needs.lab_modules()],
        "python": lab["python"],
        "pins": _reference(),
        "mirror": _mirror(),
    }
    parts.update(json.dumps(recipe, sort_keys=True).encode())
    for name in ("init.py", "ryu-manager", "python.lock", "sources.lock"):
        parts.update((_GUEST / name).read_bytes())
    parts.update(Path(__file__).read_bytes())
    return parts.hexdigest()[:16]


def ensure(report: Report) -> Image:
    """The image, from the cache or built now."""
    final = _final()
    if (image := _load(final, report)) is not None:
        cache.used(final)
        return image
    with cache.locked("lab image", report):
        if (image := _load(final, report)) is not None:
            return image  # another xoff built it while we waited
        return build(report)


def build(report: Report) -> Image:
    """Build the image anew and put it into the cache."""
    cache.require_room(cache.root(), _ROOM, "building the lab image")
    with cache.owned("image") as work:
        site = work / "site"
        _install_python(site, work, report)
        report("installing Debian packages and the kernel into the lab image")
        tree = work / "root.tar"
        _run_mmdebstrap(site, work, tree)
        report("packing the lab image")
        manifest = _pack(tree, work)
        tree.unlink()
        shutil.rmtree(site)
        for leftover in work.iterdir():
            if leftover.name not in (KERNEL, ROOT, ".owner"):
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        (work / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
        cache.publish(work, _final())
        cache.prune("image-*")
    image = _load(_final(), report)
    if image is None:
        raise ImageError(f"the image just built in {_final()} is damaged; is the disk sound?")
    return image


def current() -> Image | None:
    """The image if it is in the cache and whole."""
    return _load(_final(), lambda _: None)


def clean() -> list[Path]:
    """Remove every image (and whatever is built on one); return what was removed."""
    removed = []
    for pattern in ("image-*", "snapshot-*"):
        for path in cache.root().glob(pattern):
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
    return removed


def write_reference(image: Image) -> None:
    """Make `image` the reference: what it holds is what later builds pin to."""
    content = {"digest": image.digest, "debian": image.debian, "python": image.python}
    with resources.as_file(resources.files("testbed.lab") / "reference.json") as path:
        path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def _final() -> Path:
    return cache.root() / f"image-{key()}"


def _mirror() -> str:
    return os.environ.get("XOFF_MIRROR", "")


def _reference() -> dict[str, Any]:
    path = resources.files("testbed.lab") / "reference.json"
    content: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return content


def _load(path: Path, report: Report) -> Image | None:
    """Read an image back and check it; None if it is not there or not whole."""
    if not path.exists():
        return None
    try:
        manifest = json.loads((path / MANIFEST).read_text())
        files: dict[str, str] = manifest["files"]
        for name, digest in files.items():
            if cache.sha256(path / name) != digest:
                raise ValueError(name)
        sizes = {name: (path / name).stat().st_size for name in files}
        names = ("digest", "kernel", "debian", "python")
        return Image(path=path, key=path.name.partition("-")[2], sizes=sizes,
                     **{name: manifest[name] for name in names})  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        report(f"the lab image in {path} is damaged; building it again")
        return None


def _command(argv: list[str], what: str, env: dict[str, str] | None = None) -> None:
    """Run a tool; on failure show the end of what it said."""
    # A session of its own, so that Ctrl-C reaches us and we end the tool, not both at once.
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", env={**os.environ, **(env or {})}, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            said, _ = process.communicate()
        except BaseException:
            process.terminate()  # mmdebstrap undoes its mounts and removes its tree
            process.wait()
            raise
    if process.returncode:
        tail = "\n  ".join(said.strip().splitlines()[-8:])
        raise ImageError(f"{what} failed ({argv[0]} ended with {process.returncode}):\n  {tail}")


def _install_python(site: Path, work: Path, report: Report) -> None:
    """Put the pinned Python packages under `site`, for the guest's Python whatever ours is."""
    report("installing Python packages into the lab image")
    target = str(site / _SITE)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _command(
        [*pip, "install", "--no-compile", "--no-deps", "--require-hashes", "--target", target,
         "--only-binary", ":all:", "--python-version", _PYTHON, "--implementation", "cp",
         *[f"--platform=manylinux{tag}_x86_64" for tag in ("_2_28", "_2_17", "2014")],
         "-r", str(_GUEST / "python.lock")],
        "installing the image's Python packages",
    )  # fmt: skip
    # Ryu's set-up needs a setuptools of its time, which only a separate environment can have.
    tools = work / "build-tools"
    _command([sys.executable, "-m", "venv", str(tools)], "making a build environment")
    pip[0] = str(tools / "bin" / "python")
    wanted = needs.table()["lab"]["python"]["build"]
    _command([*pip, "install", *wanted], "installing the tools that build Ryu")
    _command(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "--require-hashes", "--wheel-dir",
         str(work / "wheels"), "-r", str(_GUEST / "sources.lock")],
        "building Ryu and the iperf3 wrapper",
        env={"SOURCE_DATE_EPOCH": str(_EPOCH)},
    )  # fmt: skip
    wheels = [str(path) for path in sorted((work / "wheels").glob("*.whl"))]
    _command([*pip, "install", "--no-compile", "--no-deps", "--no-index", "--target", target, *wheels],
             "installing Ryu and the iperf3 wrapper")  # fmt: skip
    shutil.rmtree(site / _SITE / "bin", ignore_errors=True)  # launchers for the wrong interpreter
    for trace in ("RECORD", "direct_url.json"):  # pip's notes of where on this machine it worked
        for path in (site / _SITE).glob(f"*.dist-info/{trace}"):
            path.unlink()
    for name, place in (("init.py", "init"), ("ryu-manager", "usr/local/bin/ryu-manager")):
        path = site / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((_GUEST / name).read_bytes())
        path.chmod(0o755)
    lab = needs.table()["lab"]
    content = {"modules": [module.name for module in needs.lab_modules()], "preload": lab["python"]["preload"]}
    (site / "xoff").mkdir()
    (site / "xoff" / "lab.json").write_text(json.dumps(content))


# Runs inside mmdebstrap's namespace with the new root as $1: fetches the kernel through that root's apt,
# so its signature is checked, and unpacks it without running the boot loader's scripts.
_KERNEL_HOOK = """
cd "$1/tmp"
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
wanted=$(apt-cache depends {meta} | sed -n 's/^ *Depends: \\(linux-image-.*\\)/\\1/p' | head -n 1)
if [ -n "{pinned}" ] && apt-cache show "{pinned}" >/dev/null 2>&1; then wanted="{pinned}"; fi
apt-get download -q "$wanted"
dpkg-deb --fsys-tarfile linux-image-*.deb | tar -x -C "$1" --keep-directory-symlink
rm linux-image-*.deb
mkdir -p "$1/xoff"
echo "$wanted $(apt-cache policy "$wanted" | sed -n 's/^ *Candidate: //p')" > "$1/xoff/kernel"
"""

_FINISH_HOOK = f"""
for tree in "$1"/lib/modules/*; do chroot "$1" depmod "$(basename "$tree")"; done
find "$1" -name __pycache__ -prune -exec rm -rf '{{}}' +
chroot "$1" python3 -m compileall -q -j1 --invalidation-mode unchecked-hash \
    /usr/lib/python{_PYTHON} /usr/lib/python3/dist-packages /{_SITE} >/dev/null 2>&1 || true
chroot "$1" dpkg-query -W -f '${{Package}} ${{Version}}\\n' > "$1/xoff/debian"
"""


def _run_mmdebstrap(site: Path, work: Path, tree: Path) -> None:
    lab = needs.table()["lab"]
    pins: dict[str, str] = _reference().get("debian", {})
    preferences = work / "preferences"
    preferences.write_text(
        "".join(f"Package: {name}\nPin: version {version}\nPin-Priority: 1001\n\n"
                for name, version in pins.items())
    )  # fmt: skip
    pinned = next((name for name in pins if name.startswith("linux-image-")), "")
    python = work / "python.tar"
    with tarfile.open(python, "w") as archive:
        archive.add(site, arcname=".")
    environment = {"SOURCE_DATE_EPOCH": str(_EPOCH)}
    if "TMPDIR" not in os.environ:
        environment["TMPDIR"] = tempfile.gettempdir()
    options = [
        "--variant=essential", "--mode=unshare", "--quiet", "--format=tar",
        "--include=" + ",".join(package.name for package in needs.lab_packages()),
        '--aptopt=APT::Install-Recommends "false"',
        f'--aptopt=Dir::Etc::Preferences "{preferences}"',
        *[f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("doc", "man", "info", "locale")],
        "--customize-hook=" + _KERNEL_HOOK.format(meta=lab["kernel"]["image"], pinned=pinned),
        f"--customize-hook=tar-in {shlex.quote(str(python))} /",
        "--customize-hook=" + _FINISH_HOOK,
        lab["suite"], str(tree),
    ]  # fmt: skip
    mirror = [_mirror()] if _mirror() else []
    program = needs.find_program("mmdebstrap")
    if program is None:
        raise ImageError("mmdebstrap is missing; `xoff doctor` says how to get it")
    _command([program, *options, *mirror], "building the lab image's root", environment)


def _pack(tree: Path, work: Path) -> dict[str, Any]:
    """Turn the tar into a kernel and a compressed initramfs; return the manifest."""
    debian: dict[str, str] = {}
    release = ""
    with tarfile.open(tree) as archive:
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
        program = needs.find_program("zstd") or "zstd"
        with (
            (work / ROOT).open("wb") as out,
            # One worker and a fixed level: the bytes must not depend on this machine's cores.
            subprocess.Popen([program, "-q", "-9", "-T1"], stdin=subprocess.PIPE, stdout=out) as zstd,
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
        "digest": hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest(),
        "kernel": release,
        "debian": debian,
        "python": _locked_versions(),
        "files": files,
    }


def _opened(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    source = archive.extractfile(member)
    if source is None:
        raise ImageError(f"{member.name} in the image's root is not a file")
    return source


def _locked_versions() -> dict[str, str]:
    lines = [
        line.split()[0]
        for name in ("python.lock", "sources.lock")
        for line in (_GUEST / name).read_text().splitlines()
        if "==" in line
    ]
    return dict(sorted(line.split("==") for line in lines))


def _cpio(archive: tarfile.TarFile, members: dict[str, tarfile.TarInfo]) -> Iterator[bytes]:
    """The tar's members as a cpio archive (`newc`), sorted and with one time for all."""
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
    fields = (number, mode, *owner, 1, _EPOCH, len(content), 0, 0, 0, 0, len(raw), 0)
    header = b"070701" + b"".join(b"%08x" % field for field in fields)
    yield header + raw + bytes(-(len(header) + len(raw)) % 4)
    yield content + bytes(-len(content) % 4)
