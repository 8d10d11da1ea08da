"""The lab image without building one: the archive's format, keys and damage."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.lab.host import cache, prerequisites
from testbed.lab.image import image
from testbed.lab.image import recipe as how
from testbed.lab.image.image import Image

EMPTY_DIRS = {"dev", "proc", "sys", "run", "tmp", "var/log", "var/cache", "xoff", "root"}
DATE = 1735689600  # 2025-01-01


# The archive, read back by the kernel's own description of it (Documentation/driver-api/early-userspace/buffer-format)


class Member(NamedTuple):
    name: str
    mode: int
    content: bytes
    uid: int = 0
    gid: int = 0


def parsed(archive: bytes) -> Iterator[tuple[dict[str, int], str, bytes]]:
    """Return each member's header fields, name and content, up to the trailer, which must be the last."""
    fields = (
        "ino", "mode", "uid", "gid", "nlink", "mtime", "filesize", "maj", "min", "rmaj", "rmin", "namesize", "chksum",
    )  # fmt: skip
    position = 0

    def pad() -> int:
        end = (position + 3) // 4 * 4
        assert archive[position:end] == bytes(end - position)
        return end

    while True:
        assert position % 4 == 0
        assert archive[position : position + 6] == b"070701"
        digits = [archive[n : n + 8] for n in range(position + 6, position + 110, 8)]
        header = dict(zip(fields, (int(text, 16) for text in digits), strict=True))
        position += 110
        name = archive[position : position + header["namesize"]]
        position += header["namesize"]
        assert name.endswith(b"\0")
        position = pad()
        content = archive[position : position + header["filesize"]]
        assert len(content) == header["filesize"]
        position += len(content)
        position = pad()
        if name == b"TRAILER!!!\0":
            assert (position, content) == (len(archive), b"")
            return
        yield header, name[:-1].decode(), content


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> list[tuple[dict[str, int], Member]]:
    """Return the archive that is made of a tar's members."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    tar.seek(0)
    with tarfile.open(fileobj=tar) as archive:
        cpio = b"".join(how._cpio(archive, {m.name.removeprefix("./"): m for m in archive}))
    return [
        (header, Member(name, header["mode"], content, header["uid"], header["gid"]))
        for header, name, content in parsed(cpio)
    ]


def entry(name: str, kind: bytes = tarfile.REGTYPE, mode: int = 0o644, content: bytes = b"", **more: Any) -> Any:
    member = tarfile.TarInfo(f"./{name}")
    member.type, member.mode, member.mtime = kind, mode, 1_600_000_000
    for field, value in more.items():
        setattr(member, field, value)
    return member, content


def kept(*members: Any) -> list[Member]:
    """The members but for the empty directories that every image has."""
    return [member for _, member in packed(*members) if member not in empty_dirs()]


def empty_dirs() -> list[Member]:
    return [Member(name, 0o040755, b"") for name in sorted(EMPTY_DIRS)]


def test_every_image_has_the_directories_to_mount_on() -> None:
    assert [member for _, member in packed()] == empty_dirs()


def test_files_keep_name_mode_owner_and_content() -> None:
    assert kept(
        entry("init", mode=0o755, content=b"#!/usr/bin/python3\n"),
        entry("usr/bin/ping", mode=0o4755, content=b"\x7fELF", uid=1, gid=65534),
        entry("empty"),
    ) == [
        Member("empty", 0o100644, b""),
        Member("init", 0o100755, b"#!/usr/bin/python3\n"),
        Member("usr/bin/ping", 0o104755, b"\x7fELF", 1, 65534),
    ]


def test_directories_and_symbolic_links_stay_what_they_are() -> None:
    assert kept(
        entry("usr", tarfile.DIRTYPE, 0o755),
        entry("var/tmp", tarfile.DIRTYPE, 0o1777),
        entry("bin", tarfile.SYMTYPE, 0o777, linkname="usr/bin"),
    ) == [
        Member("bin", 0o120777, b"usr/bin"),
        Member("usr", 0o040755, b""),
        Member("var/tmp", 0o041777, b""),
    ]


def test_a_hard_link_becomes_a_copy() -> None:
    found = kept(
        entry("usr/bin/perl", mode=0o755, content=b"perl"),
        entry("usr/bin/perl5.36", tarfile.LNKTYPE, 0o755, linkname="./usr/bin/perl"),
    )
    assert found == [Member("usr/bin/perl", 0o100755, b"perl"), Member("usr/bin/perl5.36", 0o100755, b"perl")]


def test_an_empty_directory_that_the_root_has_keeps_its_own_mode() -> None:
    found = {member.name: member for _, member in packed(entry("root", tarfile.DIRTYPE, 0o700))}
    assert found["root"].mode == 0o040700
    assert set(found) == EMPTY_DIRS


def test_members_are_sorted_whatever_the_order_of_the_tar() -> None:
    members = [entry(name, content=name.encode()) for name in ("b", "a/c", "a.b", "a")]
    assert [member.name for member in kept(*members)] == ["a", "a.b", "a/c", "b"]
    assert packed(*members) == packed(*reversed(members))


def test_all_members_have_one_time_and_each_a_number_of_its_own() -> None:
    headers = [header for header, _ in packed(entry("a"), entry("b"), entry("usr", tarfile.DIRTYPE))]
    assert {header["mtime"] for header in headers} == {DATE}
    assert {header["nlink"] for header in headers} == {1}
    assert sorted(header["ino"] for header in headers) == list(range(1, len(headers) + 1))
    devices = ("maj", "min", "rmaj", "rmin", "chksum")
    assert {header[field] for header in headers for field in devices} == {0}


@pytest.mark.parametrize(
    "name",
    [
        "boot/vmlinuz-6.12", "dev/null", "etc/apt/sources.list", "proc/1", "run/lock", "tmp/x",
        "usr/share/doc/bash/copyright", "usr/share/man/man1/ls.1", "var/cache/ldconfig/aux-cache",
        "var/lib/apt/lists/x", "var/lib/dpkg/info/bash.list", "var/log/dpkg.log",
        "etc/machine-id", "etc/hostname", "etc/resolv.conf", "etc/shadow-", "etc/passwd-", "etc/group-", "etc/gshadow-",
        "sys/class", "usr/share/info/dir", "usr/share/locale/de/x.mo", "usr/share/lintian/overrides/x",
        "var/lib/systemd/random-seed", "etc/openvswitch/conf.db", "etc/openvswitch/system-id.conf",
    ],
)  # fmt: skip
def test_what_differs_between_builds_or_machines_is_left_out(name: str) -> None:
    assert kept(entry(name, content=b"x")) == []


@pytest.mark.parametrize("name", ["boot", "etc/apt", "usr/share/doc", "var/lib/apt", "var/lib/systemd"])
def test_a_directory_of_which_nothing_is_kept_is_left_out_itself(name: str) -> None:
    assert kept(entry(name, tarfile.DIRTYPE, 0o755)) == []


@pytest.mark.parametrize(
    "name",
    ["etc/shadow", "etc/passwd", "etc/hosts", "usr/share/docbook", "usr/share/locale.alias", "booted", "lib/dev/x",
     "home/me/tmp/x", "var/lib/dpkg/status", "var/logs", "runner", "etc/openvswitch/default.conf"],
)  # fmt: skip
def test_what_only_looks_like_it_stays(name: str) -> None:
    assert [member.name for member in kept(entry(name))] == [name]


def test_device_nodes_and_pipes_are_left_out() -> None:
    assert kept(entry("lib/null", tarfile.CHRTYPE), entry("lib/pipe", tarfile.FIFOTYPE)) == []


@given(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=40),
    st.binary(max_size=40),
    st.integers(0, 0o177777),
    st.integers(1, 2**32 - 1),
)
def test_any_name_and_content_can_be_read_back(name: str, content: bytes, mode: int, number: int) -> None:
    archive = b"".join([*how._entry(name, number, mode, content), *how._entry("TRAILER!!!", 0, 0, b"")])
    if name != "TRAILER!!!":
        ((header, found, octets),) = parsed(archive)
        assert (found, octets, header["mode"], header["ino"]) == (name, content, mode, number)


# The key: of everything that goes in


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Xoff's own inputs of the image, as copies that can be changed: the table, the pins and the guest's files."""
    guest = tmp_path / "guest"
    guest.mkdir()
    for name in how.GUEST_FILES:
        (guest / name).write_bytes((Path(str(how.GUEST)) / name).read_bytes())
    inputs = {
        "table": copy.deepcopy(prerequisites.table()),
        "pins": {"digest": "0", "debian": {"bash": "5.2"}},
        "guest": guest,
    }
    monkeypatch.setattr(prerequisites, "table", lambda: inputs["table"])
    monkeypatch.setattr(image, "reference", lambda: inputs["pins"])
    monkeypatch.setattr(how, "GUEST", guest)
    monkeypatch.delenv("XOFF_MIRROR", raising=False)
    return inputs


def changed(recipe: dict[str, Any], change: Callable[[dict[str, Any]], object]) -> bool:
    before = image.key()
    change(recipe)
    return image.key() != before


def append(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda r: (r["guest"] / name).write_text((r["guest"] / name).read_text() + "\n")


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["table"]["lab"].update(suite="trixie"),
        lambda r: r["table"]["lab"]["packages"].append({"name": "nano", "program": "nano", "why": "notes"}),
        lambda r: r["table"]["lab"]["packages"].pop(),
        lambda r: r["table"]["lab"]["scripts"]["packages"].pop(),
        lambda r: r["table"]["lab"]["kernel"].update(image="linux-image-6.1-cloud-amd64"),
        lambda r: r["table"]["lab"]["kernel"]["modules"].append({"name": "sch_fq", "why": "pacing"}),
        lambda r: r["table"]["lab"]["python"]["preload"].append("socket"),
        lambda r: r["pins"]["debian"].update(bash="5.3"),
        append("init.py"),
        append("ryu-manager"),
        append("controller"),
        append("python.lock"),
        append("sources.lock"),
        append("build.lock"),
    ],
    ids=[
        "suite", "package added", "package removed", "program of scripts removed", "kernel", "module", "preload",
        "pins", "init.py", "ryu-manager", "controller", "python.lock", "sources.lock", "build.lock",
    ],
)  # fmt: skip
def test_the_key_changes_with_every_input(change: Callable[[dict[str, Any]], object], recipe: dict[str, Any]) -> None:
    assert changed(recipe, change)


def test_the_key_changes_with_the_mirror(recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = "http://deb.example/debian"
    assert changed(recipe, lambda _: monkeypatch.setenv("XOFF_MIRROR", mirror))


@pytest.mark.parametrize(
    ("change", "matters"),
    [
        (("lab image", "LAB image"), True),
        (("import pathlib, sys", "import sys, pathlib"), True),
        (("import hashlib\n", "import hashlib\nimport math\n"), False),
        (("from testbed.errors import", "from testbed.elsewhere import"), False),
    ],
)
def test_the_key_changes_with_the_builder_itself_but_for_its_imports(
    change: tuple[str, str], matters: bool, recipe: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path(how.__file__).read_text()
    assert change[0] in text
    (tmp_path / "recipe.py").write_text(text.replace(*change))
    assert changed(recipe, lambda _: monkeypatch.setattr(how, "__file__", str(tmp_path / "recipe.py"))) is matters


@pytest.mark.parametrize(
    "change",
    [
        lambda r: None,
        lambda r: r["table"]["machine"]["qemu"].update(oldest="8.0"),
        lambda r: r["table"]["lab"]["packages"][0].update(why="a better reason"),
        lambda r: r["table"]["lab"]["kernel"].update(box="linux-image-amd64"),
    ],
    ids=["nothing", "QEMU", "a reason", "the box"],
)
def test_the_key_does_not_change_with_what_does_not_go_in(
    change: Callable[[dict[str, Any]], object], recipe: dict[str, Any]
) -> None:
    assert not changed(recipe, change)


def test_the_key_is_short_enough_for_a_file_name() -> None:
    assert re.fullmatch("[0-9a-f]{16}", image.key())


# An image in the cache


@pytest.fixture
def place(xoff_cache: Path) -> Path:
    """A whole image, though a small one."""
    path = xoff_cache / f"image-{image.key()}"
    path.mkdir(parents=True)
    (path / "vmlinuz").write_bytes(b"kernel")
    (path / "root.cpio.zst").write_bytes(b"root file system")
    files = {name: hashlib.sha256((path / name).read_bytes()).hexdigest() for name in ("vmlinuz", "root.cpio.zst")}
    manifest = {
        "digest": hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest(),
        "kernel": "6.12.1-cloud-amd64",
        "debian": {"bash": "5.2"},
        "python": {"scapy": "2.7.0"},
        "files": files,
    }
    (path / "manifest.json").write_text(json.dumps(manifest))
    return path


def edit(place: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((place / "manifest.json").read_text())
    change(manifest)
    (place / "manifest.json").write_text(json.dumps(manifest))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:3] + bytes([content[3] ^ 1]) + content[4:])


DAMAGE: dict[str, Callable[[Path], object]] = {
    "kernel flipped": lambda path: flip(path / "vmlinuz"),
    "root flipped": lambda path: flip(path / "root.cpio.zst"),
    "kernel truncated": lambda path: truncate(path / "vmlinuz"),
    "root truncated": lambda path: truncate(path / "root.cpio.zst"),
    "root empty": lambda path: (path / "root.cpio.zst").write_bytes(b""),
    "kernel missing": lambda path: (path / "vmlinuz").unlink(),
    "root missing": lambda path: (path / "root.cpio.zst").unlink(),
    "manifest missing": lambda path: (path / "manifest.json").unlink(),
    "manifest truncated": lambda path: truncate(path / "manifest.json"),
    "manifest empty": lambda path: (path / "manifest.json").write_bytes(b""),
    "manifest binary": lambda path: (path / "manifest.json").write_bytes(b"\xff\xfe"),
    "manifest of another kind": lambda path: (path / "manifest.json").write_text("[]"),
    "nothing in it": lambda path: [file.unlink() for file in path.iterdir()],
    "no digest": lambda path: edit(path, lambda m: m.pop("digest")),
    "no sums": lambda path: edit(path, lambda m: m.pop("files")),
    "sums of another kind": lambda path: edit(path, lambda m: m.update(files=[])),
    "a sum too few": lambda path: edit(path, lambda m: m["files"].pop("root.cpio.zst")),
    "another digest": lambda path: edit(path, lambda m: m.update(digest="0" * 64)),
    "a file in its place": lambda path: path.rename(path.with_name("moved")) and path.touch(),
}


def test_without_an_image_there_is_none(xoff_cache: Path) -> None:
    assert image.current() is None


def test_a_whole_image_is_read_back(place: Path) -> None:
    found = image.current()
    assert found is not None
    assert (found.path, found.key) == (place, image.key())
    assert (found.vmlinuz.read_bytes(), found.initrd.read_bytes()) == (b"kernel", b"root file system")
    assert (found.kernel, found.debian, found.python) == ("6.12.1-cloud-amd64", {"bash": "5.2"}, {"scapy": "2.7.0"})
    assert found.sizes == {"vmlinuz": 6, "root.cpio.zst": 16}
    assert found.digest == json.loads((place / "manifest.json").read_text())["digest"]


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_an_image_that_is_not_whole_does_not_count(damage: Callable[[Path], object], place: Path) -> None:
    damage(place)
    assert image.current() is None


def test_an_image_with_another_key_does_not_count(place: Path) -> None:
    place.rename(place.with_name("image-0123456789abcdef"))
    assert image.current() is None


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The builds that were begun; none is done."""
    begun: list[str] = []
    made = Image(Path("built"), "key", "digest", "kernel", {}, {}, {})
    monkeypatch.setattr(image, "build", lambda _: begun.append("build") or made)
    return begun


def test_a_whole_image_is_taken_and_nothing_said(place: Path, builds: list[str]) -> None:
    said: list[str] = []
    assert image.ensure(said.append) == image.current()
    assert (said, builds) == ([], [])


def test_an_image_that_is_taken_is_in_use(place: Path, builds: list[str]) -> None:
    os.utime(place, (1, 1))
    image.ensure(lambda _: None)
    cache.prune("image-*")
    assert image.current() is not None


def test_a_missing_image_is_built(xoff_cache: Path, builds: list[str]) -> None:
    assert image.ensure(lambda _: None).path == Path("built")
    assert builds == ["build"]


def test_an_image_that_another_xoff_built_while_we_waited_is_taken(
    place: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished = place.rename(place.with_name("unfinished"))

    @contextmanager
    def wait_for_the_other(*_: Any) -> Iterator[None]:
        unfinished.rename(place)
        yield

    monkeypatch.setattr(cache, "locked", wait_for_the_other)
    assert image.ensure(lambda _: None) == image.current()
    assert builds == []


def test_a_damaged_image_is_built_again_and_that_is_said_once(place: Path, builds: list[str]) -> None:
    said: list[str] = []
    truncate(place / "vmlinuz")
    assert image.ensure(said.append).path == Path("built")
    assert builds == ["build"]
    assert said == [f"the lab image in {place} is damaged; building it again"]


def test_cleaning_removes_images_and_snapshots_and_nothing_else(place: Path, xoff_cache: Path) -> None:
    snapshot = xoff_cache / "snapshot-0123"
    for path in (snapshot, xoff_cache / "python-0123", xoff_cache / "tmp" / "image-running"):
        path.mkdir(parents=True)
    assert image.clean() == [place, snapshot]
    assert sorted(path.name for path in xoff_cache.iterdir()) == ["python-0123", "tmp"]
    assert (xoff_cache / "tmp" / "image-running").is_dir()


# Differences from the reference


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    content = {"digest": "same", "debian": {"bash": "5.2", "tar": "1.34"}, "python": {"scapy": "2.7.0"}}
    monkeypatch.setattr(image, "reference", lambda: content)
    return content


def built(digest: str, debian: dict[str, str], python: dict[str, str]) -> Image:
    return Image(Path("image"), "key", digest, "6.12", debian, python, {})


def test_the_reference_image_does_not_differ(reference: dict[str, Any]) -> None:
    assert built("same", reference["debian"], reference["python"]).differences() == []


def test_every_version_that_differs_is_listed(reference: dict[str, Any]) -> None:
    other = built("other", {"bash": "5.3", "zstd": "1.5", "tar": "1.34"}, {})
    assert other.differences() == [
        "bash 5.3, reference 5.2",
        "zstd 1.5, reference not there",
        "scapy not there, reference 2.7.0",
    ]


def test_other_contents_with_the_same_versions_are_reported(reference: dict[str, Any]) -> None:
    assert built("other", reference["debian"], reference["python"]).differences() == [
        "same package versions, another recipe: `xoff image reference` makes it the reference"
    ]
    reference["recipe"] = image.recipe_digest()
    assert built("other", reference["debian"], reference["python"]).differences() == [
        "same package versions, other contents (reference same)"
    ]


def test_the_reference_image_was_made_by_the_recipe_that_comes_with_it() -> None:
    """If it was not, no image that anybody builds is the reference image."""
    assert image.reference()["recipe"] == image.recipe_digest(), (
        "run `./xoff image reference` and commit what it writes"
    )


def test_the_digest_of_the_reference_is_no_part_of_the_key(recipe: dict[str, Any]) -> None:
    assert not changed(recipe, lambda r: r["pins"].update(digest="1", um_kernel={"tools": {"gcc": "12"}}))


def test_the_reference_that_comes_with_xoff_can_be_read() -> None:
    pins = image.reference()
    assert re.fullmatch("[0-9a-f]{64}", pins["digest"])
    kernels = [name for name in pins["debian"] if name.startswith("linux-image-")]
    assert len(kernels) == 1
    assert pins["python"] == how.locked_versions()
