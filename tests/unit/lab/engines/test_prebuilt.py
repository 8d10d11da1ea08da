"""A prebuilt lab is taken from a file, a folder, an address or the package index, if it is what this version names."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import os
import subprocess
import threading
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import bootstrap, engine_setup, main
from testbed.errors import UsageError
from testbed.lab.engines import lab_file, lab_wheel, prebuilt
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
        "recipe": image.recipe_digest(),
    }
    place = tmp_path / "labs"
    place.mkdir()
    monkeypatch.setattr(image, "reference", lambda: named)
    lab_file.export(place / prebuilt.name(), ["um"], ignore, ignore)
    (tmp_path / "wheels").mkdir()
    lab_file.export(tmp_path / "wheels" / prebuilt.wheel_name(), ["um"], ignore, ignore, wheel=True)
    monkeypatch.setenv("XOFF_CACHE", str(tmp_path / "elsewhere"))
    for module in (image, kernel):
        monkeypatch.setattr(module, "build", lambda *_: pytest.fail("built"))
    monkeypatch.setattr(wheels, "_fetch", lambda *_: pytest.fail("fetched"))
    return place


@pytest.fixture
def served(folder: Path) -> Iterator[str]:
    yield from _serving(folder)


def _take(monkeypatch: pytest.MonkeyPatch, where: object) -> tuple[str, ...]:
    monkeypatch.setenv(prebuilt.VARIABLE, str(where))
    return prebuilt.take(ignore, ignore).engines


def test_a_file_a_folder_and_an_address_give_the_lab(
    folder: Path, served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels_there = tmp_path / "wheels"
    ways = (folder / prebuilt.name(), folder, served, served + prebuilt.name(), wheels_there)
    for number, where in enumerate((*ways, wheels_there / prebuilt.wheel_name())):
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
    place = whole.rindex(b"tiny/__init__.py") - 8  # in the wheel, which is in the file as it is
    file.write_bytes(whole[:place] + b"?" + whole[place + 1 :])
    with pytest.raises(UsageError, match=r"is damaged: python/tiny\S+ .*\(SHA-256 [0-9a-f]{64} and not [0-9a-f]{64}\)"):
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
    with pytest.raises(UsageError, match=r"the lab of another version .* with another kernel \([0-9a-f]{16} and not "):
        _take(monkeypatch, old)


# The package index


class Told:
    """What was reported."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        self.lines.append(line)


def _index(monkeypatch: pytest.MonkeyPatch, **settings: object) -> None:
    """Have pip ask this index alone, whatever this machine has configured."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv(prebuilt.VARIABLE, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(f"PIP_{name.upper()}", str(value))


@pytest.fixture
def index(folder: Path, tmp_path: Path) -> Iterator[str]:
    """The address of an index of packages that has the lab."""
    project = tmp_path / "simple" / lab_wheel.PROJECT
    project.mkdir(parents=True)
    (project / prebuilt.wheel_name()).write_bytes((tmp_path / "wheels" / prebuilt.wheel_name()).read_bytes())
    (project / "index.html").write_text(f'<a href="{prebuilt.wheel_name()}">{prebuilt.wheel_name()}</a>')
    yield from _serving(tmp_path)


def _serving(place: Path) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(place)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
def test_the_package_index_gives_the_lab_by_pips_own_configuration(
    index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: tuple[dict[str, object], ...] = (
        {"index_url": f"{index}simple/"},
        {"index_url": (tmp_path / "simple").as_uri()},
        {"no_index": 1, "find_links": tmp_path / "wheels"},
    )
    for number, settings in enumerate(ways):
        monkeypatch.setenv("XOFF_CACHE", str(tmp_path / f"machine{number}"))
        _index(monkeypatch, **settings)
        told = Told()
        taken = prebuilt.take_from_index(told, ignore)
        assert taken is not None, told.lines
        assert taken.engines == ("um",)
        assert told.lines == [
            f"asking the package index for {lab_wheel.PROJECT}=={lab_wheel.version(prebuilt.digest())}, "
            "the prebuilt lab of this version"
        ]
        assert ENGINES["um"].is_built()
        assert not list((tmp_path / f"machine{number}" / "tmp").iterdir())


@pytest.mark.slow
def test_an_index_without_the_lab_is_asked_once_a_day_and_a_silent_one_each_time(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()
    _index(monkeypatch, index_url="http://127.0.0.1:1/simple/")
    assert prebuilt.take_from_index(told, ignore) is None
    assert told.lines[1:] == ["no package index answers; the lab is set up here"]
    told = Told()
    _index(monkeypatch, no_index=1, find_links=tmp_path)
    assert prebuilt.take_from_index(told, ignore) is None
    assert told.lines[1:] == ["the index has none; the lab is set up here"]
    assert prebuilt.take_from_index(told, ignore) is None
    assert len(told.lines) == 2
    monkeypatch.setattr(time, "time", lambda: cache.root().stat().st_mtime + 2 * 86400)
    assert prebuilt.take_from_index(told, ignore) is None
    assert len(told.lines) == 4


@pytest.mark.parametrize("fault", ["another kernel", "damage", "another file"])
def test_a_wrong_lab_in_the_index_is_refused_in_one_line_and_not_taken(
    fault: str, index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "simple" / lab_wheel.PROJECT / prebuilt.wheel_name()
    message = "is not a lab file"
    if fault == "another kernel":
        named = json.loads(json.dumps(image.reference()))
        theirs, named["um_kernel"]["digest"] = named["um_kernel"]["digest"], "0" * 64
        monkeypatch.setattr(image, "reference", lambda: named)
        message = f"its kernel has the digest {theirs}, and this version names {'0' * 64}"
    elif fault == "damage":
        whole = file.read_bytes()
        place = whole.rindex(b"tiny/__init__.py") - 8
        file.write_bytes(whole[:place] + b"?" + whole[place + 1 :])
        message = "is damaged: python/tiny"
    else:
        with zipfile.ZipFile(file, "w") as wheel:
            wheel.writestr("xoff_lab/__init__.py", "raise SystemExit('executed')\n")
            about = f"{file.name.removesuffix('-py3-none-any.whl')}.dist-info"
            version = lab_wheel.version(prebuilt.digest())
            wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: xoff-lab\nVersion: {version}\n")
            wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{about}/RECORD", "")
    _index(monkeypatch, index_url=f"{index}simple/")
    told = Told()
    assert prebuilt.take_from_index(told, ignore) is None
    assert len(told.lines) == 2, told.lines
    assert told.lines[1].startswith("what the package index has is refused, and the lab is set up here: ")
    assert message in told.lines[1]
    assert "\n" not in told.lines[1]
    assert not ENGINES["um"].is_built()


def test_nobody_is_asked_for_a_lab_that_cannot_be_or_is_not_wanted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_wheel.Index, "fetch", lambda *_: pytest.fail("asked"))
    monkeypatch.setenv(prebuilt.VARIABLE, prebuilt.NONE)
    assert not prebuilt.is_named()
    assert prebuilt.take_from_index(pytest.fail, ignore) is None
    monkeypatch.delenv(prebuilt.VARIABLE)
    monkeypatch.setattr(kernel, "sources_digest", lambda: "changed")
    assert prebuilt.take_from_index(pytest.fail, ignore) is None


def test_equal_labs_give_equal_wheels_that_say_what_they_are(
    lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        assert main(["image", "export", "--wheel", str(tmp_path / name)]) == 0
        made.append(tmp_path / name / prebuilt.wheel_name())
    assert made[0].read_bytes() == made[1].read_bytes()
    assert f"XOFF_LAB={prebuilt.wheel_name()} ./xoff demo" in capsys.readouterr().err
    with zipfile.ZipFile(made[0]) as wheel:
        assert wheel.testzip() is None
        assert not any(entry.compress_type for entry in wheel.infolist())
        lines = [line.split(",") for name in wheel.namelist() if name.endswith("RECORD")
                 for line in wheel.read(name).decode().splitlines()]  # fmt: skip
        assert [line[0] for line in lines] == wheel.namelist()
        for name, digest, size in lines[:-1]:
            content = wheel.read(name)
            assert len(content) == int(size)
            found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            assert digest == f"sha256={found}"
    assert main(["image", "import", str(made[0])]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lab.whl", "--wheel"], "lab.whl is no folder: the name of a wheel says what is in it"),
        ([".", "--wheel", "--engine", "vm"], "--wheel is for the engine um, and not with --engine vm"),
        ([".", "--wheel", "--with-deb", "frr"], "--wheel takes no --with-deb"),
    ],
)
def test_what_a_wheel_cannot_have_is_refused(
    arguments: list[str], message: str, lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["image", "export", *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


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
    folder: Path, monkeypatch: pytest.MonkeyPatch, small_list: bytes
) -> None:
    monkeypatch.setenv(prebuilt.VARIABLE, str(folder))
    monkeypatch.setattr(bootstrap, "_put_pip", lambda: pytest.fail("asked the package index"))
    monkeypatch.setattr(bootstrap.sys, "argv", ["xoff", "list"])  # type: ignore[attr-defined]
    python = bootstrap.environment("run")
    assert (
        subprocess.run([python, "-c", "import tiny; print(tiny.size)"], capture_output=True, check=True).stdout
        == b"1\n"
    )
    assert wheels.current()


def test_the_front_door_takes_the_environment_of_an_installed_lab_and_changes_nothing_of_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that takes more packages gets an environment of the user's own."""
    place = tmp_path / "root"
    monkeypatch.setattr(bootstrap.sys, "argv", ["xoff", "list"])  # type: ignore[attr-defined]
    monkeypatch.setenv("XOFF_CACHE", str(place))
    monkeypatch.setenv(prebuilt.VARIABLE, str(folder))
    theirs = bootstrap.environment("run").parents[1]
    monkeypatch.setenv("XOFF_CACHE", str(tmp_path / "user"))
    monkeypatch.setenv(prebuilt.VARIABLE, str(place))
    monkeypatch.setattr(bootstrap, "_install", lambda purpose: (bootstrap._place() / f".ready-{purpose}").touch())
    ours = bootstrap.environment("run").parents[1]
    assert ours.readlink() == theirs
    assert bootstrap.environment("plot").parents[1] == ours
    assert not ours.is_symlink()
    assert not (theirs / ".ready-plot").exists()
    assert (theirs / ".ready-run").exists()


def test_the_reference_names_the_disk_that_this_version_makes() -> None:
    assert disks.reference_digest(), "`xoff image reference` writes it anew"
