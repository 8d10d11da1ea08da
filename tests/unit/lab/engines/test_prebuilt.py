"""A prebuilt lab is taken from a file, a folder or an address, if it is the one that this version names."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import bootstrap, engine_setup
from testbed.errors import UsageError
from testbed.lab.engines import lab_file, prebuilt
from testbed.lab.engines.lab_file import TransferError
from testbed.lab.engines.table import ENGINES
from testbed.lab.host import cache
from testbed.lab.image import image, wheels
from testbed.lab.um import disks, kernel
from tests.unit.lab.image.lab_files import lab, small_list

__all__ = ["lab", "small_list"]
pytestmark = pytest.mark.usefixtures("small_list")
ROOT = Path(__file__).parents[4]


def ignore(*_: object) -> None: ...


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that logs nothing."""

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def folder(lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the prebuilt lab, whose parts this version names; the cache is that of a machine with nothing."""
    disk = disks.root(disks.image_of_root(pytest.fail), pytest.fail)
    told, built = image.reference(), kernel.ensure(pytest.fail)
    named = {
        "debian": told["debian"],
        "digest": image.ensure(pytest.fail).digest,
        "um_kernel": told["um_kernel"] | {"digest": built.digest, "sources": kernel.sources_digest()},
        "um_root": {"name": disk.parent.name, "digest": cache.sha256(disk)},
    }
    place = tmp_path / "labs"
    place.mkdir()
    monkeypatch.setattr(image, "reference", lambda: named)
    lab_file.export(place / prebuilt.name(), ["um"], ignore, ignore)
    monkeypatch.setenv("XOFF_CACHE", str(tmp_path / "elsewhere"))
    for module in (image, kernel):
        monkeypatch.setattr(module, "build", lambda *_: pytest.fail("built"))
    monkeypatch.setattr(wheels, "_fetch", lambda *_: pytest.fail("fetched"))
    return place


@pytest.fixture
def served(folder: Path) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    thread.join()
    server.server_close()


def _take(monkeypatch: pytest.MonkeyPatch, where: object) -> tuple[str, ...]:
    monkeypatch.setenv(prebuilt.VARIABLE, str(where))
    return prebuilt.take(ignore, ignore).engines


def test_a_file_a_folder_and_an_address_give_the_lab(
    folder: Path, served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, where in enumerate((folder / prebuilt.name(), folder, served, served + prebuilt.name())):
        monkeypatch.setenv("XOFF_CACHE", str(tmp_path / f"machine{number}"))
        assert not ENGINES["um"].is_built()
        assert _take(monkeypatch, where) == ("um",)
        assert ENGINES["um"].is_built()
        assert wheels.current()


def test_what_is_missing_is_named(folder: Path, served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"XOFF_LAB=/nowhere: there is no such file, folder or address"):
        _take(monkeypatch, "/nowhere")
    with pytest.raises(UsageError, match=f"the folder has no {prebuilt.name()}, which is the lab of this version"):
        _take(monkeypatch, tmp_path)
    with pytest.raises(TransferError, match=r"/other\.tar: the server answers 404 "):
        _take(monkeypatch, served + "other.tar")
    with pytest.raises(TransferError, match=r"cannot be fetched: \[Errno 111\] Connection refused"):
        _take(monkeypatch, "http://127.0.0.1:1/lab.tar")


@pytest.fixture
def cache_of_root(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with the prebuilt lab in it; the one in use has nothing."""
    place = tmp_path / "root"
    monkeypatch.setenv("XOFF_CACHE", str(place))
    _take(monkeypatch, folder)
    (place / "python-0123").mkdir()
    monkeypatch.setenv("XOFF_CACHE", str(tmp_path / "user"))
    monkeypatch.setattr(cache, "sha256", lambda path: pytest.fail(f"read {path}"))
    return place


def test_an_installed_lab_is_used_where_it_is(
    cache_of_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not ENGINES["um"].is_built()
    assert _take(monkeypatch, cache_of_root) == ("um",)
    assert ENGINES["um"].is_built()
    user = tmp_path / "user"
    assert (user / "python-0123").readlink() == cache_of_root / "python-0123"
    (disk,) = user.glob("um-root-*/disk")
    assert disk.resolve().parent.parent == cache_of_root
    assert not list((user / "tmp").iterdir())
    image.clean()
    assert not list(user.glob("um-*"))
    assert list(cache_of_root.glob("um-*")), "it belongs to another user"


def test_an_installed_lab_is_used_again_after_it_was_installed_elsewhere(
    cache_of_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _take(monkeypatch, cache_of_root)
    moved = cache_of_root.rename(tmp_path / "moved")
    assert not ENGINES["um"].is_built()
    _take(monkeypatch, moved)
    assert ENGINES["um"].is_built()


def test_an_installed_lab_that_others_can_change_is_refused(
    cache_of_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_of_root.chmod(0o777)
    with pytest.raises(cache.CacheError, match="everyone can write to it"):
        _take(monkeypatch, cache_of_root)
    assert not ENGINES["um"].is_built()


def test_an_installed_lab_with_another_disk_is_refused(cache_of_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (note,) = cache_of_root.glob("um-root-*/seen.json")
    note.write_text(json.dumps(["0" * 64, 1, 2, 3, 4]))
    with pytest.raises(UsageError, match=f"its disk has the digest {'0' * 64}, and this version names"):
        _take(monkeypatch, cache_of_root)
    assert not ENGINES["um"].is_built()


def test_a_damaged_and_a_foreign_file_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / prebuilt.name()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match="is damaged"):
        _take(monkeypatch, file)
    file.write_bytes(b"#!/bin/sh\n" * 1000)
    with pytest.raises(UsageError, match="is not a lab file"):
        _take(monkeypatch, file)
    assert not ENGINES["um"].is_built()


@pytest.mark.parametrize(("part", "entry"), [("kernel", "um_kernel"), ("disk", "um_root"), ("image", None)])
def test_another_kernel_disk_or_image_is_refused_with_both_digests(
    folder: Path, monkeypatch: pytest.MonkeyPatch, part: str, entry: str | None
) -> None:
    named = json.loads(json.dumps(image.reference()))
    place = named[entry] if entry else named
    theirs, place["digest"] = place["digest"], "0" * 64
    if part == "image":
        named["um_root"]["name"] = disks.name_of_root("0" * 64)
    monkeypatch.setattr(image, "reference", lambda: named)
    with pytest.raises(UsageError, match=f"its {part} has the digest {theirs}, and this version names {'0' * 64}"):
        _take(monkeypatch, folder / prebuilt.name())
    assert not ENGINES["um"].is_built()


def test_an_old_lab_has_another_name_and_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = folder / prebuilt.name()
    monkeypatch.setattr(kernel, "key", lambda: "another")
    with pytest.raises(UsageError, match="the folder has no xoff-lab-"):
        _take(monkeypatch, folder)
    with pytest.raises(UsageError, match=r"the lab of another version of Xoff .* with another kernel"):
        _take(monkeypatch, old)


def test_an_engine_that_is_missing_is_taken_before_anything_is_built(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(prebuilt.VARIABLE, str(folder))
    monkeypatch.setattr(disks, "code", lambda *_: Path("code"))
    engine_setup.ready("um")
    assert f"taking the lab from {folder}" in capsys.readouterr().err
    monkeypatch.setenv(prebuilt.VARIABLE, "/nowhere")  # is not looked at, for nothing is missing
    engine_setup.ready("um")


def test_the_front_door_takes_the_packages_of_a_prebuilt_lab(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(prebuilt.VARIABLE, str(folder))
    monkeypatch.setattr(bootstrap, "_make_with_pip", lambda: pytest.fail("asked the package index"))
    ran: list[list[str]] = []

    def run(command: list[str], *_: object) -> str:
        ran.append(command)
        (bootstrap._place() / "bin").mkdir(parents=True, exist_ok=True)
        (bootstrap._place() / "bin" / "python").touch()
        return f"{tmp_path / 'site'}\n"

    monkeypatch.setattr(bootstrap, "_run", run)
    monkeypatch.setattr(bootstrap.sys, "argv", ["xoff", "list"])  # type: ignore[attr-defined]
    bootstrap.environment("run")
    assert [command[1:3] for command in ran[:1]] == [["-m", "venv"]]
    assert wheels.current()


def test_the_reference_names_the_disk_that_this_version_makes() -> None:
    assert disks.reference_digest(), "`xoff image reference` writes it anew"
