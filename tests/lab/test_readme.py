"""What the README and docs/lab.md show a newcomer works as they show it."""

from __future__ import annotations

import re
from pathlib import Path

from testbed import lab
from testbed.lab.engine import Ready

ROOT = Path(__file__).parents[2]


def snippet(page: str) -> str:
    found = re.search(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_readmes_experiment_runs_and_its_claim_holds(ready: Ready, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(snippet("README.md"))
    result = lab.run(file, on=ready, out=tmp_path).check()
    assert [claim.name for claim in result.claims] == ["round trip"]


def test_the_python_example_runs(ready: Ready, tmp_path: Path) -> None:
    program = snippet("docs/lab.md").replace("seed=3)", "seed=3, out=out)")
    names: dict[str, object] = {"out": tmp_path}
    exec(program, names)
    result = names["result"]
    assert isinstance(result, lab.Result)
    assert (result.seed, result.parameters["hosts"]) == (3, 8)
