"""Incidents on a switch of a file, without the lab: their ports, times and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.errors import UsageError
from testbed.subjects.sonic.lab.incidents import SUMMARIES, Incident, incident_of, scene, wrong_dscp
from testbed.subjects.sonic.lab.settings import Switch
from testbed.units import Rate

FILES = Path(__file__).parents[2] / "data" / "sonic"
STATIC = FILES / "leaf_static.json"


def test_the_scene_has_four_ports_and_times_that_fill_the_group() -> None:
    found = scene(Switch.from_config_db(STATIC), "", 3)
    assert len(set(found.ports)) == 4 and found.rate == Rate("100Gb/s") and found.other_lossless() == 4
    # static_th of 300000 B and the reserved 1248 B, in whole cells of 208 B, at 50 Gb/s
    assert found.fills(Rate("50Gb/s"), 3).ps == (300000 // 208 + 1248 // 208) * 208 * 8 * 20
    assert scene(Switch.from_config_db(STATIC), "Ethernet8", 3).ports[0] == "Ethernet8"


def test_the_wrong_dscp_is_one_of_a_lossy_class() -> None:
    found = scene(Switch.from_config_db(STATIC), "", 3)
    assert wrong_dscp(found) == 1, "0 would be no mark"
    assert found.switch.dscp(3, found.ports[0]) == 3


def test_mistakes_are_named_before_anything_is_set_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {*SUMMARIES} == {*Incident} and incident_of("storm") is Incident.STORM
    with pytest.raises(UsageError, match="did you mean storm"):
        incident_of("strom")
    with pytest.raises(UsageError, match="has no PFC for priority 5, it has it for 3, 4; --priority N"):
        scene(Switch.from_config_db(STATIC), "", 5)
    assert main(["switch", "incident", "strom", str(STATIC)]) == 2
    assert main(["switch", "incident", "storm", str(STATIC), "--port", "Ethernet3"]) == 2
    assert "Ethernet3" in capsys.readouterr().err
    small = json.loads(STATIC.read_text())
    small["PORT"] = dict(list(small["PORT"].items())[:2])
    for table in ("CABLE_LENGTH", "BUFFER_PG", "BUFFER_QUEUE", "PORT_QOS_MAP", "QUEUE", "PFC_WD"):
        small.pop(table, None)
    (tmp_path / "small.json").write_text(json.dumps(small))
    assert main(["switch", "incident", "storm", str(tmp_path / "small.json")]) == 2
