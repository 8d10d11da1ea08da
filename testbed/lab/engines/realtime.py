"""The engine `realtime`: the virtual machine of `vm` in real time, on KVM where it works."""

from __future__ import annotations

import json
import os
import platform

from testbed.lab.engines import words
from testbed.lab.engines.vm import VirtualMachine
from testbed.lab.host import cache
from testbed.lab.host.cache import Report
from testbed.lab.image.image import Image
from testbed.lab.image.packages import Packages
from testbed.lab.vm import qemu, snapshot
from testbed.lab.vm.qemu import QemuError
from testbed.lab.vm.snapshot import Snapshot

_KVM_BOOT_SECONDS = 60.0


class Realtime(VirtualMachine):
    """QEMU without a clock of its own."""

    name = words.REALTIME.name
    summary = words.REALTIME.summary

    def snapshot(self, of: Image, report: Report, packages: Packages | None) -> Snapshot:
        """Take KVM if it really runs the guest; that there is a /dev/kvm does not prove it."""
        verdict = cache.root() / f"kvm-{platform.release()}-{qemu.version()}.json"
        try:
            works, why = json.loads(verdict.read_text())
        except (OSError, ValueError, TypeError, RecursionError):
            works, why = True, ""
            if not os.access("/dev/kvm", os.R_OK | os.W_OK):
                works, why = False, "there is no /dev/kvm that we may use"
        if works:
            try:
                found = snapshot.ensure(of, qemu.KVM, report, _KVM_BOOT_SECONDS, packages)
                report("real time on KVM")
                return found
            except QemuError as error:
                why = str(error).splitlines()[-1].strip()
                verdict.write_text(json.dumps([False, why]))
        report(f"real time without KVM ({why}): the lab will be slow, and short of CPU under load")
        return snapshot.ensure(of, qemu.TCG, report, packages=packages)
