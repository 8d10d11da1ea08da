"""The engine `um` under the usual seccomp profile of containers, where addresses of programs are random."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from testbed.lab.um import confinement

from .. import seccomp
from ..conftest import JOBS, ROOT

pytestmark = pytest.mark.engines("um")


def _under_profile(code: str, calls: Sequence[int]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], preexec_fn=partial(seccomp.refuse, calls), capture_output=True, text=True,
        check=True, cwd=ROOT,
    )  # fmt: skip
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("calls", [(), (seccomp.UNSHARE,)], ids=["with namespaces", "without namespaces"])
def test_a_run_in_a_container_has_the_same_digest(undisturbed: str, calls: Sequence[int], tmp_path: Path) -> None:
    code = (
        "from testbed import lab\n"
        "from testbed.experiment import definition\n"
        "from testbed.lab.engines import table\n"
        "from pathlib import Path\n"
        f"job = definition.load_file(Path({str(JOBS / 'behave.py')!r}), 'mixes')\n"
        f"print(lab.run(job, on=table.prepare('um', print), out=Path({str(tmp_path)!r})).check().digest)"
    )
    # Addresses are others each time
    assert [_under_profile(code, calls) for _ in range(3)] == [undisturbed] * 3


def test_the_doctor_says_what_a_container_refuses() -> None:
    code = "from testbed.lab.um import confinement as c; import json; print(json.dumps([c.calls(), c.namespaces()]))"
    assert json.loads(_under_profile(code, ())) == [confinement.calls(), confinement.namespaces()]
    refused, namespaces = json.loads(_under_profile(code, (317, seccomp.UNSHARE)))
    assert refused == "filters that ask (seccomp): Operation not permitted"
    assert "Operation not permitted" in namespaces
