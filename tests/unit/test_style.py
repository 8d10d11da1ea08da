"""The project's own checks, as tests, so that `xoff test` is all there is to run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("check", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]], ids=" ".join)
def test_code_passes(check: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", *check], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_lower_layer_never_imports_a_higher_one() -> None:
    """The order of `docs/architecture.md`, from the top down."""
    protocols = ("dcbx", "headroom", "buffer", "pfc", "priority", "ecn", "roce", "srv6", "policy", "workload")
    layers = [
        ("cli", "mn"),
        ("report",),
        ("lab",),
        ("net",),
        ("agent",),
        ("linux",),
        protocols,
        ("scapy_layers", "rest"),
        ("typed_json",),
    ]
    layers += [("frames",), ("units",), ("errors",)]
    level = {name: number for number, names in enumerate(layers) for name in names}
    wrong = []
    for path in (ROOT / "testbed").rglob("*.py"):
        own = path.relative_to(ROOT / "testbed").parts[0].removesuffix(".py")
        if own.startswith("__"):
            continue
        for line in path.read_text().splitlines():
            words = line.split()
            if words[:1] in (["from"], ["import"]) and words[1].startswith("testbed."):
                other = words[1].split(".")[1]
                upwards = level[other] < level[own] or (other != own and {other, own} <= set(protocols))
                if upwards:
                    wrong.append(f"{path.name}: {line.strip()}")
    assert wrong == []
