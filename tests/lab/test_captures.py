"""PFC frames of the lab, read by a decoder that nobody here wrote."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from .conftest import Runner

pytestmark = pytest.mark.packages("tshark")
_CLASSES = range(8)


@pytest.fixture
def tshark() -> str:
    found = shutil.which("tshark")
    if found is None:
        pytest.skip("tshark is missing, so nobody but us can read the captures")
    return found


def test_tshark_reads_every_pfc_frame_to_the_same_values_and_complains_of_none(run: Runner, tshark: str) -> None:
    result = run("captures:pause_frames").check()
    assert result.folder is not None
    rows = _read(tshark, result.folder / "h1.pcap")
    source = result.figure("source")
    told = {kind: [0] * 8 for kind in ("xoff", "xon")}
    for length, sender, opcode, enabled, *times, complaint in rows:
        assert (length, sender, int(opcode, 16), complaint) == ("60", source, 0x0101, "")
        mask = int(enabled, 16)
        for number in _CLASSES:
            quanta = int(times[number], 0)
            if mask >> number & 1:
                told["xoff" if quanta else "xon"][number] += 1
                assert quanta in (0, 2000)
            else:
                assert quanta == 0
    sent = [a + b for a, b in zip(result.figure("xoff_sent"), result.figure("xoff_refreshed"), strict=True)]
    assert told["xoff"] == sent, "each XOFF and refresh that the agent counted, and no other"
    assert told["xon"] == result.figure("xon_sent")
    assert all(sent[number] and told["xon"][number] for number in (1, 2, 3))
    assert sum(result.figure("xoff_refreshed")) > 0


def _read(tshark: str, file: Path) -> list[list[str]]:
    fields = ["frame.len", "eth.src", "macc.opcode", "macc.cbfc.enbv"]
    fields += [f"macc.cbfc.pause_time.c{number}" for number in _CLASSES] + ["_ws.expert.message"]
    command = [tshark, "-r", str(file), "-T", "fields", "-E", "separator=|"]
    done = subprocess.run(
        [*command, *[part for field in fields for part in ("-e", field)]], capture_output=True, text=True, check=True
    )
    rows = [line.split("|") for line in done.stdout.splitlines()]
    assert len(rows) > 10
    return rows
