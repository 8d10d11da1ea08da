"""Debian packages as one tree of files, as `dpkg --unpack` would leave it: to be configured in the lab.

What `dpkg` keeps of a package (its description, its scripts, the list of its files) is in the tree too, so that
`dpkg --configure` in the lab does the rest (`lab/job/debian.py`), and `dpkg -l` there is right. Left out are manuals,
documentation and translations, which the image has none of either.
"""

from __future__ import annotations

import re
import stat
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, NoReturn

from testbed.lab.image.deb_archive import Package, PackageError, PackageMember
from testbed.lab.image.erofs import Inode

UNPACKED = "var/lib/dpkg/unpacked-by-xoff"
"""The file with the descriptions of all unpacked packages, which go into dpkg's status in the lab."""
_INFO = "var/lib/dpkg/info"
_SCRIPTS = ("preinst", "postinst", "prerm", "postrm", "config", "templates", "triggers", "conffiles")
_LEFT_OUT = tuple(f"usr/share/{part}/" for part in ("doc", "man", "info", "locale", "lintian", "bug", "doc-base"))
_MERGED = re.compile(r"^(bin|sbin|lib|lib32|lib64|libx32)(?=/|$)")
"""The folders that are links to those below `usr` in the image; a folder of such a name would hide the link."""
_FOLDERS = ("proc", "sys", "dev", "run", "tmp", "var/log", "var/lib", "etc/pam.d")
_CONFIGURED = {
    "etc/passwd": b"root:x:0:0::/root:/bin/sh\nfrr:x:300:300::/nonexistent:/usr/sbin/nologin\n",
    "etc/group": b"root:x:0:\nfrr:x:300:\nfrrvty:x:301:frr\n",
    "etc/nsswitch.conf": b"passwd: files\ngroup: files\n",
    "etc/pam.d/other": b"auth required pam_permit.so\naccount required pam_permit.so\n",
}
"""The files that scripts would make in a root of another release: FRR's users, and permission for root to ask it."""
_FIELD = re.compile(rb"^([A-Za-z-]+): *(.*)$", re.MULTILINE)


def unpacked(packages: Mapping[str, Path], archive: IO[bytes]) -> Inode:
    """Return the tree of all packages, by their names in messages, with the contents put behind what `archive` has."""
    root = Inode(stat.S_IFDIR | 0o755)
    descriptions = []
    for shown, path in sorted(packages.items()):
        package = Package(path, shown)
        control = package.control()
        members = package.data(archive)
        _add_files(root, members, shown)
        descriptions.append(_add_control(root, archive, control, members, shown))
    _put(root, archive, f"{_INFO}/format", b"1\n")
    _put(root, archive, UNPACKED, b"\n".join(descriptions))
    return root


def all_unpacked(files: Mapping[str, Mapping[str, Path]], archive: IO[bytes]) -> Inode:
    """Return the tree of all packages: those of the lab's Debian, and below `opt` a root for each other release."""
    tree = unpacked(files.get("", {}), archive)
    for name, packages in files.items():
        if name:
            _require_folders(tree, f"opt/{name}", name)
            tree.add(f"opt/{name}", _root(packages, archive))
    return tree


def _root(packages: Mapping[str, Path], archive: IO[bytes]) -> Inode:
    """Return a root of another release of Debian, for `chroot`. Nothing of it is configured: it has no shell."""
    root = Inode(stat.S_IFDIR | 0o755)
    for shown, path in sorted(packages.items()):
        _add_files(root, Package(path, shown).data(archive), shown)
    for name in ("bin", "sbin", "lib", "lib64"):
        target = f"usr/{name}".encode()
        root.entries[name] = Inode(stat.S_IFLNK | 0o777, 0, 0, len(target), target)
    for name in _FOLDERS:
        if root.find(name) is None:
            root.add(name, Inode(stat.S_IFDIR | 0o755))
    for name, text in _CONFIGURED.items():
        _put(root, archive, name, text)
    return root


def merge(into: Inode, other: Inode) -> None:
    """Put a tree over another one: what both have is that of `other`, and folders have what is in either."""
    for name, node in other.entries.items():
        here = into.entries.get(name)
        if here is not None and here.is_dir and node.is_dir:
            here.mode, here.uid, here.gid = node.mode, node.uid, node.gid
            merge(here, node)
        else:
            into.entries[name] = node


def add_to_tar(root: Inode, archive: IO[bytes], out: tarfile.TarFile, below: str) -> None:
    """Write a tree with its contents into a tar, below a folder there."""
    for name, node in sorted(root.entries.items()):
        member = tarfile.TarInfo(f"{below}/{name}")
        member.mode, member.uid, member.gid = stat.S_IMODE(node.mode), node.uid, node.gid
        if node.is_dir:
            member.type = tarfile.DIRTYPE
            out.addfile(member)
            add_to_tar(node, archive, out, member.name)
        elif stat.S_ISLNK(node.mode) and isinstance(node.content, bytes):
            member.type, member.linkname = tarfile.SYMTYPE, node.content.decode()
            out.addfile(member)
        else:
            member.size = node.size
            archive.seek(node.content if isinstance(node.content, int) else 0)
            out.addfile(member, archive)


def _add_files(root: Inode, members: list[PackageMember], shown: str) -> None:
    own: dict[str, Inode] = {}
    for member in members:
        name = _MERGED.sub(r"usr/\1", member.name)
        if not name or f"{name}/".startswith(_LEFT_OUT):
            continue
        if stat.S_ISLNK(member.mode) and _MERGED.fullmatch(member.name):
            continue  # the link itself, as base-files has it
        if member.is_hard_link:
            other = _MERGED.sub(r"usr/\1", member.target)
            if other not in own or not stat.S_ISREG(own[other].mode):
                _refuse(shown, f"the hard link {member.name} in it is of no file before it")
            node = Inode(own[other].mode, own[other].uid, own[other].gid, own[other].size, own[other].content)
        else:
            node = _node(member)
        _require_folders(root, name, shown)
        here = root.find(name)
        if here is not None and here.is_dir != node.is_dir:
            _refuse(shown, f"{member.name} in it is a folder in one place and none in another")
        if here is None or not here.is_dir:
            root.add(name, node)
            own[name] = node


def _node(member: PackageMember) -> Inode:
    if stat.S_ISLNK(member.mode):
        target = member.target.encode()
        return Inode(member.mode, member.uid, member.gid, len(target), target)
    return Inode(member.mode, member.uid, member.gid, member.size, member.place if member.size else b"")


def _require_folders(root: Inode, name: str, shown: str) -> None:
    """Refuse a file below what is no folder: a link would lead it elsewhere."""
    place: Inode | None = root
    *folders, _ = name.split("/")
    for depth, folder in enumerate(folders, start=1):
        place = place.entries.get(folder) if place is not None else None
        if place is not None and not place.is_dir:
            _refuse(shown, f"{name} in it goes through {'/'.join(folders[:depth])}, which is a link or a file")


def _add_control(
    root: Inode, archive: IO[bytes], control: Mapping[str, bytes], members: list[PackageMember], shown: str
) -> bytes:
    """Add what dpkg keeps of a package; return its description as an unpacked package has it in dpkg's status."""
    text = control.get("control", b"")
    fields = {name.lower(): value.strip() for name, value in _FIELD.findall(text)}
    name, arch = (fields.get(field, b"").decode("ascii", "replace") for field in (b"package", b"architecture"))
    if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name) or arch not in ("amd64", "all"):
        _refuse(shown, f"it is called {name!a} and is for {arch!a}; the lab takes packages for amd64 and all")
    of = f"{name}:{arch}" if fields.get(b"multi-arch") == b"same" else name
    for script in _SCRIPTS:
        if script in control:
            mode = 0o644 if script in ("templates", "triggers", "conffiles") else 0o755
            _put(root, archive, f"{_INFO}/{of}.{script}", control[script], mode)
    listing = "".join(f"/{member.name}\n" if member.name else "/.\n" for member in members)
    _put(root, archive, f"{_INFO}/{of}.list", listing.encode())
    lines = [line for line in text.splitlines() if line.strip() and not line.lower().startswith(b"status:")]
    return b"\n".join([lines[0], b"Status: install ok unpacked", *lines[1:], b""])


def _put(root: Inode, archive: IO[bytes], name: str, content: bytes, mode: int = 0o644) -> None:
    place = archive.seek(0, 2)
    archive.write(content)
    root.add(name, Inode(stat.S_IFREG | mode, 0, 0, len(content), place if content else b""))


def _refuse(shown: str, why: str) -> NoReturn:
    raise PackageError(f"the Debian package {shown} is not used: {why}")
