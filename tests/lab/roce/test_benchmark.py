"""`xoff benchmark` and training jobs in the lab: one test on a SONiC switch, and one job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.foreign import ForeignFolder
from testbed.lab.results.result import Result
from testbed.lab.studies.benchmark import FILE, Benchmark

from ..processes import Dask, Start

SONIC = Path(__file__).parents[2] / "unit" / "data" / "sonic" / "leaf_100g_classic.json"


def test_a_storm_at_a_switch_of_a_file_and_its_report(ready: PreparedEngine, tmp_path: Path) -> None:
    words = ["benchmark", str(SONIC), "--quick", "--test", "storm", "-o", str(tmp_path), "-j", "1"]
    assert ready.engine.name == "um" and main(words) == 0
    found = Benchmark.read(tmp_path)
    (outcome,) = found.outcomes
    assert found.passed and outcome.claims >= 5 and len(outcome.digests) == 1
    stopped = outcome.rows["storm, flow to its host"]
    assert stopped["of its rate during the storm"].value == 0
    assert outcome.rows["storm, between two others"]["of its rate during the storm"].value > 90
    assert outcome.rows["permutation at line rate"]["deadlocks found"].value == 0
    page = (tmp_path / "report.html").read_text()
    assert "7.4 PFC storm" in page and 'class="topology' in page, "with a drawing of the switch and its hosts"
    assert json.loads((tmp_path / FILE).read_text())["settings"]["PFC"] == "priority 3"


def test_section_6_of_the_link_layer_on_a_fabric(ready: PreparedEngine, tmp_path: Path) -> None:
    """6.5: retry by the cable is quicker than the transport's, a rest is there before a request, credits stop more."""
    words = [
        "benchmark",
        "leaf-spine,2,2,2",
        "--quick",
        "--test",
        "retry,trimming,credits",
        "-o",
        str(tmp_path),
        "-j",
        "1",
    ]
    assert ready.engine.name == "um" and main(words) == 0
    found = Benchmark.read(tmp_path)
    assert found.passed and all(one.claims for one in found.outcomes)
    retry, trimming, credits = (one.rows for one in found.outcomes)
    assert retry["LLR"]["packets sent again"].value == retry["LLR"]["frames of the load lost"].value == 0
    assert retry["go-back-N"]["frames of the load lost"].value > 0
    assert 0 < retry["LLR"]["retry on average"].value < retry["go-back-N"]["retry on average"].value
    cut = trimming["trimmed, selective repeat"]
    assert cut["frames dropped"].value == 0 < cut["frames trimmed"].value
    assert 0 < cut["first rest after"].value < cut["first request after"].value
    assert credits["CBFC, a channel apart"]["head-of-line blocking"].value == 0
    assert credits["CBFC"]["head-of-line blocking"].value > 0 < credits["PFC"]["head-of-line blocking"].value
    assert credits["CBFC"]["hops of the stop"].value >= credits["PFC"]["hops of the stop"].value >= 1
    assert {one["section"] for one in json.loads((tmp_path / FILE).read_text())["not_measured"]} >= {"6.1", "6.7"}


@pytest.mark.long
def test_a_cluster_makes_what_this_machine_makes(ready: PreparedEngine, start: Start, tmp_path: Path) -> None:
    assert ready.engine.name == "um"
    dask = Dask(start, tmp_path)
    dask.worker(), dask.worker()
    words = ["benchmark", "leaf-spine,2,2,2", "--quick", "--test", "burst,scale,soak"]
    assert main([*words, "--scheduler", dask.address, "-o", str(tmp_path / "there")]) == 0
    assert main([*words, "-j", "1", "-o", str(tmp_path / "here")]) == 0
    there, here = (Benchmark.read(tmp_path / name) for name in ("there", "here"))
    assert [one.digests for one in there.outcomes] == [one.digests for one in here.outcomes]
    burst, scale, soak = (one.rows for one in there.outcomes)
    assert 0 < burst["2 to 1"]["octets until a pause"].value < burst["2 to 1"]["octets until a loss"].value
    assert burst["8 to 1"]["not applicable"].value == "there are 4 hosts"
    assert scale["N = 4"]["JCT ratio"].value > 1 and "not applicable" in scale["N = 16"]
    assert soak["all iterations"]["cells left in buffers at most"].value == 0 and "not applicable" in soak["24 hours"]


def test_a_straggler_of_a_training_job(ready: PreparedEngine, tmp_path: Path) -> None:
    words = [
        "workload",
        "--trace",
        "pipeline",
        "--topo",
        "incast,3",
        "--straggler",
        "2=2",
        "--engine",
        ready.engine.name,
    ]
    assert main([*words, "--out", str(tmp_path)]) == 0
    (folder,) = tmp_path.iterdir()
    result = Result.read(ForeignFolder(folder))
    assert result.passed and result.figure("ranks") == 4
    # Two micro-batches of 150 us forward and 300 us back, at the straggler twice as long.
    assert result.figure("computing of the slowest rank") == 1_800_000
    # The first rank waits for activations to go down, and for gradients to come up, through the straggler.
    assert result.figure("job completion time") > 1_800_000 + 3 * 150_000
    assert result.again is not None and result.again.command[:3] == ("workload", "--trace", "pipeline")


def test_a_training_job_among_flows_at_random_takes_longer_and_is_the_same_again(
    ready: PreparedEngine, tmp_path: Path
) -> None:
    words = ["workload", "--trace", "pipeline", "--topo", "leaf-spine,2,2,4", "--engine", ready.engine.name]
    found = []
    for name, more in (("alone", []), ("beside", ["--load", "50%"]), ("again", ["--load", "50%"])):
        assert main([*words, *more, "--out", str(tmp_path / name)]) == 0
        (folder,) = (tmp_path / name).iterdir()
        found.append(Result.read(ForeignFolder(folder)))
    alone, beside, again = found
    assert beside.digest == again.digest
    assert beside.figure("flows at random that began beside the job") == 154
    assert beside.figure("data sent, in octets") == alone.figure("data sent, in octets")
    assert alone.figure("job completion time") == 3_037_708.8
    assert beside.figure("job completion time") == 3_677_255.523
    assert beside.again is not None
    assert "--load 50% --sizes websearch --pattern random" in " ".join(beside.again.command)
