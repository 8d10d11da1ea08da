"""The IPv6 addresses and static routes of an interface, which Linux forgets when it is set down.

iproute2 writes and reads them.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass

from testbed.linux.process.kernel import in_network_of

_STATIC = ("boot", "static")
"""The protocols of routes that no daemon has set, which would set them again itself, and not the kernel either."""


@dataclass(frozen=True)
class Forgotten:
    """The settings of an interface as `remember` has read them, in the form of iproute2."""

    pid: int
    tables: tuple[tuple[tuple[str, ...], bytes], ...]
    """The first words of a command that has put octets out, and these."""

    def restore(self) -> list[str]:
        """Give it back to the interface, which is up again; return what the kernel refused."""
        refused = []
        for words, octets in self.tables:
            with tempfile.TemporaryFile() as file, in_network_of(self.pid):  # iproute2 reads it more than once
                file.write(octets)
                file.seek(0)
                done = subprocess.run([*words, "restore"], stdin=file, capture_output=True, check=False)
            if done.returncode:
                refused.append(f"{' '.join(words)}: {done.stderr.decode(errors='replace').strip()}")
        return refused


def remember(pid: int, interface: str) -> Forgotten:
    """Read what Linux will forget of an interface in the network of a process once it is down."""
    wanted: list[tuple[tuple[str, ...], tuple[str, ...]]] = [(("ip", "-6", "address"), ())]
    for family in ("-4", "-6"):
        wanted += [(("ip", family, "route"), ("table", "all", "proto", protocol)) for protocol in _STATIC]
    with in_network_of(pid):
        saved = [
            (words, subprocess.run([*words, "save", "dev", interface, *which], capture_output=True, check=True).stdout)
            for words, which in wanted
        ]
    return Forgotten(pid, tuple(saved))
