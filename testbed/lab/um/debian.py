"""Debian packages on the disks of `um`: unpacked here, configured once in a lab of its own, and then a disk like any.

The kernel has one disk beside the image's root, so the one with the packages and that with Xoff's code are written as
one for each pair. The parts are kept by themselves: after a change of the code no package is configured again.
"""

from __future__ import annotations

import hashlib
import io
import stat
import tarfile
import tempfile
from pathlib import Path
from typing import IO

from testbed.lab.host import cache
from testbed.lab.host.cache import Report
from testbed.lab.image import deb_archive, deb_tree, erofs, recipe
from testbed.lab.image.deb_archive import PackageError
from testbed.lab.image.debs import Debs
from testbed.lab.image.erofs import Inode, Joined
from testbed.lab.image.packages import Packages
from testbed.lab.job import debian
from testbed.lab.um import disks
from testbed.lab.um.kernel import Kernel
from testbed.lab.um.machine import boot_alone

_LAYERS, _JOINED = "um-debs-*", "um-joined-*"
_KEPT = 10
"""The number of disks of each kind that stay in the cache."""
_ROOM = 3 << 30
_CONFIGURE_S = 600.0


def code(kernel: Kernel, root_disk: Path, report: Report, packages: Packages | None = None) -> Path:
    """Return a disk with all of Xoff's own packages, and further ones, of Python and of Debian."""
    ours = disks.code(kernel, root_disk, report, packages)
    if packages is None or packages.debs is None:
        return ours
    layer = _layer(kernel, root_disk, ours, packages.debs, report)
    made_of = f"{ours.parent.name} {layer.parent.name}"
    place = cache.root() / f"um-joined-{_digest(made_of.encode())}"
    if not disks.is_whole(place, report):
        with cache.locked("lab code disk", report):
            if not disks.is_whole(place, cache.quiet):
                with cache.owned("um-joined") as work:
                    with layer.open("rb") as other:
                        _join(ours, erofs.read(other), other, work / disks.DISK)
                    disks.publish(work, place)
                    cache.keep_newest(_JOINED, _KEPT, disks.AT_WORK_S)
    return cache.used(place) / disks.DISK


def _layer(kernel: Kernel, root_disk: Path, ours: Path, debs: Debs, report: Report) -> Path:
    """Return the disk with configured packages alone, from the cache or made now."""
    made_by = [recipe.without_imports(Path(str(each.__file__))) for each in (deb_archive, deb_tree, debian, erofs)]
    made_of = [debs.digest.encode(), root_disk.parent.name.encode(), recipe.without_imports(Path(__file__))]
    place = cache.root() / f"um-debs-{_digest(*made_of, *made_by)}"
    if not disks.is_whole(place, report):
        with cache.locked("lab package disk", report):
            if not disks.is_whole(place, cache.quiet):
                report("setting up the Debian packages in the lab, once")
                cache.require_room(cache.root(), _ROOM, "Debian packages")
                with cache.owned("um-debs") as work:
                    _make_layer(kernel, root_disk, ours, debs, work)
                    disks.publish(work, place)
                    cache.keep_newest(_LAYERS, _KEPT, disks.AT_WORK_S)
    return cache.used(place) / disks.DISK


def _make_layer(kernel: Kernel, root_disk: Path, ours: Path, debs: Debs, work: Path) -> None:
    with tempfile.TemporaryFile(dir=work) as archive:
        tree = deb_tree.all_unpacked(debs.files(), archive)
        _join(ours, tree, archive, work / "unpacked")
        _configure(kernel, root_disk, work)
        with (work / "out").open("rb") as changes, root_disk.open("rb") as root:
            apply(tree, archive, changes, erofs.read(root))
        with (work / disks.DISK).open("wb") as out:
            erofs.write(tree, archive, out, recipe.EPOCH)


def _configure(kernel: Kernel, root_disk: Path, work: Path) -> None:
    """Boot a lab without a job: it configures what is unpacked, and writes out what that changed."""
    with tarfile.open(work / "job", "w"):
        pass
    mounted = {"XOFF_ROOT": root_disk, "XOFF_CODE": work / "unpacked", "XOFF_JOB": work / "job"}
    if (why := boot_alone(kernel.file, mounted, work, _CONFIGURE_S)) is not None:
        raise PackageError(f"the lab could not configure the Debian packages{why}")


def apply(tree: Inode, archive: IO[bytes], changes: IO[bytes], image: Inode) -> None:
    """Put what configuring changed into the tree of packages, and the contents behind what `archive` has."""
    with tarfile.open(fileobj=changes, mode="r:") as members:
        for member in members:
            name = member.name
            if name in (debian.FAILED, debian.REMOVED):
                source = members.extractfile(member)
                text = source.read().decode(errors="replace") if source is not None else ""
                if name == debian.FAILED:
                    raise PackageError(f"the Debian packages are not used: {text}")
                for path in text.splitlines():
                    _remove(tree, path.removeprefix("/"), image)
            elif node := _changed(member, members, archive):
                _put(tree, name, node)


def _changed(member: tarfile.TarInfo, members: tarfile.TarFile, archive: IO[bytes]) -> Inode | None:
    owner = member.uid, member.gid
    if member.isdir():
        return Inode(stat.S_IFDIR | member.mode, *owner)
    if member.issym():
        target = member.linkname.encode()
        return Inode(stat.S_IFLNK | 0o777, *owner, len(target), target)
    if not member.isreg():
        return None
    source = members.extractfile(member)
    assert source is not None
    place = archive.seek(0, io.SEEK_END)
    while data := source.read(1 << 20):
        archive.write(data)
    return Inode(stat.S_IFREG | member.mode, *owner, member.size, place if member.size else b"")


def _put(tree: Inode, name: str, node: Inode) -> None:
    *folders, last = name.split("/")
    place = tree
    for folder in folders:
        here = place.entries.get(folder)
        if here is None or not here.is_dir:
            here = place.entries[folder] = Inode(stat.S_IFDIR | 0o755)
        place = here
    here = place.entries.get(last)
    if here is not None and here.is_dir and node.is_dir:
        node.entries = here.entries
    place.entries[last] = node


def _remove(tree: Inode, name: str, image: Inode) -> None:
    """Take a path out of the tree; what the image has there is hidden."""
    folder, _, last = name.rpartition("/")
    place = tree.find(folder) if folder else tree
    if place is not None:
        place.entries.pop(last, None)
    if image.find(name) is not None:
        _put(tree, name, Inode(erofs.REMOVED))


def _join(ours: Path, tree: Inode, archive: IO[bytes], out: Path) -> None:
    """Write a disk with all that one disk has, and over it a tree with the contents in `archive`."""
    with ours.open("rb") as first, out.open("wb") as disk:
        both = Joined(first, archive)
        root = erofs.read(first)
        deb_tree.merge(root, _moved(tree, both.behind))
        erofs.write(root, both, disk, recipe.EPOCH)


def _moved(node: Inode, by: int) -> Inode:
    """Return a copy of a tree, the contents of which are so much further behind."""
    content = node.content + by if isinstance(node.content, int) else node.content
    entries = {name: _moved(child, by) for name, child in node.entries.items()}
    return Inode(node.mode, node.uid, node.gid, node.size, content, entries=entries)


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
