"""Files of the cache run as the user, so no other user may be able to change them."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.cli import bootstrap, main
from testbed.lab.host import cache, ownership
from testbed.lab.image import image, packages, wheels
from testbed.lab.studies.cluster import on_worker
from testbed.lab.um import disks, kernel
from testbed.lab.vm import snapshot
from tests.unit.lab.image.lab_files import lab, small_list

__all__ = ["lab", "small_list"]

OTHER, THIRD = 65534, 12345
THEIR_NAME = pwd.getpwuid(OTHER).pw_name
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users and be them")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other users can enter, which those of pytest are not."""
    path = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="test-ownership-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def as_user(user: int, do: Callable[[], object]) -> str:
    """Run `do` in a process of another user, and return its result as text, or its error with the message."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            said = str(do())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


# The rule


def weakness(path: Path) -> str:
    """The step and why, as one sentence."""
    found = ownership.weakness(path)
    return " ".join(map(str, found)) if found else ""


def _dir(path: Path, owner: int = 0, mode: int = 0o755, group: int = 0) -> Path:
    path.mkdir()
    os.chown(path, owner, group)
    path.chmod(mode)
    return path


@needs_root
def test_each_step_counts_with_its_owner_and_its_mode(place: Path) -> None:
    deep = place / "a" / "b" / "file"
    deep.parent.mkdir(parents=True)
    deep.touch()
    assert weakness(deep) == ""
    for step in (place, deep.parent.parent, deep.parent, deep):
        os.chown(step, OTHER, 0)
        assert weakness(deep) == f"{step} belongs to {THEIR_NAME} (user {OTHER})"
        os.chown(step, 0, 0)
        before = step.stat().st_mode
        step.chmod(0o757)
        assert weakness(deep) == f"{step} belongs to root (user 0), and everyone can write to it"
        os.chown(step, 0, OTHER)
        step.chmod(0o775)
        assert "and the group nogroup can write to it" in weakness(deep)
        os.chown(step, 0, 0)
        step.chmod(before)
        assert weakness(deep) == ""


@needs_root
def test_a_link_counts_as_the_way_that_it_leads(place: Path) -> None:
    mine, theirs = _dir(place / "mine"), _dir(place / "theirs", OTHER)
    (mine / "real").mkdir()
    (mine / "up").symlink_to("../mine/./real")
    assert weakness(mine / "up" / "file") == ""
    (mine / "out").symlink_to(theirs)
    assert weakness(mine / "out" / "file").startswith(f"{theirs} belongs to")
    (theirs / "back").symlink_to(mine / "real")
    assert weakness(theirs / "back").startswith(f"{theirs} belongs to")
    sticky = _dir(place / "sticky", mode=0o1777)
    (sticky / "link").symlink_to(mine / "real")
    assert weakness(sticky / "link") == ""
    os.lchown(sticky / "link", OTHER, 0)
    assert weakness(sticky / "link").startswith(f"{sticky / 'link'} belongs to")
    (mine / "round").symlink_to("round")
    assert weakness(mine / "round") == ""


def test_a_sticky_directory_is_allowed_above_and_not_as_the_cache(tmp_path: Path) -> None:
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    assert weakness(sticky / "cache") == ""
    assert "everyone can write to it" in weakness(sticky)


@needs_root
def test_a_group_of_the_user_alone_may_write_unless_a_list_admits_others(place: Path) -> None:
    """A umask of 002 is usual where each user has a group."""
    private = _dir(place / "private", mode=0o775)
    assert weakness(private) == ""
    if shutil.which("setfacl"):
        subprocess.run(["setfacl", "-m", f"u:{OTHER}:rwx", str(private)], check=True)
        assert "the group root can write to it" in weakness(private)


@needs_root
def test_a_user_may_use_what_root_has_made_and_not_what_a_third_has(place: Path) -> None:
    (place / "of root").mkdir()
    _dir(place / "own", THIRD)
    theirs = _dir(place / "theirs", OTHER)
    for name in ("of root", "own"):
        assert as_user(THIRD, lambda name=name: weakness(place / name)) == ""  # type: ignore[misc]
    assert as_user(THIRD, lambda: weakness(theirs)) == f"{theirs} belongs to {THEIR_NAME} (user {OTHER})"


@needs_root
def test_a_user_namespace_that_has_no_root_does_not_make_the_root_directory_anothers(place: Path) -> None:
    """There / belongs to no user that has a name; what is in the cache itself has to be the user's own all the same."""
    program = "from testbed.lab.host import ownership; from pathlib import Path; print(ownership.weakness(Path('{}')))"
    mine, theirs = _dir(place / "mine", THIRD), _dir(place / "theirs", OTHER)
    shutil.copytree(Path(ownership.__file__).parents[2], place / "code" / "testbed", ignore=lambda *_: ["assets"])
    for path, said in ((mine, "None"), (theirs, f"(PosixPath('{theirs}'), 'belongs to {THEIR_NAME} (user {OTHER})')")):
        done = subprocess.run(
            ["unshare", "--user", "--map-root-user", "/usr/bin/python3", "-c", program.format(path)],
            user=THIRD, group=THIRD, extra_groups=[], env={"PYTHONPATH": str(place / "code")}, cwd="/",
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if "unshare:" in done.stderr:
            pytest.skip(f"no user namespaces: {done.stderr}")
        assert (done.stdout.strip(), done.stderr) == (said, "")


# The cache


def _give_away(path: Path) -> None:
    os.chown(path, OTHER, OTHER)


def _open_up(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o002)


SPOIL = [pytest.param(_open_up, id="open"), pytest.param(_give_away, id="another's", marks=needs_root)]
READERS: dict[str, tuple[Callable[[], Path], Callable[[], object]]] = {
    "kernel": (lambda: kernel.place() / kernel.KERNEL, lambda: kernel.ensure(pytest.fail)),
    "folder of the kernel": (kernel.place, lambda: kernel.ensure(pytest.fail)),
    "image": (lambda: image.place() / image.MANIFEST, lambda: image.ensure(pytest.fail)),
    "image for um": (lambda: image.place() / image.MANIFEST, lambda: disks.image_of_root(pytest.fail)),
    "disk": (lambda: _disk() / disks.DISK, lambda: disks.root(_image(), pytest.fail)),
    "wheel": (lambda: next(wheels.place().iterdir()), wheels.current),
    "cache": (lambda: Path(os.environ["XOFF_CACHE"]), lambda: cache.folder("tmp")),
    "folder above": (lambda: Path(os.environ["XOFF_CACHE"]).parent, cache.root),
    "temporary folder": (lambda: cache.folder("tmp"), cache.sweep),
}


def _image() -> image.Image:
    found = image.described()
    assert found is not None
    return found


def _disk() -> Path:
    return disks.root(_image(), pytest.fail).parent


@pytest.mark.parametrize("spoil", SPOIL)
@pytest.mark.parametrize(("what", "read"), READERS.values(), ids=READERS)
def test_what_others_can_change_is_not_read(
    what: Callable[[], Path], read: Callable[[], object], spoil: Callable[[Path], None], lab: Path
) -> None:
    path = what()
    read()
    spoil(path)
    with pytest.raises(cache.CacheError) as caught:
        read()
    said = str(caught.value)
    assert said.startswith(f"{path} belongs to ")
    assert (f"{THEIR_NAME} (user {OTHER})" in said) is (spoil is _give_away)
    assert "What is in the cache runs as you, so no other user may be able to change it: " in said
    assert "set XOFF_CACHE to a folder of your own" in said
    assert (f"chmod -R go-w {path}" in said) is (spoil is _open_up)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("spoil", SPOIL)
def test_python_packages_that_others_can_change_are_not_taken(
    spoil: Callable[[Path], None], xoff_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(arguments: list[str], what: str) -> None:
        Path(arguments[arguments.index("--target") + 1]).mkdir()

    monkeypatch.setattr(packages, "_run", run)
    lock = tmp_path / "mine.lock"
    lock.write_text(f"one==1.0 --hash=sha256:{'0' * 64}\n")
    found = packages.ensure([str(lock)], cache.quiet)
    assert found is not None and found.path is not None
    spoil(found.path)
    with pytest.raises(cache.CacheError, match="no other user may be able to change it"):
        packages.ensure([str(lock)], cache.quiet)


@pytest.mark.parametrize("spoil", SPOIL)
def test_a_snapshot_that_others_can_change_is_not_whole(spoil: Callable[[Path], None], xoff_cache: Path) -> None:
    path = cache.folder("snapshot-0123")
    (path / "memory").touch()
    spoil(path / "memory")
    with pytest.raises(cache.CacheError, match="no other user may be able to change it"):
        snapshot._whole(path)


@needs_root
def test_two_users_with_one_cache_get_one_message_each(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = _dir(place / "shared", mode=0o1777)
    monkeypatch.setenv("XOFF_CACHE", str(shared))
    for user in (OTHER, THIRD):
        said = as_user(user, lambda: cache.folder("tmp"))
        assert said.startswith(f"CacheError: {shared} belongs to root (user 0), and everyone can write to it. ")
        assert said.endswith("set XOFF_CACHE to a folder of your own, as in XOFF_CACHE=~/.cache/xoff")
    monkeypatch.setenv("XOFF_CACHE", str(shared / "first"))  # in a sticky folder each can have one
    assert as_user(OTHER, lambda: cache.folder("tmp")) == str(shared / "first" / "tmp")
    assert as_user(THIRD, cache.root).startswith(f"CacheError: {shared / 'first'} belongs to ")
    assert list(shared.iterdir()) == [shared / "first"]


@needs_root
def test_the_command_line_prints_the_message_and_nothing_more(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _give_away(lab)
    for command in (["image", "info"], ["image", "clean", "--all"], ["run", "hello", "--engine", "um"]):
        assert main(command) == 3
        said = capsys.readouterr()
        assert said.out == ""
        assert " ".join(said.err.split()).startswith(f"xoff: {lab} belongs to {THEIR_NAME}")
        assert said.err.count("XOFF_CACHE to") == 1
    assert (kernel.KERNEL in {path.name for path in lab.rglob("*")}) is True  # `clean` has removed nothing


@pytest.mark.parametrize("spoil", SPOIL)
def test_the_front_door_does_not_execute_a_python_that_others_can_change(
    spoil: Callable[[Path], None], xoff_cache: Path, tmp_path: Path
) -> None:
    environment = bootstrap._place()
    (environment / "bin").mkdir(parents=True)
    (environment / ".ready-run").touch()
    python = environment / "bin" / "python"
    python.write_text("#!/bin/sh\necho executed\n")
    python.chmod(0o755)
    doctor = [sys.executable, str(Path(bootstrap.__file__).parents[2] / "xoff"), "doctor"]
    assert subprocess.run(doctor, capture_output=True, check=True).stdout == b"executed\n"
    spoil(environment)
    for further, code, said in (({}, 3, f"xoff: {environment} belongs to "), ({"_ARGCOMPLETE": "1"}, 3, "")):
        done = subprocess.run(doctor, env=os.environ | further, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr[: len(said)]) == (code, "", said)
        assert done.stderr.count("\n") == bool(said)


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o077])
def test_what_is_put_into_the_cache_can_be_used_whatever_the_umask_is(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        os.environ["XOFF_CACHE"] = str(tmp_path / "above" / "cache")
        with cache.owned("image", private=False) as work:
            (work / "deep").mkdir()
            (work / "deep" / "file").touch()
            (work / "link").symlink_to("/etc")
            cache.publish(work, cache.root() / "image-0123")
        assert cache.own(cache.root() / "image-0123" / "deep", "file").is_dir()
    finally:
        os.umask(before)
        del os.environ["XOFF_CACHE"]


def test_no_file_of_a_cache_decides_what_is_removed_elsewhere(
    xoff_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="xoff-precious-") as precious:
        (Path(precious) / "thesis").touch()
        left = xoff_cache / "tmp" / "evil"
        left.mkdir(parents=True)
        (left / ".owner").touch()
        (left / ".elsewhere").symlink_to(precious)
        assert cache.sweep() == [left]
        assert (Path(precious) / "thesis").exists()


def test_a_link_where_a_builder_had_its_folder_is_not_followed(xoff_cache: Path, tmp_path: Path) -> None:
    left = xoff_cache / "tmp" / "image-dead"
    left.mkdir(parents=True)
    (left / ".owner").touch()
    (tmp_path / "precious").mkdir()
    link = cache._elsewhere(left)
    link.symlink_to(tmp_path / "precious")
    try:
        cache.sweep()
        assert (tmp_path / "precious").is_dir()
    finally:
        link.unlink()


# A worker of a cluster, which has no Xoff


@pytest.mark.parametrize("spoil", SPOIL)
def test_a_worker_takes_nothing_from_a_folder_that_others_can_change(
    spoil: Callable[[Path], None], xoff_cache: Path
) -> None:
    folder = on_worker._folder()
    spoil(folder)
    with pytest.raises(on_worker.MachineError, match=f"{folder} .*set XOFF_CACHE of the worker to a folder of its own"):
        on_worker._folder()
