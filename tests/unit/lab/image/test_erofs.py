"""The writer of read-only file systems, read back here by the offsets of the format; the lab mounts what it writes."""

from __future__ import annotations

import io
import stat
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.lab.host import prerequisites
from testbed.lab.image import erofs
from testbed.lab.image.erofs import ArchiveError, Inode

TIME = 1_735_689_600


def written(root: Inode, archive: bytes = b"") -> bytes:
    out = io.BytesIO()
    erofs.write(root, io.BytesIO(archive), out, TIME)
    return out.getvalue()


def directory(**entries: Inode) -> Inode:
    return Inode(stat.S_IFDIR | 0o755, entries=entries)


def file(content_at: int, size: int, mode: int = 0o644) -> Inode:
    return Inode(stat.S_IFREG | mode, size=size, content=content_at if size else b"")


class Reader:
    """A reader that finds files as the kernel does."""

    def __init__(self, disk: bytes) -> None:
        self.disk = disk
        magic, _, _, bits, _, self.root, self.inodes, epoch, _, blocks, self.table = struct.unpack_from(
            "<IIIBBHQQIII", disk, 1024
        )
        assert (magic, 1 << bits, epoch, blocks * 4096) == (0xE0F5E1E2, 4096, TIME, len(disk))

    def inode(self, number: int) -> tuple[int, int, bytes, int, int]:
        form, _, mode, links, size, _, block, _, uid, gid, _ = struct.unpack_from(
            "<HHHHIIIIHHI", self.disk, self.table * 4096 + 32 * number
        )
        assert form == 0
        return mode, links, self.disk[block * 4096 : block * 4096 + size], uid, gid

    def names(self, number: int) -> dict[bytes, int]:
        """The entries of a directory, which must be sorted within each block and from block to block."""
        content = self.inode(number)[2]
        found: list[tuple[bytes, int]] = []
        for start in range(0, len(content), 4096):
            block = content[start : start + 4096]
            count = struct.unpack_from("<QHBB", block)[1] // 12
            heads = [struct.unpack_from("<QHBB", block, 12 * index) for index in range(count)]
            ends = [head[1] for head in heads[1:]] + [len(block.rstrip(b"\0"))]
            for (inode, at, kind, _), end in zip(heads, ends, strict=True):
                assert kind == {stat.S_IFREG: 1, stat.S_IFDIR: 2, stat.S_IFLNK: 7}[stat.S_IFMT(self.inode(inode)[0])]
                found.append((block[at:end], inode))
        assert found == sorted(found)
        return dict(found)

    def tree(self, number: int | None = None) -> dict[str, bytes]:
        """The content of every file and link."""
        files: dict[str, bytes] = {}
        number = self.root if number is None else number
        for name, inode in self.names(number).items():
            mode, _, content, _, _ = self.inode(inode)
            if name in (b".", b".."):
                continue
            if stat.S_ISDIR(mode):
                assert self.names(inode)[b".."] == number
                assert self.names(inode)[b"."] == inode
                files |= {f"{name.decode()}/{below}": data for below, data in self.tree(inode).items()}
            else:
                files[name.decode()] = content
        return files


def test_files_links_and_directories_are_found_with_their_modes_and_owners() -> None:
    link = Inode(stat.S_IFLNK | 0o777, size=6, content=b"target")
    owned = Inode(stat.S_IFREG | 0o4755, 7, 8, 5, 3)
    reader = Reader(
        written(directory(deep=directory(er=directory(file=owned)), link=link, empty=file(0, 0)), b"012hello")
    )
    assert reader.tree() == {"deep/er/file": b"hello", "link": b"target", "empty": b""}
    deep = reader.names(reader.root)[b"deep"]
    inode = reader.names(reader.names(deep)[b"er"])[b"file"]
    assert reader.inode(inode) == (stat.S_IFREG | 0o4755, 1, b"hello", 7, 8)
    assert reader.inode(reader.root)[:2] == (stat.S_IFDIR | 0o755, 3)  # ".", ".." and the ".." of `deep`


def test_a_directory_of_many_blocks_is_sorted_throughout() -> None:
    names = [f"{'long' * (number % 50)}{number}" for number in range(2000)]
    reader = Reader(written(directory(**{name: file(0, 1) for name in names}), b"x"))
    assert reader.tree() == dict.fromkeys(names, b"x")


@given(st.dictionaries(st.text("ab/\u00e9", min_size=1, max_size=12), st.binary(max_size=9000), max_size=30))
def test_any_tree_comes_back_as_it_was(files: dict[str, bytes]) -> None:
    paths = {name: data for name, data in files.items() if all(name.split("/"))}
    paths = {name: data for name, data in paths.items() if not any(other.startswith(f"{name}/") for other in paths)}
    root, archive = directory(), b""
    for name, data in paths.items():
        root.add(name, file(len(archive), len(data)))
        archive += data
    assert Reader(written(root, archive)).tree() == paths


def test_the_order_of_the_archive_does_not_matter() -> None:
    forth, back = directory(), directory()
    for name in ("b", "a/c", "a/b", "c"):
        forth.add(name, file(0, 1))
    for name in ("c", "a/b", "a/c", "b"):
        back.add(name, file(0, 1))
    assert written(forth, b"x") == written(back, b"x")


def test_a_tar_is_read_without_the_owners_and_times_of_who_made_it(tmp_path: Path) -> None:
    (tmp_path / "in" / "below").mkdir(parents=True)
    (tmp_path / "in" / "below" / "file").write_bytes(b"content")
    with tarfile.open(tmp_path / "tar", "w") as archive:
        archive.add(tmp_path / "in", "in")
    content = (tmp_path / "tar").read_bytes()
    reader = Reader(written(erofs.read_tar(io.BytesIO(content)), content))
    assert reader.tree() == {"in/below/file": b"content"}
    assert reader.inode(reader.names(reader.root)[b"in"])[3:] == (0, 0)


def test_what_is_no_cpio_archive_is_refused() -> None:
    with pytest.raises(ArchiveError, match="build the image anew"):
        erofs.read_cpio(io.BytesIO(b"070702" + bytes(200)))
    with pytest.raises(ArchiveError):
        erofs.read_cpio(io.BytesIO(b""))


@pytest.mark.skipif(prerequisites.find_program("fsck.erofs") is None, reason="erofs-utils is not here")
def test_the_formats_own_checker_finds_nothing(tmp_path: Path) -> None:
    names = {f"file{number}": file(0, 3) for number in range(1000)}
    (tmp_path / "disk").write_bytes(written(directory(below=directory(**names)), b"abc"))
    done = subprocess.run(["fsck.erofs", str(tmp_path / "disk")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
