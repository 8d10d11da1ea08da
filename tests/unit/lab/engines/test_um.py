"""The parts of the engine `um` without building it: its key, its sources, its command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from testbed.lab.engines.table import ENGINES
from testbed.lab.host import cache, prerequisites
from testbed.lab.image import image
from testbed.lab.studies import references
from testbed.lab.um import kernel, machine
from testbed.lab.um.kernel import KERNEL, MANIFEST, SOURCES

PATCH = (SOURCES / "uml.patch").read_text()
CONFIG = (SOURCES / "uml.config").read_text()
ROOT = Path(__file__).parents[4]


def test_the_patch_gives_a_reason_for_every_file_that_it_changes() -> None:
    reasons, _, _ = PATCH.partition("\n--- ")
    for path in re.findall(r"^\+\+\+ b/(?:arch/um/|arch/um/include/|arch/x86/um/)?(\S+)", PATCH, re.MULTILINE):
        assert Path(path).name in reasons or f"{Path(path).parent}/: " in reasons, f"{path} has no reason"


def test_every_source_of_the_kernels_names_its_licence() -> None:
    for name in kernel._inputs():
        assert "SPDX-License-Identifier: GPL-2.0" in (SOURCES / name).read_text()[:200], name


def test_the_configuration_leaves_the_host_out() -> None:
    wanted = [line for line in CONFIG.splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"CONFIG_[A-Z0-9_]+=(y|n|\d+)", line) for line in wanted)
    names = {line.partition("=")[0] for line in wanted if not line.endswith("=n")}
    assert len(names) == len({line.partition("=")[0] for line in wanted if not line.endswith("=n")})
    for option in (
        "HOSTFS",
        "BLK_DEV_UBD",
        "UML_NET_VECTOR",
        "UML_RANDOM",
        "MCONSOLE",
        "MODULES",
        "VIRTIO_UML",
        "UML_PCI",
    ):
        assert f"CONFIG_{option}" not in names


def test_the_command_line_has_no_path_of_this_machine() -> None:
    line = " ".join(machine.command_line())
    assert str(Path.home()) not in line
    assert "/tmp" not in line
    assert "time-travel=inf-cpu" in line


@pytest.mark.parametrize("changed", ["version", "suite", "tools"])
def test_the_kernels_key_changes_with_what_goes_in(monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    before = kernel.key()
    table = json.loads(json.dumps(prerequisites.table()))
    table["um"][changed] = ["other"] if changed == "tools" else "other"
    monkeypatch.setattr(prerequisites, "table", lambda: table)
    assert kernel.key() != before


def test_the_reference_kernel_was_built_from_the_sources_that_come_with_it() -> None:
    """Otherwise no kernel that anybody builds is the reference kernel, and no digest is compared."""
    assert kernel.reference()["sources"] == kernel.sources_digest(), (
        "run `./xoff image reference --engine um` and `./xoff verify --update`, and commit what they write"
    )


def test_the_digests_of_the_repository_are_of_the_reference_image_and_kernel() -> None:
    of_um = references.read(ROOT)["um"]
    assert (of_um.image, of_um.kernel) == (image.reference()["digest"], kernel.reference()["digest"])


def _in_cache(xoff_cache: Path) -> Path:
    place = xoff_cache / f"um-kernel-{kernel.key()}"
    place.mkdir(parents=True)
    (place / KERNEL).write_bytes(b"a kernel")
    manifest = {"digest": cache.sha256(place / KERNEL), "version": "7.3.4-1", "source": "ab" * 32, "tools": {}}
    (place / MANIFEST).write_text(json.dumps(manifest))
    return place


def test_a_kernel_in_the_cache_is_used_and_a_damaged_one_is_not(xoff_cache: Path) -> None:
    assert kernel.current() is None
    place = _in_cache(xoff_cache)
    found = kernel.ensure(pytest.fail)
    assert (found.file, found.version, found.source) == (place / KERNEL, "7.3.4-1", "ab" * 32)
    (place / KERNEL).write_bytes(b"another")
    assert kernel.current() is None


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        (KERNEL, "another", "its SHA-256 is not that in its manifest"),
        (MANIFEST, "{", "JSONDecodeError: "),
        (MANIFEST, "{}", "KeyError: 'digest'"),
    ],
)
def test_a_damaged_kernel_is_built_again_and_the_reason_said_once(
    file: str, content: str, why: str, xoff_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    place = _in_cache(xoff_cache)
    (place / file).write_text(content)
    monkeypatch.setattr(kernel, "build", lambda report: "built anew")
    assert kernel.ensure(said.append) == "built anew"
    assert len(said) == 1
    assert said[0].startswith(f"the kernel in {place} is damaged ({why}")
    assert said[0].endswith("; building it again")


@pytest.mark.parametrize("manifest", ["", "[]", "{}", "null", '{"digest": 1}'])
def test_a_manifest_of_another_shape_is_no_kernel(xoff_cache: Path, manifest: str) -> None:
    (_in_cache(xoff_cache) / MANIFEST).write_text(manifest)
    assert kernel.current() is None


def test_virtual_time_needs_no_emulator_with_um() -> None:
    without = {package.name for package in ENGINES["um"].requirements(building=True)}
    assert without < {package.name for package in ENGINES["vm"].requirements(building=True)}
    assert not {"qemu-system-x86", "qemu-utils"} & without
    assert ENGINES["um"].reproducible


def test_a_larger_job_has_a_larger_machine_and_every_other_the_same_one() -> None:
    usual = machine.command_line()
    assert usual[:2] == ["mem=4096M", "kernelcore=1536M"]
    assert machine.command_line(500) == machine.command_line(machine.JOB_MB) == usual
    larger = machine.command_line(machine.JOB_MB + 3000)
    for job_mb in range(machine.JOB_MB, machine.JOB_MB + 50):
        kernel = machine.command_line(job_mb)[1]
        assert int(kernel.removeprefix("kernelcore=").removesuffix("M")) % 4 == 0, "the kernel's largest page block"
    assert larger[:2] == ["mem=8096M", "kernelcore=2536M"]
    assert larger[2:] == usual[2:]


def test_the_last_words_of_a_lab_that_was_killed_have_nothing_that_each_lab_says(tmp_path: Path) -> None:
    usual = "xoff-init: [0.010] cannot mount devtmpfs on /dev: Device or resource busy\n"
    lab = machine.Machine.__new__(machine.Machine)
    lab._console = tmp_path / "console"
    lab._console.write_text(f"{machine.CONFINED}files\n{usual}")
    assert lab.last_words() == ""
    lab._console.write_text(f"{usual}xoff-init: [0.020] cannot mount devtmpfs on /dev: No such device\n")
    assert lab.last_words().endswith("No such device") and "busy" not in lab.last_words()
