"""The kernel of the engine `um` in the cache: built from Debian's source when it is not there.

It is built in a root of its own, made of the lab's Debian with pinned versions and checked by apt's signatures, so the
same source and tools give the same bytes on every machine, whatever compiler that machine has. Nothing needs root.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from testbed.lab.host import cache, prerequisites
from testbed.lab.host.cache import Report
from testbed.lab.image import image, recipe
from testbed.lab.image.recipe import ImageError

KERNEL, LIBRARY, MANIFEST = "linux", "library.so", "manifest.json"
SOURCES = resources.files("testbed.lab.um") / "linux"
_PATCH, _CONFIG = "uml.patch", "uml.config"
_DRIVER = {
    "xoff_kern.c": "arch/um/drivers",
    "xoff_user.c": "arch/um/drivers",
    "xoff.h": "arch/um/drivers",
    "xoff_flow.h": "arch/um/drivers",
    "xoff_flow_kern.c": "arch/um/drivers",
    "xoff_pfc_device.h": "arch/um/drivers",
    "xoff_pfc_rules.h": "arch/um/drivers",
    "xoff_pfc_kern.c": "arch/um/drivers",
    "xoff_pfc_library.c": "arch/um/drivers",
    "xoff_credit_device.h": "arch/um/drivers",
    "xoff_credit_kern.c": "arch/um/drivers",
    "xoff_credits.h": "include/linux",
    "xoff_udp_device.h": "arch/um/drivers",
    "xoff_udp_kern.c": "arch/um/drivers",
    "xoff_roce.h": "arch/um/drivers",
    "xoff_roce_counters.h": "arch/um/drivers",
    "xoff_roce_device.h": "arch/um/drivers",
    "xoff_roce_kern.c": "arch/um/drivers",
    "xoff_roce_user.c": "arch/um/drivers",
    "xoff_roce_library.c": "arch/um/drivers",
    "xoff_control_vm.h": "arch/um/drivers",
    "xoff_control_vm.c": "arch/um/drivers",
    "xoff_rule.h": "include/linux",
    "xoff_rule_kern.c": "arch/um/drivers",
    "xoff_cable.h": "arch/um/drivers",
    "xoff_cable_device.h": "arch/um/drivers",
    "xoff_cable_kern.c": "arch/um/drivers",
    "xoff_cable_user.c": "arch/um/drivers",
    "xoff_line.h": "arch/um/drivers",
    "xoff_line_rules.h": "arch/um/drivers",
    "xoff_line_kern.c": "arch/um/drivers",
    "xoff_verbs_kern.c": "arch/um/drivers",
    "xoff_verbs_library.c": "arch/um/drivers",
    "xoff_rxe_dcqcn.h": "drivers/infiniband/sw/rxe",
    "xoff_rxe_dcqcn.c": "drivers/infiniband/sw/rxe",
    "xoff_observe_kern.c": "arch/um/drivers",
    "xoff_observers.c": "kernel/sched",
    "xoff_observers.h": "include/linux",
    "xoff_confine.c": "arch/um/os-Linux",
    "xoff_landlock.h": "arch/um/include/shared",
    "bpf_jit.c": "arch/x86/um",
}
"""The files that are added to the source, with their folders."""
_COMPILER, _HEADERS = "cc", ("precompiled_kernel.h", "precompiled_net.h")
_ROOM = 4 << 30

# Most of the source is for other machines, and unpacking it would take longer than all that is compiled takes to read.
# Kconfig reads its files of every folder, so these stay.
_OTHER_ARCHITECTURES = (
    "alpha", "arc", "arm", "arm64", "csky", "hexagon", "loongarch", "m68k", "microblaze", "mips", "nios2", "openrisc",
    "parisc", "powerpc", "riscv", "s390", "sh", "sparc", "xtensa",
)  # fmt: skip
_HARDWARE = (
    "accel", "bluetooth", "clk", "comedi", "gpu", "hid", "hwmon", "iio", "infiniband/hw", "infiniband/ulp", "input",
    "media", "mfd", "mtd", "net/ethernet", "net/wireless", "phy", "pinctrl", "power", "scsi", "staging", "usb", "video",
)  # fmt: skip
_LEFT_OUT = (
    *(f"*/arch/{name}/*.{kind}" for name in _OTHER_ARCHITECTURES for kind in ("[chS]", "dts", "dtsi")),
    *(f"*/drivers/{name}/*.[ch]" for name in _HARDWARE),
    "*/sound/*.[ch]", "*/Documentation/*.rst", "*/Documentation/*.yaml", "*/tools/testing/*",
)  # fmt: skip

# These run inside mmdebstrap's namespace with the new root as $1. The source comes from where the root came from, and
# through that root's apt, so its signature is checked.
_FETCH = """#!/bin/sh
set -e
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
sed -n 's/ {suite} main.*/ {source_suite} main/p' "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/*.list \
    2>/dev/null | head -n 1 > "$1/etc/apt/sources.list.d/xoff-source.list"
apt-get -q update
cd "$1/tmp"
apt-get -q download {package}={version}
sha256sum {package}_*.deb | cut -d' ' -f1 > "$1/source.sha256"
mkdir "$1/source"
dpkg-deb --fsys-tarfile {package}_*.deb | tar -x -O ./usr/src/{package}.tar.xz \
    | tar -x -J -C "$1/source" --strip-components=1 {left_out}
rm {package}_*.deb
"""

_BUILD = """#!/bin/sh
set -e
cd "$1/source"
patch -s -p1 < "$1/xoff/{patch}"
{place}
in_root() {{
    chroot "$1" env -i PATH=/usr/bin:/bin LANG=C.UTF-8 HOME=/tmp \
        KBUILD_BUILD_TIMESTAMP=@{epoch} KBUILD_BUILD_USER=xoff KBUILD_BUILD_HOST=lab KBUILD_BUILD_VERSION=1 \
        sh -c "cd /source && $2"
}}
in_root "$1" "make -s ARCH=um KCONFIG_ALLCONFIG=/xoff/{config} allnoconfig"
grep '=[^n]' "$1/xoff/{config}" | while read -r line; do
    grep -qx "$line" .config || {{ echo "the kernel has no $line" >&2; exit 1; }}
done
in_root "$1" "gcc -O2 -shared -fPIC -fvisibility=hidden -nostartfiles -Wl,--build-id=none -Wl,-z,noseparate-code -s \
    -o arch/um/drivers/xoff_verbs_library.so arch/um/drivers/xoff_verbs_library.c"
chmod +x "$1/xoff/{compiler}"
for target in kernel/exit.o linux; do
    in_root "$1" "make -s ARCH=um CC=/xoff/{compiler} KCFLAGS=-fno-var-tracking -j{jobs} $target" >>"$1/log" 2>&1 \
        || {{ grep -m 6 -i error "$1/log"; exit 1; }}
done
in_root "$1" "strip -o /{kernel} linux"
in_root "$1" "gcc -O2 -shared -fPIC -ffp-contract=off -Wl,--build-id=none -s -o /{library} \
    arch/um/drivers/xoff_roce_user.c arch/um/drivers/xoff_roce_library.c arch/um/drivers/xoff_pfc_library.c"
chroot "$1" dpkg-query -W -f '${{Package}} ${{Version}}\\n' > "$1/tools"
"""


@dataclass(frozen=True)
class Kernel:
    """A kernel in the cache."""

    path: Path
    digest: str
    version: str
    """The version of the source package that it is built from."""
    source: str
    """The SHA-256 of that package."""
    tools: Mapping[str, str]
    """The versions of the packages that it is built with."""

    @property
    def file(self) -> Path:
        return self.path / KERNEL

    def library(self) -> Path | None:
        """Return the kernel's RoCE and PFC as a library of this machine, for tests; None if it is not there as it was
        built, as in a lab that was imported.
        """
        path = cache.own(self.path, LIBRARY) / LIBRARY
        built = json.loads((self.path / MANIFEST).read_text()).get("library")
        return path if path.exists() and cache.sha256(path) == built else None


def key() -> str:
    """Return the digest of everything that goes into the kernel."""
    return _digest({"sources": sources_digest(), "pins": _pins()})[:16]


def sources_digest() -> str:
    """Return the digest of what the kernel is made from, without the versions of tools."""
    return _digest(
        {"table": prerequisites.table()["um"], "suite": prerequisites.table()["lab"]["suite"], "files": _inputs()}
    )


def ensure(report: Report) -> Kernel:
    """Return the kernel, from the cache or built now."""
    if (kernel := _load(report)) is not None:
        cache.used(kernel.path)
        return kernel
    with cache.locked("lab kernel", report):
        if (kernel := current()) is not None:
            return kernel  # another xoff built it while we waited
        return build(report)


def current() -> Kernel | None:
    """Return the kernel if it is in the cache and whole, or None."""
    return _load(cache.quiet)


def _load(report: Report) -> Kernel | None:
    """Read the kernel back and check it; return None if it is not there or not whole."""
    path = cache.own(place(), KERNEL, MANIFEST)
    if not path.exists():
        return None
    try:
        manifest = json.loads((path / MANIFEST).read_text())
        if cache.sha256(path / KERNEL) == manifest["digest"]:
            return Kernel(path, manifest["digest"], manifest["version"], manifest["source"], dict(manifest["tools"]))
        why = "its SHA-256 is not that in its manifest"
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
    report(f"the kernel in {path} is damaged ({why}); building it again")
    return None


def place() -> Path:
    """Return the folder of the kernel, which need not be there."""
    return cache.root() / f"um-kernel-{key()}"


def build(report: Report, *, pinned: bool = True) -> Kernel:
    """Build the kernel and put it into the cache; with the tools of the reference as far as the mirror has them."""
    um = prerequisites.table()["um"]
    cache.require_room(cache.root(), _ROOM, "building the lab's kernel")
    source = f"{um['source']} {um['version']}"
    report(f"building the kernel of the engine um from {source}, which takes some 8 minutes of CPU time")
    with cache.owned("kernel", private=False) as work:
        own = [f"upload {shlex.quote(str(SOURCES / name))} /xoff/{name}" for name in _inputs()]
        copies = "\n".join(f'cp "$1/xoff/{name}" {folder}/' for name, folder in _DRIVER.items())
        build_script = _BUILD.format(
            patch=_PATCH, place=copies, epoch=recipe.EPOCH, config=_CONFIG, jobs=len(os.sched_getaffinity(0)),
            kernel=KERNEL, library=LIBRARY, compiler=_COMPILER,
        )  # fmt: skip
        fetch_script = _FETCH.format(
            suite=prerequisites.table()["lab"]["suite"],
            source_suite=um["suite"],
            package=um["source"],
            version=um["version"],
            left_out=" ".join(f"--exclude={shlex.quote(pattern)}" for pattern in _LEFT_OUT),
        )
        for name, script in (("fetch", fetch_script), ("build", build_script)):
            (work / name).write_text(script)
            (work / name).chmod(0o755)
        results = [
            f"download /{name} {shlex.quote(str(work / name))}" for name in (KERNEL, LIBRARY, "source.sha256", "tools")
        ]
        recipe.bootstrap(
            ["--variant=apt", "--format=null"], um["tools"],
            ['mkdir "$1/xoff"', *own, str(work / "fetch"), str(work / "build"), *results], "-", work,
            pins=_pins() if pinned else {}, mirror=os.environ.get("XOFF_MIRROR", ""),
            what="building the kernel of the engine um",
        )  # fmt: skip
        (work / KERNEL).chmod(0o755)
        tools = dict(line.split() for line in (work / "tools").read_text().splitlines())
        manifest = {
            "digest": cache.sha256(work / KERNEL),
            "library": cache.sha256(work / LIBRARY),
            "version": um["version"],
            "source": (work / "source.sha256").read_text().strip(),
            "tools": tools,
        }
        (work / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
        cache.leave_only(work, KERNEL, LIBRARY, MANIFEST)
        cache.publish(work, place())
        cache.prune("um-kernel-*")
    kernel = current()
    if kernel is None:
        raise ImageError("the kernel just built is damaged; is the disk sound?")
    return kernel


def write_reference(kernel: Kernel) -> None:
    """Make `kernel` the reference: later builds use the same versions of tools, and should give the same bytes."""
    entry = {"digest": kernel.digest, "sources": sources_digest(), "tools": kernel.tools}
    image.amend_reference({"um_kernel": entry})


def reference() -> dict[str, Any]:
    """Return what is known of the reference kernel: its digest, that of its sources, and the versions of its tools."""
    entry: dict[str, Any] = image.reference().get("um_kernel", {})
    return entry


def reference_digest() -> str:
    """Return the reference kernel's digest; an empty text if this version's sources are not the reference's."""
    entry = reference()
    return str(entry["digest"]) if entry.get("sources") == sources_digest() else ""


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _inputs() -> dict[str, str]:
    """Return the digest of each file of ours that decides what the kernel is."""
    names = (_PATCH, _CONFIG, _COMPILER, *_HEADERS, *_DRIVER)
    return {name: hashlib.sha256((SOURCES / name).read_bytes()).hexdigest() for name in names}


def _pins() -> dict[str, str]:
    """Return the versions of the tools that the reference kernel was built with."""
    pins: dict[str, str] = reference().get("tools", {})
    return pins
