"""`xoff doctor`: what this machine has, what it lacks, and the remedy for each."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from testbed.cli import machine
from testbed.cli.arguments import one_of
from testbed.cli.engine_setup import machine_packages
from testbed.errors import XoffError
from testbed.lab import cache, prerequisites, qemu
from testbed.lab.engine import Kind, is_built
from testbed.lab.result import Exit


@dataclass(frozen=True)
class Check:
    """One thing looked at."""

    engine: str
    what: str
    ok: bool
    found: str
    remedy: str = ""


def um_checks() -> list[Check]:
    """What building the image and the kernel of the engine `um` take, and running it."""
    checks = _build_checks(Kind.UM, machine_packages(Kind.UM), 6)
    seccomp = "trap" in _words("/proc/sys/kernel/seccomp/actions_avail")
    remedy = "boot a kernel with CONFIG_SECCOMP_FILTER; in a container, allow seccomp()"
    checks.append(Check("um", "seccomp filters", seccomp, platform.release(), "" if seccomp else remedy))
    return checks


def vm_checks() -> list[Check]:
    """What building the image and running the virtual machine take."""
    checks = [_package("vm", package) for package in machine_packages(build=False)]
    checks += _build_checks(Kind.VM, machine_packages(Kind.UM), 4)
    try:
        qemu.program()
        checks.append(Check("vm", "QEMU is new enough", True, qemu.version()))
    except XoffError as error:
        checks.append(Check("vm", "QEMU is new enough", False, qemu.version() or "none", str(error)))
    return checks


def _build_checks(engine: Kind, packages: list[prerequisites.Package], room_gb: int) -> list[Check]:
    """What building takes, unless that is done."""
    if is_built(engine):
        return [Check(engine, "the lab", True, f"built or imported, in {cache.root()}")]
    checks = [_package(engine, package) for package in packages]
    if os.geteuid() != 0:
        user = _user()
        ok = any(line.startswith(f"{user}:") for line in _lines("/etc/subuid"))
        remedy = f"sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}"
        checks.append(Check(engine, "user ids for building the image", ok, user, "" if ok else remedy))
    try:
        cache.require_room(cache.root(), room_gb << 30, "what the lab is built from and into")
        checks.append(Check(engine, "room for what is built", True, str(cache.root())))
    except XoffError as error:
        checks.append(Check(engine, "room for what is built", False, str(cache.root()), str(error)))
    return checks


def host_checks() -> list[Check]:
    """What running the lab on this machine itself takes."""
    root = os.geteuid() == 0
    checks = [Check("host", "root", root, _user(), "" if root else "run it with sudo")]
    checks += [_package("host", package) for package in prerequisites.lab_packages()]
    for module in prerequisites.lab_modules():
        ok = module.is_here()
        wanted = prerequisites.table()["lab"]["kernel"]["box"]
        remedy = f"apt-get install {wanted}, and boot that kernel: this one ({platform.release()}) has no {module.name}"
        checks.append(Check("host", f"kernel module {module.name}", ok, module.why, "" if ok else remedy))
    mininet = _importable("mininet")
    remedy = "" if mininet else "apt-get install mininet"
    checks.append(Check("host", "Python module mininet", mininet, sys.executable, remedy))
    for name, requirement in _python_parts().items():
        ok = _importable(name)
        remedy = "" if ok else f"{sys.executable} -m pip install {requirement}"
        checks.append(Check("host", f"Python module {name}", ok, sys.executable, remedy))
    groups = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    remedy = "boot with systemd.unified_cgroup_hierarchy=1; without, a job's memory and processes are not limited"
    checks.append(Check("host", "control groups v2", groups, "/sys/fs/cgroup", "" if groups else remedy))
    return checks


def install(engine: str) -> None:
    """Install what is missing of Debian's packages, and the Python parts of the host engine."""
    from testbed.cli.console import say

    packages = machine_packages(Kind.UM if engine == "um" else Kind.VM) if engine != "host" else []
    if engine in ("host", "all"):
        packages += prerequisites.lab_packages()
    machine.require(packages, say)
    if engine in ("host", "all"):
        missing = [requirement for name, requirement in _python_parts().items() if not _importable(name)]
        if missing:
            say(f"installing {', '.join(missing)} for the host engine")
            command = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "install", *missing]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise machine.MachineError(f"pip failed: {done.stderr.strip()}")
        for module in prerequisites.lab_modules():
            subprocess.run(["modprobe", "-q", module.name], check=False)  # the checks say what is missing


def as_json(checks: list[Check]) -> list[dict[str, object]]:
    return [asdict(check) for check in checks]


def _package(engine: str, package: prerequisites.Package) -> Check:
    ok = package.is_here()
    return Check(engine, package.name, ok, package.why, "" if ok else f"apt-get install {package.name}")


def _python_parts() -> dict[str, str]:
    """What pip has to install for each module that the host engine imports."""
    parts = prerequisites.table()["host"]["python"]
    return {part.get("module", part["name"]): f"{part['name']}=={part['version']}" for part in parts}


def _importable(name: str) -> bool:
    """Whether the host engine's process will be able to import `name`."""
    from testbed.lab.host_main import DEBIAN_PYTHON

    program = f"import sys; sys.path.append({DEBIAN_PYTHON!r}); import {name}"
    return not subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode


def _words(path: str) -> list[str]:
    return " ".join(_lines(path)).split()


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # as in a container that was started with a number
        return str(os.geteuid())


def doctor_options(parser: argparse.ArgumentParser) -> None:
    engines = ("vm", "um", "host", "all")
    what = f"what must work: {', '.join(engines)} (default vm)"
    parser.add_argument("--engine", type=one_of("engine", engines), default="vm", metavar="E", help=what)
    parser.add_argument("--install", action="store_true", help="install what is missing, then check")


def doctor(options: argparse.Namespace) -> int:
    """Check this machine: what an engine needs, what is missing, and the remedy."""
    from testbed.cli.console import stdout

    if options.install:
        install(options.engine)
    checks = []
    if options.engine in ("um", "all"):
        checks += um_checks()
    if options.engine in ("vm", "all"):
        checks += vm_checks()
    if options.engine in ("host", "all"):
        checks += host_checks()
    missing = [check for check in checks if not check.ok]
    if options.json:
        print(json.dumps(as_json(checks), indent=1))
        return Exit.MACHINE if missing else Exit.OK
    for check in checks:
        mark = "[green]ok[/green]     " if check.ok else "[red]missing[/red]"
        stdout.print(f"{mark} {check.engine:<5}{check.what}  [dim]{check.found}[/dim]", soft_wrap=True)
        if check.remedy:
            stdout.print(f"        -> {check.remedy}", soft_wrap=True)
    if missing:
        stdout.print(f"{len(missing)} of {len(checks)} missing; `xoff doctor --install` gets what can be installed")
        return Exit.MACHINE
    stdout.print("all there")
    return Exit.OK
