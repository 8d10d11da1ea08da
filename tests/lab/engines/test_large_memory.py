"""Processes of the lab that use much memory, in pages that are not side by side in the machine's memory."""

from __future__ import annotations

from testbed.lab import Run, experiment
from testbed.lab.job.job import Limits

CASES = {
    "test_a_process_may_get_and_free_more_than_only_processes_have_again_and_again": [
        {"limits": Limits(memory_mb=3000)}
    ],
}
_MB = 400
"""The size in MB; in pages of 4096 octets it is more than a process has mappings in Linux (vm.max_map_count, 65530)."""


@experiment(timeout="60s")
def test_a_process_keeps_every_page_of_much_memory(run: Run) -> None:
    """Pages are written from the last to the first, read by this process and a child, and changed by both."""
    import mmap
    import os

    memory = mmap.mmap(-1, _MB << 20)
    places = range(0, _MB << 20, mmap.PAGESIZE)

    def count(offset: int) -> int:
        """Return the number of pages that hold their own address and an offset."""
        return sum(int.from_bytes(memory[at : at + 8], "little") == at + offset for at in places)

    def write(offset: int) -> None:
        for at in reversed(places):
            memory[at : at + 8] = (at + offset).to_bytes(8, "little")

    write(1)
    run.claim("pages that hold what was written", count(1), equals=len(places))
    child = os.fork()
    if not child:
        seen = count(1)
        write(2)
        os._exit(0 if seen == len(places) else 1)
    run.claim("status of a child that finds them too, and writes", os.waitpid(child, 0)[1], equals=0)
    run.claim("pages that hold what the child wrote", count(2), equals=len(places))
    own = bytearray(_MB << 20)
    for at in reversed(places):
        own[at] = 1
    run.claim("pages of the process's own", own.count(1), equals=len(places))


@experiment(timeout="60s")
def test_a_process_may_get_and_free_more_than_only_processes_have_again_and_again(run: Run) -> None:
    """On `um` what is beyond 2560 MB is of the kernel's memory; the process does not have its pages twice."""
    import mmap
    import struct

    from testbed.linux.process import kernel

    page, rounds = mmap.PAGESIZE, 4
    held, changing = (2500 if kernel.cpu_work_takes_no_time() else 500) << 20, 200 << 20
    kept = mmap.mmap(-1, held)
    kept[::page] = b"\7" * (held // page)
    for number in range(1, rounds + 1):
        again = mmap.mmap(-1, changing)
        again[::page] = bytes([number]) * (changing // page)
        # Floating point goes on over faults and calls
        third = sum(struct.unpack("d", struct.pack("d", 1 / 3))[0] for _ in range(1000))
        run.claim(f"pages of round {number}", again[::page].count(number), equals=changing // page)
        run.claim(f"thirds of round {number}", round(third, 6), equals=333.333333)
        again.close()
    run.claim("pages that were kept", kept[::page].count(7), equals=held // page)
