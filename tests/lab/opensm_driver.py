"""OpenSM on ibsim's fabric, for path record queries without hardware. It runs in a network namespace of its own, as
ibsim's abstract sockets always have the same names:

    unshare --net python opensm_driver.py < job.json

The job has ibsim's fabric, OpenSM's partitions and options, and cases, each a policy with its queries, which are
options of saquery. The answer is JSON: for each case whether OpenSM took the policy, and for each query the fields of
the path, or null if OpenSM answers that there is none. No answer at all is neither: saquery has an exit code for it,
and the query is repeated. After `PATIENCE_S`, or when OpenSM has ended, the driver ends with the reason.
"""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PRELOADED = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"
_FIELD = re.compile(r"^\s+([a-z_0-9]+)\.+(\S+)$", re.MULTILINE)
_REFUSED = re.compile(r"ERR AC(?!14|02)|Failed parsing|Error in policy|[Ss]yntax error|validation failed")
"""AC14 and AC02 name a partition that does not exist, which is no reason to refuse."""
_SIMULATOR = "@sim:ctl"
"""ibsim has this socket once it has read its fabric."""
_FIRST_TIMEOUT_S, _LONGEST_TIMEOUT_S = 1.0, 16.0
"""The first and the longest time that saquery waits for an answer; it is doubled for each repetition."""
_START_S = 10.0
"""The time that saquery itself may take, on a busy machine. It waits for ever when the answer to a query of before
reaches it, which OpenSM sends once it goes on: ibsim's `umad_recv` does not keep the time for a second message."""
PATIENCE_S = 90.0


class Opensm:
    """ibsim and OpenSM, as long as the context lasts."""

    def __init__(self, folder: Path, job: dict[str, Any]) -> None:
        self._folder, self._job = folder, job
        self._log, self._policy = folder / "osm.log", folder / "policy.conf"
        self._environment = os.environ | {
            "OSM_TMP_DIR": str(folder),
            "OSM_CACHE_DIR": str(folder),
            "LD_PRELOAD": PRELOADED,
        }
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Opensm:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        (self._folder / "net").write_text(self._job["net"])
        (self._folder / "partitions.conf").write_text(self._job["partitions"])
        (self._folder / "opensm.conf").write_text("force_log_flush TRUE\n" + self._job["options"])
        self._start(["ibsim", "-s", "net"], os.environ)
        self._until("ibsim", lambda: _SIMULATOR in Path("/proc/self/net/unix").read_text())
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(list(self._children)):
            self._end(name)

    def _end(self, name: str) -> None:
        child = self._children.pop(name)
        child.terminate()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _start(self, command: list[str], environment: Any) -> None:
        with (self._folder / f"{command[0]}.out").open("wb") as output:
            child = subprocess.Popen(
                command, cwd=self._folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._children[command[0]] = child

    def _check_running(self) -> None:
        for name, child in self._children.items():
            if child.poll() is not None:
                raise SystemExit(f"{name} has ended with {child.returncode}: {self._said(name)}")

    def _until(self, name: str, is_so: Callable[[], bool]) -> None:
        """Wait for the program's sign of being ready."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            self._check_running()
            if time.monotonic() > deadline:
                raise SystemExit(f"{name} was not ready after {PATIENCE_S:g} s: {self._said(name)}")
            time.sleep(0.02)

    def _logged(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def _said(self, name: str) -> str:
        output = (self._folder / f"{name}.out").read_text(errors="replace")[-2000:]
        return output + self._logged()[-2000:] if name == "opensm" else output

    def load(self, policy: str) -> bool:
        """Start OpenSM with a policy; whether it took it. A sweep on SIGHUP does not always read the file again."""
        if "opensm" in self._children:
            self._end("opensm")
        self._log.unlink(missing_ok=True)
        self._policy.write_text(policy)
        options = ["-F", "opensm.conf", "-Q", "-Y", str(self._policy), "-P", "partitions.conf", "-f", str(self._log)]
        self._start(["opensm", *options, "-e", "-s", "0"], self._environment | {"SIM_HOST": self._job["manager"]})

        self._until("opensm", lambda: all(sign in self._logged() for sign in ("SUBNET UP", "Loading QoS policy file")))
        return not _REFUSED.search(self._logged())

    def query(self, options: list[str]) -> dict[str, str] | None:
        """The fields of the path; None if OpenSM answers that there is none."""
        environment = self._environment | {"SIM_HOST": self._job["client"]}
        deadline, timeout_s, times = time.monotonic() + PATIENCE_S, _FIRST_TIMEOUT_S, 0
        while True:
            self._check_running()
            times += 1
            command = ["saquery", "PR", "-t", f"{timeout_s * 1000:.0f}", *options]
            try:
                done = subprocess.run(
                    command, cwd=self._folder, env=environment, capture_output=True, text=True, check=False,
                    timeout=timeout_s + _START_S,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                pass  # no answer, either
            else:
                if done.returncode == 0:
                    return dict(_FIELD.findall(done.stdout)) or None
                if done.returncode != errno.ETIMEDOUT:
                    raise SystemExit(f"{' '.join(command)} ends with {done.returncode}: {done.stderr[-2000:]}")
            if time.monotonic() > deadline:
                why = f"OpenSM did not answer {times} times in {PATIENCE_S:g} s"
                raise SystemExit(f"{why}: {' '.join(options)}: {self._said('opensm')}")
            timeout_s = min(2 * timeout_s, _LONGEST_TIMEOUT_S)


def main() -> int:
    job = json.load(sys.stdin)
    answers = []
    with tempfile.TemporaryDirectory() as folder, Opensm(Path(folder), job) as opensm:
        for case in job["cases"]:
            taken = opensm.load(case["policy"])
            begun = time.monotonic()
            found = [opensm.query(query) for query in case["queries"]] if taken else []
            answers.append({"taken": taken, "found": found, "seconds": time.monotonic() - begun})
    print(json.dumps(answers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
