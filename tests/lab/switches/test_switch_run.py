"""`xoff switch run` in the lab: where hosts are, what is lost there, and what to set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.result import Exit

FILES = Path(__file__).parents[2] / "unit" / "data" / "sonic"


@pytest.mark.parametrize("mended", [False, True])
def test_a_run_has_a_sender_at_the_port_that_check_warns_of(
    ready: PreparedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mended: bool
) -> None:
    """A cable of 50 km at the last of eight ports: its host sends, and what to set is in the result, and is enough."""
    monkeypatch.chdir(tmp_path)
    content = json.loads((FILES / "leaf_100g_names.json").read_text())
    content["CABLE_LENGTH"]["AZURE"]["Ethernet28"] = "50km"
    remedy = "remedy for leaf2 Ethernet28"
    if mended:
        content["BUFFER_PROFILE"]["pg_lossless_100000_5m_profile"]["xoff"] = "15593968"
        content["BUFFER_POOL"]["ingress_lossless_pool"]["xoff"] = "15593968"
    Path("leaf.json").write_text(json.dumps(content))
    code = main(["switch", "run", "leaf.json", "--workload", "incast,2", "--engine", ready.engine.name])
    result = json.loads(Path("results/switch_run-001/result.json").read_text())
    figures = {figure["name"]: figure["value"] for figure in result["figures"]}
    assert figures["h1 at leaf2 Ethernet28"].startswith("100Gb/s, 50km, MTU 9100, headroom ")
    assert "h3 at leaf2 Ethernet4" in figures
    if mended:
        assert code == Exit.OK and figures["datagrams lost"] == 0 and remedy not in figures
        assert "XOFF 0" not in figures["leaf2 Ethernet28, group 3"]
        return
    assert code == Exit.FAILED and figures["datagrams lost"] > 0
    assert "dropped by headroom" in figures["leaf2 Ethernet28, group 3"]
    assert figures[remedy].startswith("set xoff of profile pg_lossless_100000_5m_profile to 15593968 (6287216 is")
    assert figures["slowest flow"] > 10**9
    page = Path("results/switch_run-001/report.html")
    assert main(["report", "results/switch_run-001", "-o", str(page)]) == Exit.OK
    shown = page.read_text()
    assert "failed: 2 of 3 claims" in shown and "leaf2-Ethernet28" in shown and "leaf2-eth" not in shown
    assert shown.index("set xoff of profile pg_lossless_100000_5m_profile to") < shown.index('aria-label="Claims"')
