"""The list of what Xoff needs, and the search for what is there."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.lab.host import prerequisites
from testbed.lab.host.prerequisites import Module, Package

Install = Callable[..., Path]
NOWHERE = "xoff_no_such_module"


# Programs


def test_a_program_is_found_in_path(install: Install) -> None:
    path = install("tc")
    assert prerequisites.find_program("tc") == str(path)
    assert prerequisites.find_program("ovs-vsctl") is None


def test_a_file_that_cannot_be_executed_is_no_program(install: Install) -> None:
    install("tc").chmod(0o644)
    assert prerequisites.find_program("tc") is None


def test_a_program_is_found_where_debian_hides_it_and_path_comes_first(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = install("tc").rename(tmp_path / "tc")
    assert prerequisites.find_program("tc") is None
    monkeypatch.setattr(prerequisites, "_SBIN", (str(tmp_path),))
    assert prerequisites.find_program("tc") == str(hidden)
    first = install("tc")
    assert prerequisites.find_program("tc") == str(first)


def test_without_a_path_the_usual_places_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATH")
    assert prerequisites.find_program("sh") is not None


# Packages


def test_a_package_is_here_if_its_program_is(install: Install) -> None:
    package = Package("iproute2", "links", program="tc")
    assert not package.is_here()
    install("tc")
    assert package.is_here()


def test_a_package_is_here_if_its_file_is(tmp_path: Path) -> None:
    package = Package("libbpf1", "loads the port program", file=str(tmp_path / "libbpf.so.1"))
    assert not package.is_here()
    (tmp_path / "libbpf.so.1").touch()
    assert package.is_here()


# Kernel modules


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the running kernel's modules."""
    monkeypatch.setattr(platform, "release", lambda: str(tmp_path))  # absolute, so it stands for all of the path
    return tmp_path


def test_a_module_that_is_loaded_is_here_whatever_the_lists_say(tree: Path) -> None:
    loaded = next(path.name for path in Path("/sys/module").iterdir() if "_" in path.name)
    assert Module(loaded, "test").is_here()
    assert Module(loaded.replace("_", "-"), "test").is_here()


def test_a_module_that_can_be_loaded_is_here(tree: Path) -> None:
    assert not Module(NOWHERE, "test").is_here()
    (tree / "modules.dep").write_text(
        f"kernel/net/sched/sch_other.ko.xz: kernel/lib/x.ko.xz\nkernel/net/sched/{NOWHERE}.ko.xz: kernel/lib/y.ko.xz\n"
    )
    assert Module(NOWHERE, "test").is_here()


def test_a_module_that_is_built_in_is_here(tree: Path) -> None:
    (tree / "modules.builtin").write_text(f"kernel/net/{NOWHERE}.ko\n")
    assert Module(NOWHERE, "test").is_here()


def test_dashes_and_underscores_in_module_names_are_the_same(tree: Path) -> None:
    (tree / "modules.builtin").write_text("kernel/net/xoff-no_such-module.ko\n")
    assert Module("xoff_no-such-module", "test").is_here()


def test_a_module_is_not_here_because_another_needs_it_or_is_called_alike(tree: Path) -> None:
    (tree / "modules.dep").write_text(f"kernel/a.ko: kernel/{NOWHERE}.ko\nkernel/{NOWHERE}_more.ko:\n")
    assert not Module(NOWHERE, "test").is_here()


def test_what_no_list_shows_is_tried_out(tree: Path, install: Install) -> None:
    install("unshare", f'printf "%s " "$@" > {tree}/asked')
    assert Module(NOWHERE, "test", probe="ip link add type vrf").is_here()
    assert (tree / "asked").read_text() == "-n ip link add type vrf "
    install("unshare", "exit 2")
    assert not Module(NOWHERE, "test", probe="ip link add type vrf").is_here()


def test_what_cannot_be_tried_out_is_not_here(tree: Path, install: Install) -> None:
    assert not Module(NOWHERE, "test", probe="ip link add type vrf").is_here()


# The list


def test_everything_on_the_list_can_be_looked_for_and_has_its_reason() -> None:
    for packages in (prerequisites.machine_packages(), prerequisites.test_packages(), prerequisites.image_packages()):
        assert packages
        assert len({package.name for package in packages}) == len(packages)
        assert [package for package in packages if not package.why] == []
        assert [package for package in packages if bool(package.program) == bool(package.file)] == []
    modules = prerequisites.lab_modules()
    assert len({module.name for module in modules}) == len(modules)
    assert [module for module in modules if not module.why] == []


def test_what_running_the_lab_takes_is_on_the_list() -> None:
    assert {"qemu-system-x86", "mmdebstrap", "zstd"} <= {package.name for package in prerequisites.machine_packages()}
    assert {"python3", "mininet", "openvswitch-switch"} <= {package.name for package in prerequisites.lab_packages()}


def test_nothing_that_an_image_is_built_with_comes_without_a_hash() -> None:
    guest = Path(prerequisites.__file__).parents[1] / "guest"
    for name in ("python.lock", "sources.lock", "build.lock"):
        requirements = (guest / name).read_text().replace("\\\n", " ").split("\n")
        requirements = [line for line in requirements if line]
        assert requirements
        assert [line for line in requirements if not re.search(r"^\S+==\S+ +--hash=sha256:[0-9a-f]{64}\b", line)] == []


def test_sources_are_locked_at_the_versions_on_the_list() -> None:
    lock = Path(prerequisites.__file__).parents[1] / "guest" / "sources.lock"
    locked = re.findall(r"^(\S+==\S+)", lock.read_text(), re.MULTILINE)
    assert sorted(locked) == sorted(prerequisites.table()["lab"]["python"]["sources"])
