"""Templates of `xoff new` work as they are, and an installed package's experiment runs in the lab with its own code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.lab.engines.engine import PreparedEngine
from tests.packages_of_others import install

ROOT = Path(__file__).parents[3]


def run(folder: Path, ready: PreparedEngine, *words: str, **variables: str) -> None:
    """`xoff run` in a process of its own, whose claims all hold."""
    path = os.pathsep.join(filter(None, [str(ROOT), variables.get("PYTHONPATH", "")]))
    command = [
        sys.executable,
        "-m",
        "testbed",
        "run",
        *words,
        "--engine",
        str(ready.engine.name),
        "--out",
        str(folder / "out"),
    ]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("experiment", "mine.py"),
        ("topology", "try_mine.py"),
        ("rate-control", "mine.py"),
        pytest.param("marking-rule", "mine.py", marks=pytest.mark.engines("um")),
    ],
)
def test_what_is_new_passes_its_own_claims(kind: str, file: str, ready: PreparedEngine, tmp_path: Path) -> None:
    assert main(["new", kind, "mine", "--into", str(tmp_path)]) == 0
    run(tmp_path, ready, file)


ADDED = '''
from testbed.lab import Run, experiment
from plug.rates import Plug


@experiment
def uses(run: Run, control: str = "plug") -> None:
    """The topology and the rate control of this package, by their names."""
    from testbed.net.build.network import network
    from testbed.net.shell.topologies import build
    from testbed.net.traffic import Flow, Flows

    with network(build("plug,1"), autoStaticArp=True) as net:
        flow = Flow("h1", "r", transport="roce", size="50kB", rate_control=control)
        with run.measuring(), Flows([flow]) as flows:
            flows.wait()
        run.claim("lost", flows.reports[0].lost, equals=0)
    run.claim("the rate control is that of the package", Plug.__module__, equals="plug.rates")
'''


def test_an_experiment_of_an_installed_package_runs_with_its_topology_and_rate_control(
    ready: PreparedEngine, tmp_path: Path
) -> None:
    site = install(tmp_path, broken=True)
    (site / "plug" / "more.py").write_text(ADDED)
    points = site / "plug-0.1.0.dist-info" / "entry_points.txt"
    points.write_text(points.read_text().replace("plug = plug.experiments:plug", "uses = plug.more:uses"))
    run(tmp_path, ready, "uses", PYTHONPATH=str(site))
