"""The engines beside virtual time: the same image in real time, and this machine itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from testbed import lab
from testbed.experiment import definition
from testbed.lab import Status
from testbed.lab.engines import table
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.engines.vm import PreparedMachine
from testbed.lab.host import cache
from testbed.lab.job.job import Limits

from ..conftest import JOBS, Output, Runner


@pytest.mark.long  # without /dev/kvm it boots Debian in an emulated machine
def test_in_real_time_a_second_takes_a_second(run: Runner, output: Output) -> None:
    ready = table.prepare("realtime", output.report)
    assert any("real time" in report for report in output.reports), "it must say how it runs"
    result = run("behave:waits", on=ready, how_long="2s")
    assert result.status is Status.OK
    assert result.provenance.accelerator in ("kvm", "tcg")
    assert result.figure("slept") >= 2 * 10**9
    assert result.times.wall_s >= 2


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the host engine takes root")


@needs_root
def test_on_the_host_a_job_runs_in_a_world_of_its_own(run: Runner, output: Output) -> None:
    ready = table.prepare("host", print)
    result = run("behave:looks_around", on=ready)
    assert result.status is Status.OK, output.err
    assert result.figure("interfaces") == ["lo"]
    assert result.figure("processes") < 10
    assert result.figure("run") == ["lock", "netns", "openvswitch"]
    assert result.provenance.engine == "host"


@needs_root
@pytest.mark.parametrize("job", ["spins", "survives_its_children", "raises"])
def test_on_the_host_nothing_is_left_behind(
    run: Runner, job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XOFF_CACHE", str(tmp_path / "cache"))
    run(f"misbehave:{job}", on=table.prepare("host", print), limits=Limits(virtual_s=1))
    assert processes_that_name(str(cache.root())) == []
    groups = Path("/sys/fs/cgroup").glob("xoff-*")
    assert [group for group in groups if not Path("/proc", group.name.removeprefix("xoff-")).exists()] == []
    assert list((cache.root() / "tmp").iterdir()) == []


@needs_root
def test_what_the_host_lacks_is_an_error_of_the_job_and_not_a_hang(run: Runner) -> None:
    if subprocess.run(["ip", "link", "add", "name", "xoff0", "type", "vrf", "table", "1"], check=False).returncode == 0:
        subprocess.run(["ip", "link", "del", "xoff0"], check=True)
        pytest.skip("this kernel has everything")
    result = run("behave:needs_vrf", on=table.prepare("host", print))
    assert result.status is Status.ERROR


def processes_that_name(place: str) -> list[str]:
    """The command lines of all processes, in whatever namespace, that have `place` in them."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if place in line:
            found.append(line)
    return found


@pytest.mark.long  # it takes the snapshot of the virtual machine twice more
def test_a_snapshot_that_is_spoilt_or_half_there_is_taken_again(
    vm: PreparedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state is spoilt and its memory cut short; the new one is as good as the one that was there."""
    assert isinstance(vm, PreparedMachine)
    cache_of_ours = tmp_path / "cache"
    cache_of_ours.mkdir()
    (cache_of_ours / vm.snapshot.image.path.name).symlink_to(vm.snapshot.image.path)
    place = cache_of_ours / vm.snapshot.path.name
    shutil.copytree(vm.snapshot.path, place)
    monkeypatch.setenv("XOFF_CACHE", str(cache_of_ours))
    says = definition.load_file(JOBS / "behave.py", "says")

    def digest() -> str:
        return lab.run(says, on="vm", out=tmp_path / "out").check().digest

    (place / "state").write_bytes(b"no state at all")
    first = digest()
    os.truncate(place / "memory", 1 << 20)
    assert digest() == first
    assert lab.run(says, on=vm, out=tmp_path / "out").check().digest == first
