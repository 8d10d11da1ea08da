"""The engine `host`: this machine itself, as root and in real time. Virtual machines that are a lab use it."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from io import BytesIO
from pathlib import Path

from testbed.errors import UsageError, XoffError
from testbed.experiment.output import Record
from testbed.lab.engines import words
from testbed.lab.engines.engine import Engine, PreparedEngine
from testbed.lab.host import checks, prerequisites, process_tree
from testbed.lab.host.cache import Report
from testbed.lab.host.checks import Check
from testbed.lab.host.prerequisites import DEBIAN_PYTHON, Package
from testbed.lab.image import debs
from testbed.lab.image import packages as further


class InstallError(XoffError):
    """Python packages for the host engine could not be installed."""

    exit_code = 3


class Host(Engine):
    """This machine."""

    name = words.HOST.name
    summary = words.HOST.summary
    runs_image = False

    def prepare(self, report: Report, packages: Sequence[str] = ()) -> PreparedHost:
        if packages and further.is_debian(packages[0]):
            name = packages[0].removeprefix(debs.PREFIX)
            raise UsageError(
                f"--with-deb {name}: packages are locked for the lab; on the host engine install them as the system "
                f"does, as in apt-get install {name}"
            )
        if packages:
            raise UsageError(
                f"--with {packages[0]}: packages are locked for the lab's Python; on the host engine install them as "
                "the system does, as in apt-get install python3-numpy"
            )
        if os.geteuid() != 0:
            raise UsageError("the host engine makes networks on this machine and needs root; use sudo, or --engine vm")
        return PreparedHost(engine=self)

    def installable(self) -> list[Package]:
        return prerequisites.lab_packages()

    def install(self, report: Report) -> None:
        missing = [requirement for name, requirement in _python_parts().items() if not _importable(name)]
        if missing:
            report(f"installing {', '.join(missing)} for the host engine")
            command = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "install", *missing]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise InstallError(f"pip failed: {done.stderr.strip()}")
        for module in prerequisites.lab_modules():
            subprocess.run(["modprobe", "-q", module.name], check=False)  # the checks say what is missing

    def checks(self) -> list[Check]:
        root = os.geteuid() == 0
        verdicts = [Check(self.name, "root", root, checks.user(), "" if root else "run it with sudo")]
        verdicts += [checks.package(self.name, package) for package in prerequisites.lab_packages()]
        wanted = prerequisites.table()["lab"]["kernel"]["box"]
        for module in prerequisites.lab_modules():
            ok = module.is_here()
            remedy = (
                f"apt-get install {wanted}, and boot that kernel: this one ({platform.release()}) has no {module.name}"
            )
            verdicts.append(Check(self.name, f"kernel module {module.name}", ok, module.why, "" if ok else remedy))
        parts = {"mininet": "apt-get install mininet"} | {
            name: f"{sys.executable} -m pip install {requirement}" for name, requirement in _python_parts().items()
        }
        for name, remedy in parts.items():
            ok = _importable(name)
            verdicts.append(Check(self.name, f"Python module {name}", ok, sys.executable, "" if ok else remedy))
        groups = Path("/sys/fs/cgroup/cgroup.controllers").exists()
        remedy = "boot with systemd.unified_cgroup_hierarchy=1; without, a job's memory and processes are not limited"
        verdicts.append(Check(self.name, "control groups v2", groups, "/sys/fs/cgroup", "" if groups else remedy))
        return verdicts


def _python_parts() -> dict[str, str]:
    """Return what pip has to install for each module that the supervisor imports."""
    parts = prerequisites.table()["host"]["python"]
    return {part.get("module", part["name"]): f"{part['name']}=={part['version']}" for part in parts}


def _importable(name: str) -> bool:
    """Return True if the supervisor's process will be able to import a module."""
    program = f"import sys; sys.path.append({DEBIAN_PYTHON!r}); import {name}"
    return not subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode


class PreparedHost(PreparedEngine):
    """This machine, on which the user is root."""

    @contextmanager
    def start(self, job: bytes, folder: Path) -> Iterator[HostSession]:
        with closing(HostSession(job, folder)) as session:
            yield session


class HostSession:
    """A job on this machine, in a sandbox."""

    def __init__(self, job: bytes, folder: Path) -> None:
        with tarfile.open(fileobj=BytesIO(job)) as archive:
            # Debian 12's Python has no filters, and later versions warn without one.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(folder)
        self.stream = folder / "out"
        self.stream.touch()
        self._log = folder / "supervisor.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "testbed.lab.host_main", str(folder)],
                stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True, cwd=folder,
                env={**os.environ, "PYTHONPATH": str(folder / "code"), "PYTHONDONTWRITEBYTECODE": "1"},
            )  # fmt: skip

    def lost(self) -> str | None:
        if self._process.poll() is None:
            return None
        said = self._log.read_text(errors="replace").strip().splitlines()[-6:]
        return "\n  ".join(["the supervisor ended before the job did; its last output:", *said])

    def send(self, record: Record) -> None:
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.write(record.encode())
                self._process.stdin.flush()

    def cpu_s(self) -> None:
        """Return None: no costs of this engine's runs are known."""

    def used_cpu_s(self) -> float | None:
        """Return the CPU time in s of the lab's processes; None if the host does not show it."""
        return process_tree.cpu_s(self._process.pid)

    def spins(self) -> None:
        """Return None: the clock of this engine does not stop for a program."""

    def close(self) -> None:
        """End the job: SIGTERM has the supervisor do it, and remove its control group."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
