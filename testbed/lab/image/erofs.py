"""Read-only file systems made of archives: EROFS, which Linux mounts as it is.

Nothing is compressed and every file begins on a block of its own, so the lab copies from pages that the host has in
memory already. The order of everything follows from the names, so the same archive gives the same bytes everywhere:
inode numbers and the order of directories are what a job in the lab sees. The format is in Linux's
`Documentation/filesystems/erofs.rst`; of it only plain, compact inodes are used.
"""

from __future__ import annotations

import stat
import struct
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Protocol

from testbed.errors import XoffError

_BLOCK = 4096
_MAGIC = 0xE0F5_E1E2
_CPIO_MAGIC = b"070701"
_CPIO_END = "TRAILER!!!"
_CPIO_FIELDS = 13
_INODE = struct.Struct("<HHHHIIIIHHI")
_ENTRY = struct.Struct("<QHBB")
_SUPERBLOCK = struct.Struct("<IIIBBHQQIIII16s16sIHHHBBIQ")
_SUPERBLOCK_AT = 1024
_SUPERBLOCK_SPACE = 128
_FIRST = 1
"""The number of the first inode, which is the root's."""
_FILE_TYPES = {stat.S_IFREG: 1, stat.S_IFDIR: 2, stat.S_IFCHR: 3, stat.S_IFLNK: 7}
REMOVED = stat.S_IFCHR
"""The mode of a node that hides one of a layer below, as overlayfs has it: a device of the numbers 0 and 0."""


class ArchiveError(XoffError):
    """The image's archive is not what an image has."""

    exit_code = 3


@dataclass
class Inode:
    """A file, a directory or a symbolic link, or a `REMOVED` one."""

    mode: int
    uid: int = 0
    gid: int = 0
    size: int = 0
    content: bytes | int = b""
    """The target of a link or the nodes of a directory; for a file, the place of its content in the archive."""
    number: int = 0
    block: int = 0
    entries: dict[str, Inode] = field(default_factory=dict)

    @property
    def is_dir(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def links(self) -> int:
        return 2 + sum(node.is_dir for node in self.entries.values()) if self.is_dir else 1

    def add(self, path: str, node: Inode) -> None:
        """Put `node` at `path` below this directory, and directories above it where there are none."""
        *folders, last = path.split("/")
        place = self
        for folder in folders:
            place = place.entries.setdefault(folder, _directory())
        if last in place.entries:  # made for what is in it
            node.entries = place.entries[last].entries
        place.entries[last] = node

    def find(self, path: str) -> Inode | None:
        """Return the node at `path` below this directory, or None."""
        place: Inode | None = self
        for name in path.split("/"):
            place = place.entries.get(name) if place is not None else None
        return place


class Archive(Protocol):
    """A file with the contents of nodes, each at its place."""

    def seek(self, place: int, /) -> int: ...
    def read(self, size: int, /) -> bytes: ...


class Joined:
    """Two archives, the second of which is behind the first, from the place `behind` on."""

    def __init__(self, first: IO[bytes], second: IO[bytes]) -> None:
        self._first, self._second = first, second
        self._chosen = first
        self.behind = first.seek(0, 2)

    def seek(self, place: int, /) -> int:
        self._chosen = self._second if place >= self.behind else self._first
        return self._chosen.seek(place - self.behind if place >= self.behind else place)

    def read(self, size: int, /) -> bytes:
        return self._chosen.read(size)


def write(root: Inode, archive: Archive, out: IO[bytes], time_s: int) -> None:
    """Write the file system with `root`, whose files are in `archive`, to `out`; everything in it is of `time_s`."""
    nodes = list(_with_parents(root, root))
    for number, (node, _) in enumerate(nodes, start=_FIRST):
        node.number = number
    next_block = 1 + _blocks((_FIRST + len(nodes)) * _INODE.size)
    for node, parent in nodes:
        if node.is_dir:
            node.content = _listing(node, parent)
            node.size = len(node.content)
        node.block = 0 if node.mode == REMOVED else next_block  # a device has its numbers there
        next_block += _blocks(node.size)
    out.write(_superblock(len(nodes), next_block, time_s))
    table = bytearray(_INODE.size * _FIRST)
    for node, _ in nodes:
        table += _INODE.pack(0, 0, node.mode, node.links, node.size, 0, node.block, node.number, node.uid, node.gid, 0)
    out.write(_padded(bytes(table)))
    for node, _ in nodes:
        if isinstance(node.content, bytes):
            out.write(_padded(node.content))
        else:
            archive.seek(node.content)
            out.write(_padded(archive.read(node.size)))


def read(disk: IO[bytes], base: int = 0) -> Inode:
    """Return the tree of a file system that `write` has written; `base` is added to the places of contents."""

    def node(number: int) -> Inode:
        disk.seek(_BLOCK + number * _INODE.size)
        _, _, mode, _, size, _, block, _, uid, gid, _ = _INODE.unpack(disk.read(_INODE.size))
        found = Inode(mode, uid, gid, size, base + block * _BLOCK if size else b"")
        if stat.S_ISLNK(mode):
            disk.seek(block * _BLOCK)
            found.content = disk.read(size)
        elif found.is_dir:
            disk.seek(block * _BLOCK)
            found.size, found.content, listing = 0, b"", disk.read(size)
            for at in range(0, size, _BLOCK):
                for name, child in _listed(listing[at : at + _BLOCK]):
                    if name not in (".", ".."):
                        found.entries[name] = node(child)
        return found

    disk.seek(_SUPERBLOCK_AT)
    magic = disk.read(4)
    if magic != _MAGIC.to_bytes(4, "little"):
        raise ArchiveError("a disk of the lab is not one that Xoff wrote; xoff image clean removes it")
    return node(_FIRST)


def _listed(block: bytes) -> Iterator[tuple[str, int]]:
    """Yield the names in a block of a directory with the numbers of their inodes."""
    count = _ENTRY.unpack_from(block)[1] // _ENTRY.size
    entries = [_ENTRY.unpack_from(block, _ENTRY.size * place) for place in range(count)]
    ends = [begin for _, begin, _, _ in entries[1:]] + [len(block)]
    for (number, begin, _, _), end in zip(entries, ends, strict=True):
        yield block[begin:end].rstrip(b"\0").decode(), number


def read_cpio(archive: IO[bytes]) -> Inode:
    """Return the tree of a cpio archive (`newc`) as the image's recipe writes it."""
    root = _directory()
    while True:
        header = archive.read(6 + 8 * _CPIO_FIELDS)
        if header[:6] != _CPIO_MAGIC:
            raise ArchiveError(
                "the image's root is not a cpio archive of the kind that Xoff makes; build the image anew"
            )
        fields = [int(header[6 + 8 * i : 14 + 8 * i], 16) for i in range(_CPIO_FIELDS)]
        _, mode, uid, gid, _, _, size, *_, name_size, _ = fields
        name = archive.read(name_size + -(len(header) + name_size) % 4)[: name_size - 1].decode()
        if name == _CPIO_END:
            return root
        begin = archive.tell()
        if name == ".":
            root.mode, root.uid, root.gid = mode, uid, gid
        elif stat.S_ISLNK(mode):
            root.add(name, Inode(mode, uid, gid, size, archive.read(size)))
        else:
            root.add(name, Inode(mode, uid, gid, size, begin if size else b""))
        archive.seek(begin + size + -size % 4)


def read_tar(archive: IO[bytes]) -> Inode:
    """Return the tree of an uncompressed tar with nothing but files and directories."""
    root = _directory()
    with tarfile.open(fileobj=archive, mode="r:") as members:
        for member in members:
            kind = stat.S_IFDIR if member.isdir() else stat.S_IFREG
            root.add(
                member.name, Inode(kind | member.mode, 0, 0, member.size, member.offset_data if member.size else b"")
            )
    return root


def _directory() -> Inode:
    return Inode(stat.S_IFDIR | 0o755)


def _with_parents(node: Inode, parent: Inode) -> Iterator[tuple[Inode, Inode]]:
    """Yield the nodes in the order in which they are written, each with the directory that it is in."""
    yield node, parent
    for _, child in sorted(node.entries.items()):
        yield from _with_parents(child, node)


def _listing(node: Inode, parent: Inode) -> bytes:
    """Return the blocks of a directory: in each, entries of a fixed size, and behind them their sorted names."""
    named = {b".": node, b"..": parent} | {name.encode(): child for name, child in node.entries.items()}
    blocks: list[bytes] = []
    batch: list[bytes] = []
    used = 0

    def flush() -> None:
        nonlocal used
        at = len(batch) * _ENTRY.size
        entries = b""
        for name in batch:
            child = named[name]
            entries += _ENTRY.pack(child.number, at, _FILE_TYPES[stat.S_IFMT(child.mode)], 0)
            at += len(name)
        blocks.append(entries + b"".join(batch))
        batch.clear()
        used = 0

    for name in sorted(named):
        if used + _ENTRY.size + len(name) > _BLOCK:
            flush()
        batch.append(name)
        used += _ENTRY.size + len(name)
    flush()
    return b"".join(_padded(block) for block in blocks[:-1]) + blocks[-1]


def _superblock(inodes: int, blocks: int, time_s: int) -> bytes:
    packed = _SUPERBLOCK.pack(
        _MAGIC, 0, 0, 12, 0, _FIRST, inodes, time_s, 0, blocks, 1, 0, bytes(16), b"xoff".ljust(16, b"\0"),
        0, 0, 0, 0, 0, 0, 0, 0,
    )  # fmt: skip
    return _padded(bytes(_SUPERBLOCK_AT) + packed.ljust(_SUPERBLOCK_SPACE, b"\0"))


def _blocks(size: int) -> int:
    return -(-size // _BLOCK)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _BLOCK)
