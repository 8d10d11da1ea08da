"""What a machine with another Linux, or another processor, is told: by its own names, and what works there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.cli import machine, main
from testbed.lab.engines.table import ENGINES
from testbed.lab.host import distribution, prerequisites
from testbed.lab.host.prerequisites import Package
from testbed.lab.results.result import Exit

Install = Callable[..., Path]
ZSTD = Package("zstd", "compresses", program="zstd", elsewhere={"dnf": "zstd-of-dnf", "apk": "zstd-of-apk"})
ODD = Package("mmdebstrap", "builds", program="mmdebstrap")
FEDORA = 'NAME="Fedora Linux"\nID=fedora\nPRETTY_NAME="Fedora Linux 41 (Server Edition)"\n'
ROCKY = 'ID="rocky"\nID_LIKE="rhel centos fedora"\nPRETTY_NAME="Rocky Linux 9"\n'
ARCH = 'ID=arch\nPRETTY_NAME="Arch Linux"\n'
LEAP = 'ID="opensuse-leap"\nID_LIKE="suse opensuse"\nPRETTY_NAME="openSUSE Leap 15.6"\n'
ALPINE = "ID=alpine\nPRETTY_NAME='Alpine Linux v3.20'\n"
UBUNTU = 'ID=ubuntu\nID_LIKE=debian\nPRETTY_NAME="Ubuntu 24.04"\n'
UNKNOWN = "ID=void\n"


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Write the `os-release` of this machine."""
    monkeypatch.setattr(distribution, "_RELEASE", tmp_path / "os-release")

    def write(text: str) -> None:
        (tmp_path / "os-release").write_text(text)

    return write


@pytest.mark.parametrize(
    ("text", "programs", "manager"),
    [
        (FEDORA, ["dnf"], "dnf"),
        (FEDORA, ["dnf", "apt-get"], "dnf"),  # Fedora has a package of apt
        (FEDORA, [], "dnf"),
        (ROCKY, ["dnf"], "dnf"),
        (ARCH, ["pacman"], "pacman"),
        (LEAP, ["zypper"], "zypper"),
        (ALPINE, ["apk"], "apk"),
        (UBUNTU, ["apt-get"], "apt-get"),
        (UNKNOWN, ["zypper"], "zypper"),
        (UNKNOWN, [], None),
        ("", ["pacman"], "pacman"),
    ],
)
def test_the_package_manager_is_that_of_the_family_or_the_one_that_is_there(
    text: str, programs: list[str], manager: str | None, release: Callable[[str], None], install: Install
) -> None:
    release(text)
    for name in programs:
        install(name)
    assert distribution.manager() == manager


@pytest.mark.parametrize(
    ("text", "packages", "said"),
    [
        (FEDORA, [ZSTD], "dnf install zstd-of-dnf"),
        (ALPINE, [ZSTD, ODD], "apk add zstd-of-apk, but apk has no package of mmdebstrap that is known to us"),
        (LEAP, [ODD], "zypper has no package of mmdebstrap that is known to us"),
        (UBUNTU, [ZSTD, ODD], "apt-get install zstd mmdebstrap"),
        (UNKNOWN, [ZSTD, ODD], "install zstd, mmdebstrap in the way of this system"),
    ],
)
def test_packages_have_the_names_of_the_system(
    text: str, packages: list[Package], said: str, release: Callable[[str], None], install: Install
) -> None:
    release(text)
    assert distribution.remedy(packages) == said


def test_what_is_missing_elsewhere_gets_one_line_with_both_ways_out(
    release: Callable[[str], None], install: Install
) -> None:
    release(FEDORA)
    with pytest.raises(machine.MachineError) as raised:
        machine.require([ZSTD, ODD], pytest.fail)
    line = str(raised.value)
    assert line.startswith("this Fedora Linux 41 (Server Edition) lacks zstd, mmdebstrap; ")
    assert "As root: dnf install zstd-of-dnf, but dnf has no package of mmdebstrap" in line
    assert "./xoff image import FILE here" in line
    assert "\n" not in line


@pytest.mark.parametrize("manager", ["dnf", "pacman", "zypper", "apk"])
def test_each_package_manager_has_a_name_for_some_of_what_labs_take(manager: str) -> None:
    named = {package.name for package in prerequisites.machine_packages() if package.name_for(manager)}
    assert {"zstd", "uidmap", "qemu-system-x86", "qemu-utils"} <= named


def test_a_system_without_os_release_is_named_by_its_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "_RELEASE", tmp_path / "none")
    assert distribution.name() == "linux"


# Another processor


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch, xoff_cache: Path) -> None:
    """A machine with another processor and an empty cache; nothing can be installed or built there."""
    real = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((*real[:4], "aarch64")))
    monkeypatch.setattr(machine, "install", lambda *_: pytest.fail("installed"))


@pytest.mark.usefixtures("arm")
@pytest.mark.parametrize(
    "line", ["run hello", "run hello --engine vm", "demo", "verify hello", "shell star", "image build"]
)
def test_another_processor_runs_no_lab_and_is_told_what_works(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == Exit.MACHINE
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("xoff: labs need Linux on x86-64, and this is ")
    assert " on aarch64. " in said
    for word in ("podman run --platform linux/amd64", "report", "switch check", "switch headroom"):
        assert word in said


@pytest.mark.usefixtures("arm")
@pytest.mark.parametrize(
    "line",
    [
        "list",
        "switch headroom --rate 100Gb/s --length 10km",
        "switch check {config}",
        "help engines",
    ],
)
def test_what_takes_no_lab_works_on_another_processor(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config_db.json"
    config.write_text('{"PORT": {"Ethernet0": {"speed": "100000", "lanes": "1"}}}')
    assert main(line.format(config=config).split()) in (Exit.OK, Exit.FAILED)
    printed = capsys.readouterr()
    assert printed.out
    assert "x86-64" not in printed.err


@pytest.mark.usefixtures("arm")
def test_the_doctor_names_the_processor(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("um", "vm"):
        missing = [check for check in ENGINES[name].checks() if not check.ok and not check.optional]
        assert "an x86-64 processor" in {check.what for check in missing}
