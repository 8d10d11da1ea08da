"""Compiled modules for the lab: the archive around them, and how the image's Python is looked for."""

from __future__ import annotations

import importlib.util
import io
import marshal
import shutil
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from testbed.lab.host import process_tree
from testbed.lab.image import bytecode, erofs
from testbed.lab.image.image import Image
from testbed.lab.image.recipe import ImageError

IMAGE = Image(Path("/image"), "key", "digest", "6.12.1", {}, {}, {})
TWO = b"def f(a):\n    return a + 1\n" * 40
SOURCES = {"code/one/__init__.py": b"", "code/one/two.py": TWO, "code/text": b"x" * 600}


def tar(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def contents(code: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(code)) as archive:
        return {member.name: (archive.extractfile(member) or io.BytesIO()).read() for member in archive}


@pytest.fixture
def python_of_this_machine(xoff_cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """This machine's Python in place of an image's, for the command that takes no namespaces; returns what is run."""
    told: list[list[str]] = []

    def run(argv: list[str], _: dict[str, str]) -> tuple[int, str]:
        told.append(argv)
        if "unshare" in argv:
            return 1, "unshare: unshare failed: Operation not permitted"
        options = argv[next(n for n, word in enumerate(argv) if word.endswith("python3.11")) + 1 :]
        # Its compiled modules go beside the sources, whatever the front door has set.
        done = subprocess.run(
            [shutil.which("python3") or "", *options], capture_output=True, text=True, check=False, env={}
        )
        return done.returncode, done.stdout + done.stderr

    monkeypatch.setattr(bytecode, "_unpack_python", lambda _, __, root: root.mkdir())
    monkeypatch.setattr(process_tree, "run", run)
    return told


def test_behind_the_code_are_its_modules_compiled_for_their_place_in_the_lab(
    python_of_this_machine: list[list[str]],
) -> None:
    found = contents(bytecode.with_bytecode(tar(SOURCES), IMAGE))
    assert list(found)[:3] == list(SOURCES)
    assert {name: found[name] for name in SOURCES} == SOURCES
    compiled = list(found)[3:]
    assert [name.split(".")[0] for name in compiled] == ["code/one/__pycache__/__init__", "code/one/__pycache__/two"]
    module = found[compiled[1]]
    assert module[4:8] == b"\1\0\0\0", "found valid by its hash, which nobody computes"
    assert module[8:16] == importlib.util.source_hash(SOURCES["code/one/two.py"])
    assert marshal.loads(module[16:]).co_filename == "/xoff/code/one/two.py"


def test_a_host_that_refuses_namespaces_compiles_without(python_of_this_machine: list[list[str]]) -> None:
    bytecode.with_bytecode(tar(SOURCES), IMAGE)
    assert ["unshare" in command for command in python_of_this_machine] == [True, False]
    assert all("PYTHONHASHSEED=0" in command for command in python_of_this_machine)


def test_a_module_with_an_error_is_left_out_and_the_others_are_compiled(
    python_of_this_machine: list[list[str]],
) -> None:
    found = contents(bytecode.with_bytecode(tar(SOURCES | {"code/broken.py": b"def f(:\n"}), IMAGE))
    assert not any("broken" in name for name in found if name.endswith(".pyc"))
    assert sum(name.endswith(".pyc") for name in found) == 2


def test_a_python_that_was_killed_gives_an_error_and_no_half_of_the_modules(
    python_of_this_machine: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = process_tree.run
    monkeypatch.setattr(process_tree, "run", lambda argv, more: (137, run(argv, more)[1]))
    with pytest.raises(ImageError, match=r"could not compile Xoff \(137\)"):
        bytecode.with_bytecode(tar(SOURCES), IMAGE)


def test_nothing_is_left_in_the_cache(python_of_this_machine: list[list[str]], xoff_cache: Path) -> None:
    bytecode.with_bytecode(tar(SOURCES), IMAGE)
    assert list((xoff_cache / "tmp").iterdir()) == []


def test_the_room_that_is_kept_is_enough_and_more_for_what_is_compiled(
    python_of_this_machine: list[list[str]],
) -> None:
    code = tar(SOURCES)
    assert len(code) < len(bytecode.with_bytecode(code, IMAGE)) <= bytecode.largest(code)


def test_links_in_the_image_lead_within_their_folder() -> None:
    root = erofs.Inode(stat.S_IFDIR | 0o755)
    root.add("usr/lib/libz.so.1", erofs.Inode(stat.S_IFLNK | 0o777, content=b"libz.so.1.2"))
    root.add("usr/lib/libz.so.1.2", erofs.Inode(stat.S_IFREG | 0o644, size=7, content=512))
    assert bytecode._resolved(root, "usr/lib/libz.so.1").content == 512
    with pytest.raises(ImageError, match=r"no file usr/lib/libm\.so\.6"):
        bytecode._resolved(root, "usr/lib/libm.so.6")
