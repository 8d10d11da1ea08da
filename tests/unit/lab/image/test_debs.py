"""Locks of Debian packages, what is fetched by them, and what is said where that fails."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import UsageError, XoffError
from testbed.lab.engines import lab_file
from testbed.lab.host import cache
from testbed.lab.image import deb_tree, debs, erofs, packages, shipped_locks
from testbed.lab.image.deb_archive import PackageError
from testbed.lab.job import debian
from testbed.lab.um import debian as on_um
from tests.unit.lab.image.deb_files import deb, member
from tests.unit.lab.image.lab_files import lab, sha256, small_list

__all__ = ["lab", "small_list"]
ONE = deb((member("./usr/bin/one", mode=0o755), b"a program"))
FILE = "debian/pool/main/o/one/one_1.0_amd64.deb"


def silent(_: str) -> None: ...


def text(content: bytes = ONE, name: str = "one", version: str = "1.0", file: str = FILE) -> str:
    return f"{name}=={version} \\\n    --hash=sha256:{sha256(content)} \\\n    --file={file}\n"


@pytest.fixture
def lock(xoff_cache: Path, tmp_path: Path) -> Path:
    path = tmp_path / "one.lock"
    path.write_text(f"# made by a test\n{text()}")
    return path


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A mirror of Debian on this machine, read by Python."""
    place = tmp_path / "mirror"
    (place / FILE).parent.mkdir(parents=True)
    (place / FILE).write_bytes(ONE)
    monkeypatch.setattr(debs, "_MIRROR", place.as_uri())
    monkeypatch.setattr(debs, "_APT_HELPER", tmp_path / "none")
    return place


def test_packages_are_fetched_once_and_known_by_their_contents(lock: Path, mirror: Path) -> None:
    said: list[str] = []
    found = debs.ensure([str(lock)], said.append)
    assert found is not None
    assert said == ["fetching 1 Debian packages for the lab, once: one 1.0"]
    assert found.versions == {"one": "1.0"}
    assert found.files()[""]["one 1.0"].read_bytes() == ONE
    shutil.rmtree(mirror)
    assert debs.ensure([str(lock)], pytest.fail) == found
    assert debs.ensure([], silent) is None


def test_a_package_of_another_hash_is_not_used(lock: Path, mirror: Path) -> None:
    (mirror / FILE).write_bytes(ONE + b"\n")
    with pytest.raises(PackageError, match=r"one 1\.0 from .* is not the one of the lock: its SHA-256 differs"):
        debs.ensure([str(lock)], silent)
    assert list(cache.root().glob("deb-*")) == []


def test_a_package_that_was_changed_in_the_cache_is_fetched_again_or_refused(lock: Path, mirror: Path) -> None:
    found = debs.ensure([str(lock)], silent)
    assert found is not None
    place = found.locked[0].place / debs.FILE
    place.chmod(0o644)
    place.write_bytes(b"another")
    with pytest.raises(PackageError, match="is damaged; run it again to fetch it anew"):
        found.files()
    again = debs.ensure([str(lock)], silent)
    assert again == found and place.read_bytes() == ONE


def test_a_package_that_no_mirror_has_any_more_has_the_ways_out(
    lock: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mirror / FILE).unlink()
    with pytest.raises(XoffError) as caught:
        debs.ensure([str(lock)], silent)
    assert f"Lock what is there now, xoff image lock --deb {lock.with_suffix('')} > {lock}; or" in str(caught.value)
    assert "XOFF_MIRROR" in str(caught.value)
    (one,) = debs.locked([str(lock)]).locked  # type: ignore[union-attr]
    monkeypatch.setattr(debs, "_lock", lambda _: f"# xoff image lock --deb one two\n{lock.read_text()}")
    said = debs._anew(one, ["all"])
    assert "xoff image lock --deb one two > all.lock, and use all.lock in place of all; or" in said


@pytest.mark.skipif(not debs._APT_HELPER.is_file(), reason="needs apt-helper")
def test_apts_own_program_fetches_where_it_is(
    lock: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(debs, "_APT_HELPER", Path("/usr/lib/apt/apt-helper"))
    assert debs.ensure([str(lock)], silent) is not None
    lock.write_text(text().replace(sha256(ONE), sha256(b"another")))
    with pytest.raises(PackageError, match="is not the one of the lock: its SHA-256 differs"):
        debs.ensure([str(lock)], silent)


@pytest.mark.parametrize(
    "line",
    [
        "one",
        "one==1.0",
        f"one==1.0 --hash=sha256:{'a' * 64}",
        f"one==1.0 --hash=md5:{'a' * 64} --file={FILE}",
        f"../one==1.0 --hash=sha256:{'a' * 64} --file={FILE}",
        f"one==1.0 --hash=sha256:{'a' * 64} --file=debian/pool/../../../etc/passwd.deb",
        f"one==1.0 --hash=sha256:{'a' * 64} --file=http://example.org/pool/one.deb",
    ],
)
def test_a_line_that_is_not_locked_is_refused(line: str, lock: Path) -> None:
    lock.write_text(f"{line}\n")
    with pytest.raises(UsageError, match="is not locked; each line is NAME==VERSION --hash=sha256"):
        debs.locked([str(lock)])


def test_two_locks_that_disagree_are_refused_with_the_way_out(lock: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.lock"
    other.write_text(text(version="2.0"))
    with pytest.raises(UsageError, match=r"one 2\.0 is requested, and another lock has one 1\.0; lock both together"):
        debs.locked([str(lock), str(other)])


def test_a_name_without_a_lock_has_the_way_to_one() -> None:
    with pytest.raises(
        UsageError, match=r"Xoff has locked versions of .*frr.*; .*xoff image lock --deb memcached > memcached"
    ):
        debs.locked(["memcached"])
    with pytest.raises(UsageError, match="the lab's image has curl already; leave it out"):
        debs.locked(["curl"])
    with pytest.raises(UsageError, match=r"none\.lock: it cannot be read: No such file"):
        debs.locked(["none.lock"])


@pytest.mark.parametrize("name", shipped_locks.of_debian())
def test_shipped_locks_are_locks(name: str) -> None:
    found = debs.locked([name])
    assert found is not None and any(one.startswith(name) for one in found.versions)


def test_a_machine_without_apt_get_says_where_to_make_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(PackageError, match="make the lock on a Debian or Ubuntu machine and bring the file here"):
        debs.lock(["frr"], b"", "bookworm", silent)
    with pytest.raises(UsageError, match="'--evil' is no name of a Debian package"):
        debs.lock(["--evil"], b"", "bookworm", silent)


def test_apt_get_decides_on_the_labs_packages_and_the_lock_is_read_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """apt-get is a stand-in here, which prints what the real one prints."""
    calls: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        work = next(Path(word.partition("=")[2]) for word in command if word.startswith("-oDir::State="))
        assert (work / "status").read_bytes() == b"Package: libc6\n"
        place = "pool/main/o/one/one_1.0+b1_amd64.deb"
        printed = {"install": f"'http://m/debian/{place.replace('+', '%2b')}' one_1.0+b1_amd64.deb 7 MD5:x\n"}
        record = f"Package: one\nVersion: 2:1.0+b1\nFilename: {place}\nSHA256: {'c' * 64}\n"
        said = record + "\nPackage: other\n" if "dumpavail" in command else printed.get(command[-3], "")
        return subprocess.CompletedProcess(command, 0, said, "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/apt-get")
    monkeypatch.setattr(debs, "_KEYRING", tmp_path)
    monkeypatch.setattr(type(tmp_path), "is_file", lambda _: True)
    said = debs.lock(["one"], b"Package: libc6\n", "bookworm", silent)
    assert said == "# xoff image lock --deb one\n" + (
        f"one==2:1.0+b1 \\\n    --hash=sha256:{'c' * 64} \\\n    --file=debian/pool/main/o/one/one_1.0+b1_amd64.deb\n"
    )
    assert [found.version for found in debs._merged([("one", said)])] == ["2:1.0+b1"]
    assert all(command[0] in ("apt-get", "apt-cache") for command in calls)


def test_both_kinds_of_packages_are_one_set_with_a_digest_of_its_own(lock: Path, mirror: Path) -> None:
    found = packages.ensure([f"deb:{lock}"], silent)
    assert found is not None and found.debs is not None
    assert (found.versions, found.debs.versions, found.files()) == ({}, {"one": "1.0"}, {})
    assert packages.Packages.of_json(found.as_json()) == found
    assert packages.found_beside(["numpy", "deb:frr", "deb:a.lock", "b.lock"], Path("x")) == [
        "numpy", "deb:frr", "deb:x/a.lock", "x/b.lock",
    ]  # fmt: skip
    assert packages.option("deb:frr") == ("--with-deb", "frr")
    assert packages.option("numpy") == ("--with", "numpy")


def test_a_lab_file_carries_packages_to_a_machine_without_a_network(
    lab: Path, lock: Path, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lab.tar"
    lab_file.export(file, ["um"], silent, lambda *_: None, with_debs=[str(lock)])
    shutil.rmtree(mirror)
    monkeypatch.setenv("XOFF_CACHE", str(tmp_path / "elsewhere"))
    lab_file.import_(file, silent, lambda *_: None)
    found = debs.ensure([str(lock)], pytest.fail)
    assert found is not None and found.files()[""]["one 1.0"].read_bytes() == ONE


def test_what_configuring_changed_becomes_part_of_the_tree(lock: Path, mirror: Path) -> None:
    found = debs.ensure([str(lock)], silent)
    assert found is not None
    archive, changes = io.BytesIO(), io.BytesIO()
    tree = deb_tree.all_unpacked(found.files(), archive)
    image = erofs.Inode(0o40755)
    image.add("etc/old", erofs.Inode(0o100644))
    with tarfile.open(fileobj=changes, mode="w") as tar:
        debian._add_text(tar, debian.REMOVED, f"/{deb_tree.UNPACKED}\n/etc/old\n/etc/never\n")
        for one, content in (
            (member("etc/passwd"), b"one:x:100"),
            (member("etc/rc2.d/S01one", tarfile.SYMTYPE, "../init.d/one"), b""),
            (member("var/lib/one", tarfile.DIRTYPE, mode=0o750), b""),
        ):
            one.size = len(content)
            tar.addfile(one, io.BytesIO(content))
    changes.seek(0)
    on_um.apply(tree, archive, changes, image)
    assert tree.find(deb_tree.UNPACKED) is None and tree.find("etc/never") is None
    modes = {name: node.mode for name in ("etc/old", "etc/passwd", "var/lib/one") if (node := tree.find(name))}
    assert modes == {"etc/old": erofs.REMOVED, "etc/passwd": 0o100644, "var/lib/one": 0o40750}
    node = tree.find("var/lib/one")
    assert node is not None and (node.uid, node.gid) == (1000, 1000)  # of users that the lab has made
    assert tree.find("usr/bin/one") is not None


def test_a_package_that_cannot_be_configured_is_refused_with_what_it_lacks(
    lock: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        said = "Setting up one\npostinst: 7: systemctl: not found\ndpkg: error processing package one\n"
        return subprocess.CompletedProcess(command, 1, said)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(debian.ConfigureError) as caught:
        debian._perform(["dpkg", "--configure", "-a"], "configuring the Debian packages")
    assert str(caught.value).splitlines() == [
        "configuring the Debian packages in the lab ended with 1; it needs what the lab lacks there: a service manager "
        "that runs while it is set up:",
        "  Setting up one",
        "  postinst: 7: systemctl: not found",
        "  dpkg: error processing package one",
    ]
    changes = io.BytesIO()
    with tarfile.open(fileobj=changes, mode="w") as tar:
        debian._add_text(tar, debian.FAILED, str(caught.value))
    changes.seek(0)
    with pytest.raises(PackageError, match="the Debian packages are not used: configuring"):
        on_um.apply(erofs.Inode(0o40755), io.BytesIO(), changes, erofs.Inode(0o40755))


def test_descriptions_of_new_packages_replace_older_ones() -> None:
    status = "Package: a\nStatus: install ok installed\nVersion: 1\n\nPackage: b\nVersion: 1\n\n"
    assert debian._amended(status, "Package: b\nVersion: 2\n\nPackage: c\nVersion: 1\n") == (
        "Package: a\nStatus: install ok installed\nVersion: 1\n\nPackage: b\nVersion: 2\n\nPackage: c\nVersion: 1\n\n"
    )


def test_folders_of_services_are_those_of_units_and_tmpfiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.service").write_text(
        "[Service]\nUser=redis\nRuntimeDirectory=redis\nRuntimeDirectoryMode=2755\nStateDirectory=a b %i ../x\n"
    )
    (tmp_path / "masked.service").symlink_to("/dev/null")
    (tmp_path / "frr.conf").write_text("# run\nd /run/frr 0755 frr frr -\nf /run/x - - - -\nd /var/y\nd /home/z\n")
    monkeypatch.setattr(debian, "_UNITS", (tmp_path,))
    monkeypatch.setattr(debian, "_TMPFILES", tmp_path)
    assert list(debian._of_units()) == [
        ("/run/redis", "2755", "redis", "redis"),
        ("/var/lib/a", "0755", "redis", "redis"),
        ("/var/lib/b", "0755", "redis", "redis"),
    ]
    assert list(debian._of_tmpfiles()) == [("/run/frr", "0755", "frr", "frr"), ("/var/y", "0755", "root", "root")]


def test_packages_of_another_release_are_in_a_root_of_their_own(mirror: Path, tmp_path: Path, xoff_cache: Path) -> None:
    path = tmp_path / "both.lock"
    path.write_text(text() + text().rstrip() + " --root=trixie\n")
    found = debs.ensure([str(path)], silent)
    assert found is not None and found.versions == {"one": "1.0", "trixie:one": "1.0"}
    assert {root: list(files) for root, files in found.files().items()} == {
        "": ["one 1.0"],
        "trixie": ["trixie:one 1.0"],
    }
    tree = deb_tree.all_unpacked(found.files(), io.BytesIO())
    for name in ("usr/bin/one", "opt/trixie/usr/bin/one", "opt/trixie/etc/passwd", "opt/trixie/proc"):
        assert tree.find(name) is not None, name
    link = tree.find("opt/trixie/lib64")
    assert link is not None and link.content == b"usr/lib64"
    assert tree.find("opt/trixie/var/lib/dpkg/info") is None  # nothing is configured there
    lab_alone = debs.locked([str(tmp_path / "both.lock")])
    assert lab_alone is not None and lab_alone.digest == found.digest


def test_a_lock_is_of_one_release() -> None:
    with pytest.raises(UsageError, match="are of several releases of Debian"):
        debs.lock(["frr", "trixie:frr"], b"", "bookworm", silent)
    with pytest.raises(UsageError, match="is no name of a Debian package"):
        debs.lock(["Trixie:frr"], b"", "bookworm", silent)


def test_the_lock_of_another_release_is_found_by_its_name() -> None:
    assert "trixie:frr" in shipped_locks.of_debian()
    found = debs.locked(["trixie:frr", "frr"])
    assert found is not None
    assert {one.root for one in found.locked if one.name == "frr"} == {"", "trixie"}
