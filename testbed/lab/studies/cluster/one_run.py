"""A process for one run on a worker: the request and the job come on standard input, and the result goes to standard
output.

    python -m testbed.lab.studies.cluster.one_run < request

The request is a line of JSON, the job all that follows. The result folder comes as a tar. Exit code 75: the lab is not
in the cache, and the request names no file with it; 1: an error, which is on standard error.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from testbed.errors import XoffError, plain
from testbed.experiment.fidelity import Thresholds
from testbed.lab.engines import lab_file
from testbed.lab.engines.um import PreparedUm, Um
from testbed.lab.host import cache, cores
from testbed.lab.image import image, plain_tar
from testbed.lab.image.packages import Packages
from testbed.lab.job.job import Job
from testbed.lab.results.result import Again, Status
from testbed.lab.runs import api
from testbed.lab.runs.api import PackedRun
from testbed.lab.studies.cluster.on_worker import WANTS_LAB
from testbed.lab.um import disks, kernel
from testbed.linux.process import kernel as linux


def main() -> int:
    """Make the run, and return the exit code."""
    linux.die_with_parent()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else may get between the octets of the result
    cancel = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: cancel.set())
    request = json.loads(sys.stdin.buffer.readline())
    job = sys.stdin.buffer.read()
    try:
        prepared = prepared_for(request)
        if prepared is None:
            return WANTS_LAB
        cores.share(len(cores.available()))  # the worker's other threads have runs too
        with cache.owned("cluster-run") as work:
            result = api.make(_packed(request, job), prepared, out=work, cancel=cancel)
            if result.status is Status.DISK_FULL:
                print(result.reason, file=sys.stderr)  # which other machines may not have
                return 1
            assert result.folder is not None
            with out:
                plain_tar.pack_folder(result.folder, out)
    except XoffError as error:
        print(plain(error), file=sys.stderr)
        return 1
    return 0


def _packed(request: Mapping[str, Any], tar: bytes) -> PackedRun:
    job = Job.decode(request["job"])  # which leaves out what the lab may not depend on
    job = replace(job, limits=replace(job.limits, wall_s=request["wall_s"]))
    again = Again(tuple(request["again"]["command"]), request["again"]["files"])
    thresholds = Thresholds(**request["thresholds"])
    return PackedRun(request["experiment"], job, tar, request["code"], request["commit"], again, thresholds)


def prepared_for(request: Mapping[str, Any]) -> PreparedUm | None:
    """Return the engine `um` with the lab of the request, or None if there is none.

    The lab is imported from the request's file if it is not here. A machine may have a lab of its own, which stays as
    it is: what comes for a sweep is in a cache beside it.
    """
    lab = request["image"], request["kernel"]
    if not _is_here(*lab):
        os.environ["XOFF_CACHE"] = str(cache.folder("cluster") / f"lab-{lab[0][:16]}-{lab[1][:16]}")
        with cache.locked("lab of a sweep", _say):
            if not _is_here(*lab):
                if not request["lab"]:
                    return None
                lab_file.import_(Path(request["lab"]), _say, lambda *_: None)
        if Path(request["lab"]).parent.name == "parts":
            Path(request["lab"]).unlink(missing_ok=True)
    with suppress(OSError):
        os.utime(cache.root())
    found, built = image.described(), kernel.current()
    assert found is not None and built is not None
    root = disks.root(found, _say)
    further = request["packages"]
    held = Packages.of_json(further) if further else None
    mounted = {"XOFF_ROOT": root, "XOFF_CODE": Path(request["disk"])}
    return PreparedUm(engine=Um(), image=found, kernel=built, disks=mounted, packages=held)


def _is_here(digest: str, kernel_digest: str) -> bool:
    found, built = image.described(), kernel.current()
    return (
        found is not None
        and found.digest == digest
        and disks.has_root(found)
        and built is not None
        and built.digest == kernel_digest
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
