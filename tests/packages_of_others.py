"""A package of another author, as if pip had installed it into a folder, with broken entry points if wanted."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

from testbed.cli import main

BROKEN = {
    "xoff.experiments": {"gone": "plug.nowhere:gone", "other": "plug.experiments:plug", "raises": "plug.raises:raises"},
    "xoff.topologies": {"gone-too": "plug.topologies:Nothing"},
    "xoff.rate_controls": {"not-here": "absent_package:Thing"},
}


def install(folder: Path, broken: bool = False) -> Path:
    """The package `plug` in a folder that can be put on the path of Python."""
    assert main(["new", "package", "plug", "--into", str(folder / "source")]) == 0
    source, site = folder / "source" / "plug", folder / "site"
    shutil.copytree(source / "plug", site / "plug")
    described = site / "plug-0.1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 0.1.0\n")
    groups = tomllib.loads((source / "pyproject.toml").read_text())["project"]["entry-points"]
    if broken:
        (site / "plug" / "raises.py").write_text('raise ValueError("\\x1b[31m broken\\nby itself")\n')
        groups = {group: entries | BROKEN[group] for group, entries in groups.items()}
    lines = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{k} = {v}" for k, v in entries.items()))
    ]
    (described / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return site
