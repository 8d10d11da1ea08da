"""Debian packages as a tree of files, and those that strangers made to leave it: these are refused by one message."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.lab.image import deb_archive, deb_tree, erofs
from testbed.lab.image.deb_archive import PackageError
from testbed.lab.image.erofs import Inode, Joined
from testbed.lab.job import debian
from tests.unit.lab.image.deb_files import ar, deb, member, tar, written

TIME = 1_735_689_600
FOLDER = (member("./usr/bin", tarfile.DIRTYPE, mode=0o755), b"")
PROGRAM = (member("./usr/bin/one", mode=0o755), b"a program")


def tree_of(tmp_path: Path, *contents: bytes) -> tuple[Inode, io.BytesIO]:
    archive = io.BytesIO()
    packages = {f"one {number}": written(tmp_path, c, f"{number}.deb") for number, c in enumerate(contents)}
    return deb_tree.unpacked(packages, archive), archive


def refusal(tmp_path: Path, content: bytes) -> str:
    """Return the message; nothing but the package itself is in its folder after it."""
    before = {tmp_path / "0.deb", *tmp_path.rglob("*")}
    with pytest.raises(PackageError) as caught:
        tree_of(tmp_path, content)
    assert set(tmp_path.rglob("*")) <= before
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix("the Debian package one 0 is not used: ")


def read(tree: Inode, archive: io.BytesIO, name: str) -> bytes:
    node = tree.find(name)
    assert node is not None and isinstance(node.content, int)
    archive.seek(node.content)
    return archive.read(node.size)


def test_files_folders_and_links_are_there_with_their_modes(tmp_path: Path) -> None:
    tree, archive = tree_of(
        tmp_path,
        deb(
            FOLDER,
            PROGRAM,
            (member("./usr/bin/two", tarfile.LNKTYPE, "./usr/bin/one"), b""),
            (member("./usr/bin/three", tarfile.SYMTYPE, "../lib/three"), b""),
            (member("./etc/alternatives/one", tarfile.SYMTYPE, "/usr/bin/one"), b""),
            (member("./usr/bin/as-root", mode=0o4755), b"x"),
            (member("./etc/empty"), b""),
        ),
    )
    assert read(tree, archive, "usr/bin/one") == read(tree, archive, "usr/bin/two") == b"a program"
    for name, mode in (
        ("usr/bin/one", 0o100755),
        ("usr/bin/three", 0o120777),
        ("usr/bin/as-root", 0o104755),
        ("usr/bin", 0o40755),
    ):
        node = tree.find(name)
        assert node is not None and node.mode == mode
        assert (node.uid, node.gid) == (0, 0)  # those of the machine that built it are nobody's in the lab
    for name, target in (("usr/bin/three", b"../lib/three"), ("etc/alternatives/one", b"/usr/bin/one")):
        node = tree.find(name)
        assert node is not None and node.content == target


def test_what_dpkg_keeps_of_a_package_is_there_and_manuals_are_not(tmp_path: Path) -> None:
    content = deb(
        PROGRAM,
        (member("./usr/share/doc/one/README"), b"much"),
        (member("./usr/share/man/man1/one.1"), b"much"),
        scripts={"postinst": b"#!/bin/sh\n", "md5sums": b"none"},
    )
    tree, archive = tree_of(tmp_path, content)
    assert tree.find("usr/share") is None
    assert read(tree, archive, "var/lib/dpkg/info/one.list") == (
        b"/usr/bin/one\n/usr/share/doc/one/README\n/usr/share/man/man1/one.1\n"
    )
    assert read(tree, archive, "var/lib/dpkg/info/one.postinst") == b"#!/bin/sh\n"
    assert tree.find("var/lib/dpkg/info/one.md5sums") is None
    assert read(tree, archive, deb_tree.UNPACKED).startswith(
        b"Package: one\nStatus: install ok unpacked\nVersion: 1.0\nArchitecture: amd64\nDescription: a thing\n more"
    )


def test_folders_of_the_image_that_are_links_are_not_hidden(tmp_path: Path) -> None:
    tree, archive = tree_of(
        tmp_path, deb((member("./lib/a.so"), b"a"), (member("./lib", tarfile.SYMTYPE, "usr/lib"), b""))
    )
    assert tree.find("lib") is None
    assert read(tree, archive, "usr/lib/a.so") == b"a"


def test_a_package_of_several_architectures_is_named_with_its_own(tmp_path: Path) -> None:
    tree, _ = tree_of(tmp_path, deb(control="Package: one\nVersion: 1\nArchitecture: amd64\nMulti-Arch: same\n"))
    assert tree.find("var/lib/dpkg/info/one:amd64.list") is not None


@pytest.mark.parametrize(
    ("suffix", "packed"), [("xz", lzma.compress), ("gz", gzip.compress), ("bz2", bz2.compress), ("", bytes)]
)
def test_each_compression_of_packages_is_read(suffix: str, packed: Callable[[bytes], bytes], tmp_path: Path) -> None:
    content = deb(PROGRAM, suffix=suffix, packed=packed).replace(b"data.tar. ", b"data.tar  ")
    tree, archive = tree_of(tmp_path, content)
    assert read(tree, archive, "usr/bin/one") == b"a program"


@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs zstd")
def test_zstd_is_read_by_its_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def packed(data: bytes) -> bytes:
        return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout

    content = deb(PROGRAM, suffix="zst", packed=packed)
    tree, archive = tree_of(tmp_path, content)
    assert read(tree, archive, "usr/bin/one") == b"a program"
    monkeypatch.setattr("testbed.lab.host.prerequisites.find_program", lambda _: None)
    assert refusal(tmp_path, content).endswith("which this machine lacks: apt-get install zstd")


@pytest.mark.parametrize(
    ("hostile", "said"),
    [
        (member("../../etc/cron.d/evil"), "the name ../../etc/cron.d/evil in it leads out of the disk"),
        (member("./usr/../../evil"), "the name ./usr/../../evil in it leads out of the disk"),
        (member("/etc/passwd"), "the name /etc/passwd in it leads out of the disk"),
        (member("./usr//bin"), "the name ./usr//bin in it is no path that a package has"),
        (member("./" + "n" * 256), "is too long for a file system"),
        (member("./a\udcff"), "the name ./a\\udcff in it is not in UTF-8"),
        (member("./up", tarfile.SYMTYPE, "../../../etc/passwd"), "the link up in it leads out of the disk"),
        (member("./usr/up", tarfile.SYMTYPE, "/../etc"), "the link usr/up in it leads out of the disk"),
        (member("./nowhere", tarfile.SYMTYPE, ""), "the link nowhere in it has no target"),
        (member("./hard", tarfile.LNKTYPE, "/etc/shadow"), "the hard link /etc/shadow in it leads out of the disk"),
        (member("./hard", tarfile.LNKTYPE, "../x"), "the hard link ../x in it leads out of the disk"),
        (member("./hard", tarfile.LNKTYPE, "./usr/none"), "the hard link hard in it is of no file before it"),
        (member("./sda", tarfile.BLKTYPE), "./sda in it is a device, which no disk of packages has"),
        (member("./mem", tarfile.CHRTYPE), "./mem in it is a device, which no disk of packages has"),
        (member("./pipe", tarfile.FIFOTYPE), "./pipe in it is a pipe, which no disk of packages has"),
        (member("./sparse", tarfile.GNUTYPE_SPARSE), "./sparse in it is of the unknown type b'S'"),
    ],
)
def test_what_would_reach_out_of_the_disk_is_refused(hostile: tarfile.TarInfo, said: str, tmp_path: Path) -> None:
    assert said in refusal(tmp_path, deb(FOLDER, PROGRAM, (hostile, b"")))


def test_a_file_does_not_go_through_a_link_of_the_same_or_another_package(tmp_path: Path) -> None:
    link, below = (member("./opt/x", tarfile.SYMTYPE, "/etc"), b""), (member("./opt/x/passwd"), b"root::0:0")
    assert refusal(tmp_path, deb(link, below)) == ("opt/x/passwd in it goes through opt/x, which is a link or a file")
    with pytest.raises(PackageError, match="goes through opt/x"):
        tree_of(tmp_path, deb(link), deb(below))
    folder = (member("./opt/x", tarfile.DIRTYPE), b"")
    assert refusal(tmp_path, deb(folder, link)).endswith("is a folder in one place and none in another")


def test_no_package_is_larger_than_it_says_or_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = bytearray(tar(PROGRAM))
    huge = member("./usr/bin/one")
    huge.size = 1 << 40
    claims[:512] = huge.tobuf(tarfile.GNU_FORMAT)
    assert "claims 1099511627776 octets, more than there are" in refusal(tmp_path, deb(data=bytes(claims)))
    header = member("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    header.size = 1 << 20
    long = header.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20) + tar(PROGRAM)
    assert refusal(tmp_path, deb(data=long)) == "a header in it claims 1048576 octets"
    monkeypatch.setattr(deb_archive, "LARGEST_DATA", 1 << 20)
    bomb = deb(data=bytes(8 << 20))
    assert len(bomb) < 10_000
    assert refusal(tmp_path, bomb) == "its data.tar has more than 1 MB, and no package has so much"
    monkeypatch.setattr(deb_archive, "_MOST_MEMBERS", 1)
    assert refusal(tmp_path, deb(FOLDER, PROGRAM)) == "it has more than 1 files"


@pytest.mark.parametrize("kind", [tarfile.BLKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.REGTYPE])
@pytest.mark.parametrize("size", [0, 512])
def test_a_header_that_extends_another_one_hides_nothing(size: int, kind: bytes, tmp_path: Path) -> None:
    """By its own header the file has 1024 octets; by the one before it so few that a header follows in them."""
    hidden = member("./sda", kind).tobuf(tarfile.USTAR_FORMAT)
    one = member("./plain")
    one.size = 1024
    record = b"%d size=%d\n" % (len(b"NN size=%d\n" % size), size)
    extension = member("./plain", tarfile.XHDTYPE)
    extension.size = len(record)
    data = extension.tobuf(tarfile.USTAR_FORMAT) + record + bytes(512 - len(record))
    data += one.tobuf(tarfile.USTAR_FORMAT) + hidden * 2 + bytes(1024)
    assert refusal(tmp_path, deb(data=data)) == "a header in it has others elsewhere than they are"


def test_a_header_that_extends_another_one_cannot_make_it_larger(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        one = member("./usr/bin/one")
        one.pax_headers = {"size": str(1 << 40)}
        archive.addfile(one)
    assert "octets, more than there are" in refusal(tmp_path, deb(data=out.getvalue()))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is no Debian package"),
        (b"PK\x03\x04", "it is no Debian package"),
        (ar(control_tar_xz=b""), "it has not one data.tar, as each package has"),
        (ar(control_tar_xz=b"", data_tar_xz=b"", data_tar_gz=b""), "it has not one data.tar, as each package has"),
        (ar(control_tar_lz4=b"", data_tar_xz=b""), "is compressed in a way that Xoff does not know"),
        (ar(control_tar_xz=b"none of it is packed", data_tar_xz=b""), "its control.tar.xz cannot be decompressed"),
        (deb(PROGRAM)[:-100], "it ends too early"),
        (deb(PROGRAM) + b"more", "its archive is damaged"),
        (deb(data=b"x" * 512), "a tar in it is damaged"),
        (deb(PROGRAM, control="Package: ../one\nArchitecture: all\n"), "it is called '../one'"),
        (deb(PROGRAM, control="Package: one\nArchitecture: arm64\n"), "it is called 'one' and is for 'arm64'"),
        (deb(PROGRAM, packed=lambda data: lzma.compress(data)[:-40]), "its data.tar.xz ends too early"),
    ],
)
def test_damage_is_named(content: bytes, said: str, tmp_path: Path) -> None:
    assert said in refusal(tmp_path, content)


def test_two_disks_of_the_same_packages_are_the_same_bytes_and_have_no_times(tmp_path: Path) -> None:
    disks = []
    for _ in range(2):
        tree, archive = tree_of(tmp_path, deb(FOLDER, PROGRAM), deb((member("./etc/two"), b"2"), control=TWO))
        out = io.BytesIO()
        erofs.write(tree, archive, out, TIME)
        disks.append(out.getvalue())
    assert disks[0] == disks[1]
    back = erofs.read(io.BytesIO(disks[0]))
    node = back.find("etc/two")
    assert node is not None and isinstance(node.content, int)
    assert disks[0][node.content : node.content + node.size] == b"2"
    assert stat.S_IMODE(node.mode) == 0o644


TWO = "Package: two\nVersion: 1.0\nArchitecture: all\n"


def test_a_disk_is_read_back_as_it_was_written_and_joined_with_another() -> None:
    names = [f"a-rather-long-name-of-a-file-{number:04}" for number in range(300)]  # several blocks of a folder
    tree = Inode(stat.S_IFDIR | 0o755)
    for number, name in enumerate(names):
        tree.add(f"etc/{name}", Inode(stat.S_IFREG | 0o600, 1, 2, 4, 4 * number))
    tree.add("etc/link", Inode(stat.S_IFLNK | 0o777, 0, 0, 4, b"/usr"))
    tree.add("gone", Inode(erofs.REMOVED))
    first = io.BytesIO()
    erofs.write(tree, io.BytesIO(b"".join(b"%04d" % number for number in range(300))), first, TIME)
    back = erofs.read(first)
    etc = back.find("etc")
    assert etc is not None and sorted(etc.entries) == sorted([*names, "link"])
    gone = back.find("gone")
    assert gone is not None and gone.mode == erofs.REMOVED
    other = Inode(stat.S_IFDIR | 0o755)
    other.add("etc/more", Inode(stat.S_IFREG | 0o644, 0, 0, 3, first.seek(0, 2)))
    deb_tree.merge(back, other)
    both = Joined(first, io.BytesIO(b"new"))
    assert both.behind == len(first.getvalue())
    out = io.BytesIO()
    erofs.write(back, both, out, TIME)
    again = erofs.read(out)
    for name, content in (("etc/more", b"new"), (f"etc/{names[299]}", b"0299")):
        node = again.find(name)
        assert node is not None and isinstance(node.content, int)
        assert out.getvalue()[node.content : node.content + node.size] == content


def test_a_virtual_machine_gets_the_same_tree_and_moves_it_into_its_root(tmp_path: Path) -> None:
    content = deb(
        FOLDER,
        PROGRAM,
        (member("./etc/one.conf"), b"new"),
        (member("./etc/link", tarfile.SYMTYPE, "/usr/bin/one"), b""),
        (member("./var/lib/one", tarfile.DIRTYPE, mode=0o750), b""),
    )
    archive, package = io.BytesIO(), written(tmp_path, content, "0.deb")
    tree = deb_tree.all_unpacked({"": {"one 0": package}, "trixie": {"trixie:one 0": package}}, archive)
    for node in tree.entries.values():
        node.uid, node.gid = os.getuid(), os.getgid()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as out:
        deb_tree.add_to_tar(tree, archive, out, "debian")
    packed.seek(0)
    with tarfile.open(fileobj=packed) as archived:
        names = {one.name: (one.type, one.mode, one.linkname) for one in archived}
        archived.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)  # Debian 12's Python has none
        archived.extractall(tmp_path)
    assert names["debian/usr/bin/one"] == (tarfile.REGTYPE, 0o755, "")
    assert names["debian/etc/link"] == (tarfile.SYMTYPE, 0o777, "/usr/bin/one")
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/one.conf").write_text("old")
    (root / "etc/kept").write_text("of the image")
    (root / "usr/bin/one").mkdir(parents=True)  # a folder that a program replaces
    for path in sorted((tmp_path / "debian").iterdir()):
        debian._move(path, root / path.name)
    assert list((tmp_path / "debian").iterdir()) == []
    assert (root / "etc/one.conf").read_text() == "new"
    assert (root / "etc/kept").read_text() == "of the image"
    assert os.readlink(root / "etc/link") == "/usr/bin/one"  # noqa: PTH115
    assert (root / "usr/bin/one").read_bytes() == b"a program"
    assert stat.S_IMODE((root / "var/lib/one").stat().st_mode) == 0o750
    other = root / "opt/trixie"
    assert (other / "usr/bin/one").read_bytes() == b"a program"
    assert os.readlink(other / "lib64") == "usr/lib64"  # noqa: PTH115
    assert stat.S_IMODE((other / "proc").stat().st_mode) == 0o755
