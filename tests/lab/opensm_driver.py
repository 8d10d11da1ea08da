"""OpenSM on ibsim's fabric, for path record queries without hardware. It runs in a network namespace of its own, as
ibsim always takes the same port of the loopback interface:

    unshare --net python opensm_driver.py < job.json

The job has ibsim's fabric, OpenSM's partitions and options, and cases, each a policy with its queries, which are
options of saquery. The answer is JSON: for each case whether OpenSM took the policy, and the fields of each answer or
null.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PRELOADED = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"
_FIELD = re.compile(r"^\s+([a-z_0-9]+)\.+(\S+)$", re.MULTILINE)
_REFUSED = re.compile(r"ERR AC(?!14|02)|Failed parsing|Error in policy|[Ss]yntax error|validation failed")
"""AC14 and AC02 name a partition that does not exist, which is no reason to refuse."""
_PATIENCE_S = 90


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
        self._children: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Opensm:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        (self._folder / "net").write_text(self._job["net"])
        (self._folder / "partitions.conf").write_text(self._job["partitions"])
        (self._folder / "opensm.conf").write_text("force_log_flush TRUE\n" + self._job["options"])
        self._start(["ibsim", "-s", "net"], os.environ)
        time.sleep(0.5)  # it has no sign of being ready, and OpenSM does not try twice
        return self

    def __exit__(self, *_: object) -> None:
        while self._children:
            self._end(self._children.pop())

    def _end(self, child: subprocess.Popen[bytes]) -> None:
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
        self._children.append(child)

    def load(self, policy: str) -> bool:
        """Start OpenSM with a policy; whether it took it. A sweep on SIGHUP does not always read the file again."""
        if len(self._children) > 1:
            self._end(self._children.pop())
        self._log.unlink(missing_ok=True)
        self._policy.write_text(policy)
        options = ["-F", "opensm.conf", "-Q", "-Y", str(self._policy), "-P", "partitions.conf", "-f", str(self._log)]
        self._start(["opensm", *options, "-e", "-s", "0"], self._environment | {"SIM_HOST": self._job["manager"]})
        deadline = time.monotonic() + _PATIENCE_S
        log = ""
        while time.monotonic() < deadline:
            log = self._log.read_text(errors="replace") if self._log.exists() else ""
            if "SUBNET UP" in log and "Loading QoS policy file" in log:
                return not _REFUSED.search(log)
            time.sleep(0.05)
        raise SystemExit(f"OpenSM was not ready after {_PATIENCE_S} s: {log[-2000:]}")

    def query(self, options: list[str]) -> dict[str, str] | None:
        environment = self._environment | {"SIM_HOST": self._job["client"]}
        done = subprocess.run(
            ["saquery", "PR", *options], env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        return dict(_FIELD.findall(done.stdout)) or None


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
