"""The Vagrantfile is valid, takes its packages from the one list, and ends with the doctor. No box is started here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.lab.host import prerequisites

ROOT = Path(__file__).parents[3]
VAGRANTFILE = (ROOT / "Vagrantfile").read_text()
PROVISIONER = re.compile(r'provision "(\w+)", type: "shell",(.*?)inline: <<~\'SHELL\'\n(.*?)^ *SHELL$', re.S | re.M)
SCRIPTS = {name: script for name, _, script in PROVISIONER.findall(VAGRANTFILE)}


def box_list() -> list[str]:
    """The list, by the command of the Vagrantfile."""
    command = [sys.executable, "-m", "testbed.lab.host.prerequisites", "box"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


@pytest.fixture
def programs(tmp_path: Path) -> Callable[[str, str], dict[str, str]]:
    """Return a function that puts a shell script before a real program, and gives the environment for it."""
    place = tmp_path / "bin"
    place.mkdir()

    def stand_in(name: str, script: str) -> dict[str, str]:
        (place / name).write_text(f"#!/bin/sh\n{script}\n")
        (place / name).chmod(0o755)
        return {**os.environ, "PATH": f"{place}:{os.environ['PATH']}"}

    return stand_in


@pytest.fixture
def validate(tmp_path: Path, programs: Callable[[str, str], dict[str, str]]) -> Callable[..., tuple[int, str]]:
    """Run `vagrant validate` on a copy, with a home of its own: Vagrant leaves files in both."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / ".gitignore").write_bytes((ROOT / ".gitignore").read_bytes())
    # Vagrant checks a provider's settings only where it finds the provider, and asks for its version to find it.
    environment = programs("VBoxManage", 'test "$*" = --version && echo 6.1.50r161033')
    environment = {name: value for name, value in environment.items() if not name.startswith("VAGRANT_")}
    environment |= {"HOME": str(tmp_path), "VAGRANT_HOME": str(tmp_path / "home"), "VAGRANT_CHECKPOINT_DISABLE": "1"}

    def run(text: str, *options: str) -> tuple[int, str]:
        (checkout / "Vagrantfile").write_text(text)
        done = subprocess.run(
            ["vagrant", "validate", *options], cwd=checkout, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.packages("vagrant")
@pytest.mark.parametrize("options", [["--ignore-provider"], []], ids=["without a provider", "for VirtualBox"])
def test_vagrant_finds_the_file_valid(validate: Callable[..., tuple[int, str]], options: list[str]) -> None:
    code, said = validate(VAGRANTFILE, *options)
    assert "Vagrantfile validated successfully" in said
    assert code == 0


@pytest.mark.packages("vagrant")
@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("config.vm.hostname", "config.vm.hostnaem", "settings shouldn't exist: hostnaem"),
        ("reboot: true", "rebot: true", "settings shouldn't exist: rebot"),
        ("box.memory", "box.memoyr", "settings shouldn't exist: memoyr"),
        ("\nend\n", "\n", "syntax error"),
    ],
)
def test_vagrant_names_a_mistake(
    validate: Callable[..., tuple[int, str]], right: str, wrong: str, message: str
) -> None:
    assert right in VAGRANTFILE
    code, said = validate(VAGRANTFILE.replace(right, wrong))
    assert message in said
    assert code == 1


def test_the_list_for_a_box_has_the_machine_the_lab_and_the_kernel_each_once() -> None:
    names = box_list()
    assert len(set(names)) == len(names)
    wanted = {package.name for package in prerequisites.machine_packages() + prerequisites.image_packages()}
    assert set(names) == wanted | {prerequisites.table()["lab"]["kernel"]["box"], "python3-venv", "git"}


@pytest.mark.parametrize("arguments", [[], ["bxo"], ["box", "lab"]])
def test_asking_for_a_list_that_does_not_exist_is_a_usage_error(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "testbed.lab.host.prerequisites", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "usage: python3 -m testbed.lab.host.prerequisites box|machine|lab|test\n"


def test_the_box_installs_exactly_the_list(tmp_path: Path, programs: Callable[[str, str], dict[str, str]]) -> None:
    asked = tmp_path / "asked"
    environment = programs("apt-get", f'echo "$@" >> {asked}')
    script = SCRIPTS["packages"].replace("cd /xoff", f"cd {ROOT}")
    subprocess.run(["bash", "-c", script], env=environment, check=True)
    assert asked.read_text().splitlines() == [
        "-q update", f"-q -y install --no-install-recommends {' '.join(box_list())}"
    ]  # fmt: skip


def test_the_box_installs_nothing_if_the_list_cannot_be_read(
    tmp_path: Path, programs: Callable[[str, str], dict[str, str]]
) -> None:
    asked = tmp_path / "asked"
    programs("python3", "exit 1")
    environment = programs("apt-get", f'echo "$@" >> {asked}')
    script = SCRIPTS["packages"].replace("cd /xoff", f"cd {ROOT}")
    assert subprocess.run(["bash", "-c", script], env=environment, capture_output=True, check=False).returncode == 1
    assert asked.read_text() == "-q update\n"


def test_the_vagrantfile_names_no_package_but_the_python_that_reads_the_list() -> None:
    code = re.sub(r"^ *#.*", "", VAGRANTFILE, flags=re.M)
    named = [name for name in box_list() if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", code)]
    assert named == ["python3"]


def test_the_box_reboots_into_its_kernel_before_anything_looks_for_modules() -> None:
    (first, options, _), *others = PROVISIONER.findall(VAGRANTFILE)
    assert first == "packages"
    assert "reboot: true" in options
    assert all("doctor" in script for _, _, script in others)
    assert VAGRANTFILE.count("config.vm.provision") == len(SCRIPTS)


def test_provisioning_ends_with_the_doctor_as_root_and_fails_with_it(tmp_path: Path) -> None:
    _, options, script = PROVISIONER.findall(VAGRANTFILE)[-1]
    assert "privileged" not in options  # without the word it is root
    assert script.split("\n")[-2].strip() == "./xoff doctor --engine all"
    door = tmp_path / "xoff"
    for code in (0, 3):
        door.write_text(f"#!/bin/sh\nexit {code}\n")
        door.chmod(0o755)
        done = subprocess.run(["bash", "-c", script.replace("cd /xoff", f"cd {tmp_path}")], check=False)
        assert done.returncode == code


def test_every_step_stops_at_its_first_failure() -> None:
    for name, script in SCRIPTS.items():
        assert script.split("\n")[0].strip() == "set -eu", name
        subprocess.run(["bash", "-n", "-c", script], check=True)
