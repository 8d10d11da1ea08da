"""What the README, docs/lab.md, docs/network.md and docs/dcbx-lab.md show a newcomer works as they show it."""

from __future__ import annotations

import re
from pathlib import Path

from testbed import lab
from testbed.lab.engine import Ready

ROOT = Path(__file__).parents[2]


def snippets(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def snippet(page: str) -> str:
    return snippets(page)[0]


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


def test_the_network_pages_topology_and_port_make_a_network(ready: Ready, tmp_path: Path) -> None:
    file = tmp_path / "shown.py"
    file.write_text(
        f"""
from testbed.lab import Run, experiment

SHOWN = {snippets("docs/network.md")[:2]!r}


@experiment()
def shown(run: Run) -> None:
    from testbed.net.network import network

    names = {{}}
    for text in SHOWN:
        exec(text, names)
    with network(names["Pair"](port=names["port"]), run) as net:
        run.claim("pings lost", net.pingAll(), equals=0)
        run.claim("ECN at every port", sorted(net.fabric.port("s1-eth1").settings.ecn), equals=[3])
"""
    )
    assert lab.run(file, on=ready, out=tmp_path).check().claims


def test_the_network_pages_experiment_loses_nothing(ready: Ready, tmp_path: Path) -> None:
    file = tmp_path / "two_to_one.py"
    file.write_text(snippets("docs/network.md")[2])
    result = lab.run(file, on=ready, out=tmp_path).check()
    assert [claim.name for claim in result.claims] == ["lost", "pauses sent"]
    assert '"event": "xoff_sent"' in (result.folder / "events.jsonl").read_text()


def test_the_dcbx_pages_experiment_prints_what_the_page_shows(ready: Ready, tmp_path: Path) -> None:
    page = (ROOT / "docs/dcbx-lab.md").read_text()
    file = tmp_path / "agree.py"
    file.write_text(snippet("docs/dcbx-lab.md"))
    result = lab.run(file, on=ready, out=tmp_path).check()
    for line in (result.folder / "output.log").read_text().splitlines():
        assert not line or f"\n    {line}\n" in page
