"""Modules compiled by the Python of the lab image, on this machine's processor instead of an emulated one.

The host's Python may be another version, whose modules the lab's could not read. So that of the image is unpacked and
run here, in namespaces and a root of its own where the host has them. What it writes depends on the image and the code
alone: hashes of texts are fixed, and paths are those in the lab.
"""

from __future__ import annotations

import io
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from testbed.lab.host import cache, prerequisites, process_tree
from testbed.lab.image import erofs
from testbed.lab.image.image import Image
from testbed.lab.image.recipe import ImageError

_PYTHON = "usr/bin/python3.11"
_LIBRARY = "usr/lib/python3.11"
_SHARED = "usr/lib/x86_64-linux-gnu"
_LOADER = "ld-linux-x86-64.so.2"
_OBJECTS = ("libc.so.6", "libm.so.6", "libz.so.1", "libexpat.so.1")
"""The libraries of Python's program; modules that have further ones are not imported to compile."""
_PLACE = "xoff"
"""The folder into which a lab unpacks code."""
_COMPILE = ("-B", "-s", "-S", "-P", "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash")
_SOME_WITH_ERRORS = 1
"""The exit code of compileall if a module is no Python, as some of packages are not; all others are compiled."""
_MOST_GROWTH = 3
"""The most that a compiled module has of the octets of its source; of Xoff's own the largest has 2.8 times as many."""


def largest(code: bytes) -> int:
    """Return the most octets that a tar with code may have when its modules are compiled."""
    with tarfile.open(fileobj=io.BytesIO(code)) as archive:
        sizes = [member.size for member in archive if member.name.endswith(".py")]
    return len(code) + _MOST_GROWTH * sum(sizes) + 2 * tarfile.BLOCKSIZE * len(sizes) + tarfile.RECORDSIZE


def with_bytecode(code: bytes, of: Image) -> bytes:
    """Return a tar with code, and behind it the modules of this code, compiled; those that have errors are left out."""
    with cache.owned("bytecode") as work:
        root = work / "root"
        _unpack_python(of, work, root)
        with tarfile.open(fileobj=io.BytesIO(code)) as archive:
            modules = [member for member in archive if member.isreg() and member.name.endswith(".py")]
            # Debian 12's Python has no filters, and later versions warn without one.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(root / _PLACE, modules)
        _compile(root)
        whole = io.BytesIO(code)
        with tarfile.open(fileobj=whole, mode="a", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted((root / _PLACE).rglob("*.pyc")):
                member = tarfile.TarInfo(str(path.relative_to(root / _PLACE)))
                member.size = path.stat().st_size
                with path.open("rb") as content:
                    tar.addfile(member, content)
        return whole.getvalue()


def _unpack_python(of: Image, work: Path, root: Path) -> None:
    """Unpack the image's Python with its library into the folder `root`."""
    program = prerequisites.find_program("zstd") or "zstd"
    with tempfile.TemporaryFile(dir=work) as archive:
        if subprocess.run([program, "-d", "-q", "-c", str(of.initrd)], stdout=archive, check=False).returncode:
            raise ImageError(f"{program} could not unpack {of.initrd}; xoff image build makes it anew")
        archive.seek(0)
        tree = erofs.read_cpio(archive)
        wanted = [_PYTHON, f"{_SHARED}/{_LOADER}", *(f"{_SHARED}/{name}" for name in _OBJECTS), _LIBRARY]
        for name in wanted:
            for path, node in _below(name, _resolved(tree, name)):
                place = root / path
                place.parent.mkdir(parents=True, exist_ok=True)
                if stat.S_ISREG(node.mode):
                    archive.seek(node.content if isinstance(node.content, int) else 0)
                    place.write_bytes(archive.read(node.size))
                    place.chmod(0o755 if node.mode & stat.S_IXUSR else 0o644)
    (root / "lib64").mkdir()
    (root / "lib64" / _LOADER).symlink_to(f"/{_SHARED}/{_LOADER}")


def _resolved(tree: erofs.Inode, name: str) -> erofs.Inode:
    """Return the node that a name in the image stands for, whose links lead to their own folder."""
    for _ in range(8):
        node = tree.find(name)
        if node is None or not stat.S_ISLNK(node.mode):
            break
        assert isinstance(node.content, bytes)
        name = f"{name.rpartition('/')[0]}/{node.content.decode()}"
    if node is None:
        raise ImageError(f"the lab image has no file {name}")
    return node


def _below(name: str, node: erofs.Inode) -> Iterator[tuple[str, erofs.Inode]]:
    """Yield a node of the image and all below it, with their paths."""
    yield name, node
    for entry, child in node.entries.items():
        yield from _below(f"{name}/{entry}", child)


def _compile(root: Path) -> None:
    """Compile all modules in the code's folder of `root`."""
    environment = ["env", "-i", "PATH=/usr/bin:/bin", "LANG=C.UTF-8", "PYTHONHASHSEED=0"]
    compiling = [*_COMPILE, "-s"]
    confined = [
        "unshare", "--user", "--map-root-user", "--net", "--ipc", "--pid", "--fork", "--kill-child",
        "chroot", str(root), f"/lib64/{_LOADER}", "--library-path", f"/{_SHARED}", f"/{_PYTHON}",
        *compiling, "/", "-p", "/", f"/{_PLACE}",
    ]  # fmt: skip
    # Without namespaces, as in some containers: the image's Python all the same, as the user.
    plain = [
        str(root / _SHARED / _LOADER), "--library-path", str(root / _SHARED), str(root / _PYTHON),
        *compiling, f"{root}/", "-p", "/", str(root / _PLACE),
    ]  # fmt: skip
    for command, home in ((confined, "/usr"), (plain, str(root / "usr"))):
        code, said = process_tree.run([*environment, f"PYTHONHOME={home}", *command], {})
        if code in (0, _SOME_WITH_ERRORS) and any((root / _PLACE).rglob("*.pyc")):
            return
    raise ImageError(f"the Python of the lab image could not compile Xoff ({code}): {said.strip()[-500:]}")
