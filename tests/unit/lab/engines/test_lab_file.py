"""Lab files: what is exported is there after an import, exports are the same bytes, and damage is found."""

from __future__ import annotations

import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.errors import UsageError
from testbed.lab.engines import lab_file
from testbed.lab.engines.table import ENGINES
from testbed.lab.host import cache
from testbed.lab.image import image, plain_tar, recipe, wheels
from testbed.lab.um import disks, kernel
from tests.unit.lab.image.lab_files import DISK, lab, sha256, small_list

ROOT = Path(__file__).parents[4]


def ignore(*_: object) -> None: ...


__all__ = ["lab", "small_list"]
pytestmark = pytest.mark.usefixtures("small_list")


def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str = "elsewhere") -> Path:
    """Let the cache be that of another machine, which builds nothing."""
    monkeypatch.setenv("XOFF_CACHE", str(tmp_path / name))
    for module in (image, kernel):
        monkeypatch.setattr(module, "build", lambda *_: pytest.fail("built"))
    monkeypatch.setattr(wheels, "_fetch", lambda *_: pytest.fail("fetched"))
    return tmp_path / name


@pytest.fixture
def file(lab: Path, tmp_path: Path) -> Path:
    lab_file.export(tmp_path / "lab.tar", lab_file.ENGINES, ignore, ignore)
    return tmp_path / "lab.tar"


def _content(folder: Path) -> dict[str, bytes]:
    """Return what an import leaves; locks are empty files."""
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock"
    }


def test_what_is_exported_is_there_after_the_import(
    file: Path, lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = _elsewhere(tmp_path, monkeypatch)
    assert not ENGINES["um"].is_built()
    assert not ENGINES["vm"].is_built()
    carried = lab_file.import_(file, ignore, ignore)
    assert (carried.engines, carried.image) == (("um", "vm"), image.ensure(pytest.fail).digest)
    assert ENGINES["um"].is_built()
    assert ENGINES["vm"].is_built()
    found = kernel.ensure(pytest.fail)
    assert found.file.stat().st_mode & 0o777 == 0o755
    disk = disks.root(disks.image_of_root(pytest.fail), pytest.fail)
    assert disk.read_bytes() == DISK
    stamp = f"{disk.parent.name}/seen.json"  # holds the time at which the disk was written
    assert _content(there) | {stamp: b""} == _content(lab) | {stamp: b""}
    assert list((there / "tmp").iterdir()) == []


def test_two_exports_are_the_same_bytes_and_so_is_that_of_an_import(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exports = [tmp_path / "again.tar", tmp_path / "elsewhere.tar"]
    monkeypatch.setattr(lab_file.os, "sched_getaffinity", lambda _: {0, 1, 2})  # type: ignore[attr-defined]
    lab_file.export(exports[0], lab_file.ENGINES, ignore, ignore)
    _elsewhere(tmp_path, monkeypatch)
    lab_file.import_(file, ignore, ignore)
    monkeypatch.setenv("XOFF_MIRROR", "http://elsewhere.example/debian")
    lab_file.import_(file, ignore, ignore)
    lab_file.export(exports[1], lab_file.ENGINES, ignore, ignore)
    assert [cache.sha256(path) for path in exports] == [cache.sha256(file)] * 2


def test_a_file_for_one_engine_has_no_more_and_is_enough(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for engine in lab_file.ENGINES:
        lab_file.export(tmp_path / f"{engine}.tar", [engine], ignore, ignore)
    first = _elsewhere(tmp_path, monkeypatch)
    lab_file.import_(tmp_path / "um.tar", ignore, ignore)
    assert ENGINES["um"].is_built()
    assert not ENGINES["vm"].is_built()
    assert not any(path.name == recipe.ROOT for path in first.rglob("*"))
    assert disks.root(disks.image_of_root(pytest.fail), pytest.fail).read_bytes() == DISK
    lab_file.import_(tmp_path / "vm.tar", ignore, ignore)
    assert ENGINES["vm"].is_built()
    _elsewhere(tmp_path, monkeypatch, "second")
    lab_file.import_(tmp_path / "vm.tar", ignore, ignore)
    assert ENGINES["vm"].is_built()
    assert not ENGINES["um"].is_built()


def test_a_whole_image_does_not_give_way_to_a_part_of_it(lab: Path, tmp_path: Path) -> None:
    lab_file.export(tmp_path / "um.tar", ["um"], ignore, ignore)
    lab_file.import_(tmp_path / "um.tar", ignore, ignore)
    assert image.current() is not None


def test_what_is_damaged_in_the_cache_is_mended(file: Path, lab: Path) -> None:
    for path in (image.place() / recipe.ROOT, kernel.place() / kernel.KERNEL, *lab.glob("um-root-*/disk")):
        path.write_bytes(b"")
    assert kernel.current() is None
    lab_file.import_(file, ignore, ignore)
    assert image.current() is not None
    assert kernel.current() is not None
    assert disks.root(disks.image_of_root(pytest.fail), pytest.fail).read_bytes() == DISK


def test_progress_goes_from_little_to_all(file: Path, lab: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    lab_file.import_(file, ignore, lambda done, total: told.append((done, total)))
    carried = lab_file.export(
        tmp_path / "again.tar", lab_file.ENGINES, ignore, lambda done, total: told.append((-done, total))
    )
    for way in ([done for done, _ in told if done > 0], [-done for done, _ in told if done < 0]):
        assert way == sorted(way)
        assert way[-1] == carried.size
    assert {total for _, total in told} == {carried.size}


# Files that are not as they were exported


def _refused(file: Path, there: Path) -> str:
    with pytest.raises(UsageError) as raised:
        lab_file.import_(file, ignore, ignore)
    assert _content(there) == {}
    assert not list(there.glob("*-*"))
    return str(raised.value)


def test_every_bit_of_the_content_counts(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = _elsewhere(tmp_path, monkeypatch)
    whole = file.read_bytes()
    with tarfile.open(file) as archive:
        places = [m.offset_data + at for m in archive for at in (0, m.size // 2, m.size - 1)]
    damaged = tmp_path / "damaged.tar"
    for place in places:
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        assert " is damaged: " in _refused(damaged, there), place


def test_a_file_that_ends_too_early_is_damaged_wherever_it_ends(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = _elsewhere(tmp_path, monkeypatch)
    whole = file.read_bytes()
    with tarfile.open(file) as archive:
        members = archive.getmembers()
    cut = tmp_path / "cut.tar"
    for end in sorted({m.offset + part for m in members[1:] for part in (0, 100, 512, 520)}):
        cut.write_bytes(whole[:end])
        assert "is damaged: " in _refused(cut, there)
        assert "copy the file again" in _refused(cut, there)


@pytest.mark.parametrize("content", [b"", b"x", b"\x1f\x8b rest", bytes(2000), b"x" * 100_000])
def test_another_file_is_named_as_one(content: bytes, tmp_path: Path, xoff_cache: Path) -> None:
    (tmp_path / "other").write_bytes(content)
    assert "other is not a lab file: `xoff image export FILE` writes one" in _refused(tmp_path / "other", xoff_cache)


def test_a_foreign_tar_is_no_lab_file(tmp_path: Path, xoff_cache: Path) -> None:
    with tarfile.open(tmp_path / "other.tar", "w") as archive:
        archive.add(__file__, "xoff/test.py")
    assert "is not a lab file" in _refused(tmp_path / "other.tar", xoff_cache)


def test_a_directory_and_a_file_that_is_not_there_cannot_be_read(tmp_path: Path, xoff_cache: Path) -> None:
    assert _refused(tmp_path / "none", xoff_cache) == f"{tmp_path / 'none'} cannot be read: No such file or directory"
    assert _refused(tmp_path, xoff_cache) == f"{tmp_path} cannot be read: Is a directory"


def _rewritten(file: Path, change: Callable[[dict[str, Any], dict[str, bytes]], object]) -> Path:
    """The file in the right form, with other content."""
    with tarfile.open(file) as archive:
        members = {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]
    content = json.loads(members.pop(lab_file._MANIFEST))
    del content["digest"]
    change(content, members)
    content["digest"] = lab_file._digest(content)
    made = file.with_name("rewritten.tar")
    with tarfile.open(made, "w") as archive:
        for name, data in ({lab_file._MANIFEST: lab_file._encoded(content)} | members).items():
            archive.addfile(plain_tar.member(name, len(data)), io.BytesIO(data))
    return made


CHANGES: dict[str, tuple[Callable[[dict[str, Any], dict[str, bytes]], object], str]] = {
    "format": (lambda c, _: c.update(format=9, xoff="7.0"), "was written by Xoff 7.0 in format 9, and this Xoff "),
    "image": (lambda c, _: c["keys"].update(image="0"), "another version of Xoff (0.1.0; this is 0.1.0), with ano"),
    "kernel": (lambda c, _: c["keys"].update(kernel="0"), "; export it with the version that is to"),
    "python": (lambda c, _: c["keys"].update(python="0", image="0"), " and another list of Python packages (0 and"),
    "no keys": (lambda c, _: c.update(keys={}), "is damaged: xoff-lab.json"),
    "engine": (lambda c, _: c.update(engines=["warp"]), "is damaged: xoff-lab.json"),
    "no engine": (lambda c, _: c.update(engines=[]), "is damaged: xoff-lab.json"),
    "engines of another kind": (lambda c, _: c.update(engines=3), "is damaged: xoff-lab.json"),
    "files of another kind": (lambda c, _: c.update(files=["disk/disk"]), "is damaged: xoff-lab.json"),
    "size": (lambda c, _: c["files"]["disk/disk"].update(size="1"), "is damaged: xoff-lab.json"),
    "a file too many": (lambda _, m: m.update({"image/more": b""}), "is damaged: image/more"),
    "one further up": (lambda _, m: m.update({"../escaped": b""}), "is damaged: ../escaped"),
    "one that is named": (
        lambda c, m: (m.update({"../up": b""}), c["files"].update({"../up": {"size": 0, "sha256": sha256(b"")}})),
        "is damaged: xoff-lab.json",
    ),
    "a file too few": (lambda _, m: m.pop("image/vmlinuz"), "is damaged: image/vmlinuz"),
    "not compressed": (lambda _, m: m.update({"disk/disk": lzma.decompress(m.pop("disk/disk.xz"))}), "damaged: d"),
    "more than is declared": (lambda _, m: m.update({"disk/disk.xz": lzma.compress(bytes(1 << 24))}), "damaged: disk/"),
    "no wheel": (
        lambda c, m: (
            m.update({"python/tiny-1.0-py3-none-any.whl": b"x"}),
            c["files"].update({"python/tiny-1.0-py3-none-any.whl": {"size": 1, "sha256": sha256(b"x")}}),
        ),
        "is damaged: python",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "message"), CHANGES.values(), ids=CHANGES)
def test_a_file_with_other_content_is_refused_with_the_reason(
    change: Callable[[dict[str, Any], dict[str, bytes]], object],
    message: str,
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = _elsewhere(tmp_path, monkeypatch)
    assert message in _refused(_rewritten(file, change), there)


def test_an_import_that_is_interrupted_leaves_nothing(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = _elsewhere(tmp_path, monkeypatch)

    def interrupt(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab_file.import_(file, ignore, interrupt)
    assert _content(there) == {}


def test_an_import_without_room_fails_before_it_begins(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = _elsewhere(tmp_path, monkeypatch)
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: type("", (), {"free": 1 << 20}))  # type: ignore[attr-defined]
    with pytest.raises(cache.DiskFullError, match=r"no room for what is in .*lab\.tar: .* has 1 MB free"):
        lab_file.import_(file, ignore, ignore)
    assert _content(there) == {}


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_export_that_fails_leaves_the_file_as_it_was(
    failure: BaseException, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (sorted(file.parent.iterdir()), file.read_bytes())

    def fail(*_: object) -> None:
        raise failure

    with pytest.raises((KeyboardInterrupt, cache.DiskFullError)):
        lab_file.export(file, lab_file.ENGINES, ignore, fail)
    assert (sorted(file.parent.iterdir()), file.read_bytes()) == before


def test_an_export_to_where_nothing_can_be_written_is_refused(lab: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written: No such file or directory"):
        lab_file.export(tmp_path / "none" / "lab.tar", lab_file.ENGINES, ignore, ignore)


# Python packages


def test_wheels_are_unpacked_where_python_finds_them(lab: Path, tmp_path: Path) -> None:
    wheels.unpack(wheels.current(), tmp_path / "site")
    assert (tmp_path / "site" / "tiny" / "__init__.py").read_text() == "size = 1\n"


def test_a_wheel_without_a_hash_of_the_list_does_not_count(lab: Path) -> None:
    (wheels.place() / "tiny-1.0-py3-none-any.whl").write_bytes(b"other")
    assert wheels.current() == []


def test_a_xoff_that_pip_installed_carries_no_packages_and_takes_a_lab_with_some(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "LOCK", tmp_path / "none.lock")
    lab_file.export(tmp_path / "without.tar", lab_file.ENGINES, ignore, ignore)
    with tarfile.open(tmp_path / "without.tar") as archive:
        assert not [name for name in archive.getnames() if name.startswith("python")]
    there = _elsewhere(tmp_path, monkeypatch)
    for name in ("lab.tar", "without.tar"):
        lab_file.import_(tmp_path / name, ignore, ignore)
    assert ENGINES["um"].is_built()
    assert not list(there.glob("python-*"))


# The command


def test_the_command_prints_what_it_did(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lab.tar"
    assert main(["image", "export", str(file)]) == 0
    told = capsys.readouterr()
    assert f"{file}: " in told.err
    assert cache.sha256(file) in told.err
    assert "100 %" in told.err
    there = _elsewhere(tmp_path, monkeypatch)
    assert main(["image", "import", str(file), "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["sha256"] == cache.sha256(file)
    assert there.is_dir()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export"], "the following arguments are required: FILE; see xoff image export --help"),
        (["import"], "the following arguments are required: FILE; see xoff image import --help"),
        (["info", "lab.tar"], "xoff image info does not take lab.tar"),
        (["import", "no-such-file"], "no-such-file cannot be read"),
    ],
)
def test_a_file_is_named_where_one_is_needed(
    arguments: list[str], message: str, xoff_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["image", *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_an_import_needs_the_standard_library_alone() -> None:
    """An import brings the packages that the rest of the command line imports."""
    absent = "; ".join(f"sys.modules[{name!r}] = None" for name in ("rich", "argcomplete", "pip"))
    program = f"import sys; {absent}; from testbed.cli import main; sys.exit(main(['image', 'import', 'no-such-file']))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (2, "xoff: no-such-file cannot be read: No such file or directory\n")
