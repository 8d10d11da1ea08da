"""The cache: what it holds is whole, and nothing is left over."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.lab.host import cache, cores

WAIT_S = 20


def abandoned(parent: Path, name: str = "image-dead") -> Path:
    """A temporary directory as a builder leaves it that was killed."""
    path = parent / name
    (path / "deep").mkdir(parents=True)
    (path / "deep" / "half").write_text("half a file")
    (path / ".owner").touch()
    return path


# Where the cache is


def test_xoff_cache_is_the_first_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XOFF_CACHE", "/elsewhere/xoff-cache")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache.root() == Path("/elsewhere/xoff-cache")


def test_a_relative_xoff_cache_is_taken_from_where_we_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XOFF_CACHE", "here")
    assert cache.root() == tmp_path / "here"


@pytest.mark.parametrize("unset", ["", None])
def test_without_xoff_cache_it_is_in_the_desktops_cache(unset: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XOFF_CACHE", "")
    if unset is None:
        monkeypatch.delenv("XOFF_CACHE")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache.root() == Path("/xdg/xoff")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache.root() == Path("/home/me/.cache/xoff")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.root() == Path("/home/me/.cache/xoff")


def test_a_relative_xdg_cache_home_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The XDG base directory specification: "consider the path invalid and ignore it"."""
    monkeypatch.delenv("XOFF_CACHE", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_CACHE_HOME", "somewhere")
    assert cache.root() == Path("/home/me/.cache/xoff")


# Locks


def test_a_free_lock_is_taken_without_a_word(xoff_cache: Path) -> None:
    said: list[str] = []
    for _ in range(2):
        with cache.locked("lab image", said.append):
            pass
    assert said == []


def test_who_waits_for_a_lock_reports_it_and_gets_it_when_it_is_free(xoff_cache: Path) -> None:
    waiting, entered = threading.Event(), threading.Event()
    said: list[str] = []

    def report(text: str) -> None:
        said.append(text)
        waiting.set()

    def second() -> None:
        with cache.locked("lab image", report):
            entered.set()

    thread = threading.Thread(target=second, daemon=True)
    with cache.locked("lab image", said.append):
        thread.start()
        assert waiting.wait(WAIT_S)
        assert not entered.is_set()
    assert entered.wait(WAIT_S)
    thread.join(WAIT_S)
    assert said == ["waiting for another xoff that is at work on the lab image"]


def test_locks_of_different_names_do_not_wait_for_each_other(xoff_cache: Path) -> None:
    said: list[str] = []
    with cache.locked("lab image", said.append), cache.locked("lab snapshot", said.append):
        pass
    assert said == []


def test_a_lock_is_free_again_after_an_error(xoff_cache: Path) -> None:
    said: list[str] = []
    with pytest.raises(RuntimeError), cache.locked("lab image", said.append):
        raise RuntimeError
    with cache.locked("lab image", said.append):
        pass
    assert said == []


# Temporary directories


def test_an_owned_directory_is_new_and_gone_afterwards(xoff_cache: Path) -> None:
    with cache.owned("image") as first, cache.owned("image") as second:
        assert first != second
        assert first.parent == second.parent == xoff_cache / "tmp"
        assert first.name.startswith("image-")
        (first / "deep").mkdir()
        (first / "deep" / "file").write_text("content")
        assert second.is_dir()
    assert list((xoff_cache / "tmp").iterdir()) == []


def test_an_owned_directory_is_gone_after_an_error(xoff_cache: Path) -> None:
    with pytest.raises(RuntimeError), cache.owned("image") as path:
        raise RuntimeError
    assert not path.exists()


def test_an_owned_directory_can_be_anywhere(tmp_path: Path, xoff_cache: Path) -> None:
    with cache.owned("run", tmp_path / "other") as path:
        assert path.parent == tmp_path / "other"
    assert not xoff_cache.exists()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_an_owned_directory_is_closed_to_others_unless_the_image_builder_needs_it(umask: int, xoff_cache: Path) -> None:
    """A machine's monitor is a socket in it, with which anyone could run commands as us."""
    before = os.umask(umask)
    try:
        with cache.owned("run") as path, cache.owned("image", private=False) as other:
            assert [folder.stat().st_mode & 0o777 for folder in (path, other)] == [0o700, 0o755]
    finally:
        os.umask(before)


# What an owned directory has elsewhere


def test_what_an_owned_directory_has_elsewhere_goes_with_it(xoff_cache: Path) -> None:
    with cache.owned("image") as path:
        other = cache.elsewhere(path)
        (other / "root").mkdir()
        assert not other.is_relative_to(xoff_cache)
    assert not other.exists()


def test_what_a_dead_owner_had_elsewhere_is_swept_too(xoff_cache: Path) -> None:
    left = abandoned(xoff_cache / "tmp")
    other = cache.elsewhere(left)
    (other / "half a root").mkdir()
    assert cache.sweep() == [left]
    assert not other.exists()


def test_what_is_published_leaves_nothing_elsewhere(xoff_cache: Path) -> None:
    with cache.owned("image") as path:
        other = cache.elsewhere(path)
        (path / "vmlinuz").touch()
        cache.leave_only(path, "vmlinuz")
        cache.publish(path, xoff_cache / "image-0123")
    assert not other.exists()
    assert [file.name for file in (xoff_cache / "image-0123").iterdir()] == ["vmlinuz"]


# A cache that cannot be used


def use_tmp() -> None:
    with cache.owned("run"):
        pass


def use_lock() -> None:
    with cache.locked("lab image", print):
        pass


def use_core() -> None:
    with cores.taken(1):
        pass


@pytest.mark.parametrize(
    ("name", "is_folder", "use", "problem"),
    [
        (".", False, use_tmp, "File exists"),
        (".", False, use_lock, "File exists"),
        (".", False, use_core, "File exists"),
        ("tmp", False, use_tmp, "File exists"),
        ("cores", False, use_core, "File exists"),
        ("lab image.lock", True, use_lock, "Is a directory"),
        (f"cores/{max(os.sched_getaffinity(0))}", True, use_core, "Is a directory"),
    ],
)
def test_what_is_in_the_way_of_the_cache_is_named_with_the_way_out(
    name: str, is_folder: bool, use: Callable[[], None], problem: str, xoff_cache: Path
) -> None:
    path = xoff_cache / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_folder:
        path.mkdir()
    else:
        path.touch()
    with pytest.raises(cache.CacheError) as caught:
        use()
    way_out = "it is in the way of the cache: remove it, or set XOFF_CACHE to another folder"
    assert str(caught.value) == f"{path}: {problem}; {way_out}"
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("use", [use_tmp, use_lock, use_core])
def test_a_cache_that_cannot_be_written_to_is_named_with_the_way_out(
    use: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XOFF_CACHE", "/proc/xoff-cache")
    with pytest.raises(cache.CacheError) as caught:
        use()
    assert str(caught.value).startswith("/proc/xoff-cache")
    assert str(caught.value).endswith("the cache needs it: set XOFF_CACHE to a folder that you can write to")


def test_a_user_without_a_home_gets_the_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_entry(_: int) -> Any:
        raise KeyError("getpwuid(): uid not found")

    for name in ("XOFF_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", no_entry)
    with pytest.raises(cache.CacheError, match="has no home folder; set XOFF_CACHE to a folder for the cache"):
        cache.root()


def test_publishing_removes_a_file_that_is_in_the_way(xoff_cache: Path) -> None:
    final = xoff_cache / "image-0123"
    with cache.owned("image") as work:
        final.touch()
        cache.publish(work, final)
    assert final.is_dir()


def test_what_a_dead_owner_left_is_swept(xoff_cache: Path) -> None:
    left = abandoned(xoff_cache / "tmp")
    assert cache.sweep() == [left]
    assert not left.exists()


def test_the_next_temporary_directory_sweeps_what_dead_owners_left(xoff_cache: Path) -> None:
    left = abandoned(xoff_cache / "tmp")
    with cache.owned("image"):
        assert not left.exists()


def test_a_directory_whose_owner_lives_is_not_swept(xoff_cache: Path) -> None:
    with cache.owned("image") as path:
        (path / "work").touch()
        assert cache.sweep() == []
        assert (path / "work").exists()


def test_sweeping_leaves_alone_what_is_not_ours(xoff_cache: Path) -> None:
    (xoff_cache / "tmp" / "somebody's").mkdir(parents=True)
    (xoff_cache / "image-0123").mkdir()
    (xoff_cache / "image-0123" / ".owner").touch()
    assert cache.sweep() == []
    assert (xoff_cache / "tmp" / "somebody's").is_dir()
    assert (xoff_cache / "image-0123" / ".owner").exists()


def test_sweeping_an_empty_cache_is_nothing(xoff_cache: Path) -> None:
    assert cache.sweep() == []
    assert not xoff_cache.exists()


def test_what_a_killed_process_owned_is_swept(xoff_cache: Path) -> None:
    text = (
        "from testbed.lab.host import cache\n"
        "with cache.owned('image') as path:\n    print(path, flush=True)\n    input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[4],
    ) as process:  # fmt: skip
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        assert cache.sweep() == []
        process.send_signal(signal.SIGKILL)
    assert path.is_dir()
    assert cache.sweep() == [path]
    assert not path.exists()


def test_a_sweep_at_any_moment_spares_a_directory_that_is_being_made(
    xoff_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = fcntl.flock
    owner = threading.get_ident()
    sweepers: list[threading.Thread] = []

    def lock_after_another_has_swept(*arguments: Any) -> None:
        if threading.get_ident() == owner:
            sweepers.append(threading.Thread(target=cache.sweep, daemon=True))
            sweepers[-1].start()
            sweepers[-1].join(0.2)  # it may have to wait for us
        locks(*arguments)

    monkeypatch.setattr(fcntl, "flock", lock_after_another_has_swept)
    with cache.owned("image") as path:
        for sweeper in sweepers:
            sweeper.join(WAIT_S)
        assert path.is_dir()
    assert sweepers


def test_what_belongs_to_another_user_is_left_and_stops_no_command(
    xoff_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that root left, after `sudo xoff`, in an ordinary user's cache."""
    theirs = abandoned(xoff_cache / "tmp", "run-theirs")
    ours = abandoned(xoff_cache / "tmp", "run-ours")
    opens = Path.open

    def refuse(path: Path, *arguments: Any, **named: Any) -> Any:
        if path.parent == theirs:
            raise PermissionError(13, "Permission denied", str(path))
        return opens(path, *arguments, **named)

    monkeypatch.setattr(Path, "open", refuse)
    assert cache.sweep() == [ours]


# Publishing


def test_what_is_published_has_its_final_name_and_no_marker(xoff_cache: Path) -> None:
    final = xoff_cache / "image-0123"
    with cache.owned("image") as work:
        (work / "vmlinuz").write_text("kernel")
        cache.publish(work, final)
    assert [path.name for path in final.iterdir()] == ["vmlinuz"]
    assert list((xoff_cache / "tmp").iterdir()) == []


def test_publishing_replaces_what_was_there(xoff_cache: Path) -> None:
    final = xoff_cache / "image-0123"
    final.mkdir(parents=True)
    (final / "old").touch()
    with cache.owned("image") as work:
        (work / "new").touch()
        cache.publish(work, final)
    assert [path.name for path in final.iterdir()] == ["new"]


def test_a_builder_that_dies_while_publishing_leaves_nothing_that_is_not_swept(
    xoff_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(Exception):
        pass

    def die(*_: Any) -> None:
        raise Died

    built = abandoned(xoff_cache / "tmp")
    with monkeypatch.context() as patch:
        for place, name in ((Path, "rename"), (Path, "replace"), (os, "rename"), (os, "replace")):
            patch.setattr(place, name, die)
        with pytest.raises(Died):
            cache.publish(built, xoff_cache / "image-0123")
    assert not (xoff_cache / "image-0123").exists()
    assert cache.sweep() == [built]


# Pruning


def unused(path: Path, days: float) -> Path:
    path.mkdir(parents=True)
    (path / "file").touch()
    then = time.time() - days * 86400
    os.utime(path, (then, then))
    return path


def test_what_was_not_used_for_weeks_is_pruned_and_the_rest_stays(xoff_cache: Path) -> None:
    old, recent = unused(xoff_cache / "image-old", 15), unused(xoff_cache / "image-recent", 13)
    other = unused(xoff_cache / "python-old", 100)
    cache.prune("image-*")
    assert (old.exists(), recent.exists(), other.exists()) == (False, True, True)


def test_what_is_used_is_not_pruned(xoff_cache: Path) -> None:
    path = unused(xoff_cache / "image-old", 100)
    assert cache.used(path) == path
    cache.prune("image-*")
    assert path.exists()


def test_what_vanishes_meanwhile_does_not_stop_pruning(xoff_cache: Path) -> None:
    """Another xoff may prune too, so a file can be listed and then be gone, as a link is that leads nowhere."""
    old = unused(xoff_cache / "image-b-old", 15)
    for name in ("image-a-gone", "image-c-gone"):
        (xoff_cache / name).symlink_to("nowhere")
    cache.prune("image-*")
    assert not old.exists()


def test_those_used_last_are_kept_of_their_kind(xoff_cache: Path) -> None:
    old, newer, newest = (unused(xoff_cache / f"snapshot-a-{days}", days) for days in (3, 2, 1))
    other = unused(xoff_cache / "snapshot-b-9", 9)
    (xoff_cache / "snapshot-a-gone").symlink_to("nowhere")
    cache.used(old)
    cache.keep_newest("snapshot-a-*", 2)
    assert [path.exists() for path in (old, newer, newest, other)] == [True, False, True, True]
    cache.keep_newest("snapshot-a-*", 5)
    assert old.exists()
    cache.used(newest)
    cache.keep_newest("snapshot-a-*", 1, 3600)
    assert old.exists(), "it was used within the hour"
    assert newest.exists()


# Sums and room


@pytest.mark.parametrize("content", [b"", b"Xoff", bytes(1 << 20)], ids=["empty", "short", "long"])
def test_a_sum_is_that_of_the_content(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    assert cache.sha256(tmp_path / "file") == hashlib.sha256(content).hexdigest()


def test_without_room_nothing_is_begun_and_the_way_out_is_shown(
    xoff_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(9 << 30, 8 << 30, 100 << 20))
    with pytest.raises(cache.DiskFullError) as caught:
        cache.require_room(xoff_cache, 2 << 30, "building the lab image")
    assert str(caught.value) == (
        f"no room for building the lab image: {xoff_cache} has 100 MB free and 2048 MB are needed; "
        "free some, or set XOFF_CACHE to a directory on another disk"
    )
    assert caught.value.exit_code == 3


def test_room_is_looked_for_where_nothing_was_kept_before(xoff_cache: Path) -> None:
    cache.require_room(xoff_cache / "deep", 1, "it")
    cache.require_room(xoff_cache / "deep", 1, "it")
    assert (xoff_cache / "deep").is_dir()


@pytest.mark.parametrize(("needed", "fits"), [(1000, True), (1001, False)])
def test_room_that_is_just_enough_is_enough(
    needed: int, fits: bool, xoff_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(9000, 8000, 1000))
    if fits:
        cache.require_room(xoff_cache, needed, "it")
    else:
        with pytest.raises(cache.DiskFullError):
            cache.require_room(xoff_cache, needed, "it")
