"""A training job of execution traces over a topology; `xoff workload --trace` runs it."""

from testbed.measures import training_load
from testbed.measures.background import Background
from testbed.measures.fabric_under_test import FabricUnderTest
from testbed.measures.own_files import in_files
from testbed.measures.training_load import TrainingLoad
from xoff import File, Run, experiment


@experiment(timeout="3600s")
def trace(
    run: Run,
    traces: tuple[File, ...],
    files: tuple[File, ...] | None = None,
    table: File | None = None,
    *,
    topo: str = "fat-tree,4",
    control: str = "dcqcn",
    ranks: int = 0,
    shrink: int = 1,
    stragglers: str = "",
    pfc: bool = True,
    ecn: str = "auto",
    recovery: str = "go-back-N",
    load: str = "",
    sizes: str = "websearch",
    pattern: str = "random",
) -> None:
    """A training job: computing, collectives and messages of its execution traces, and the job completion time."""
    paths = [file.path for file in files or ()]
    fabric = FabricUnderTest.of(
        in_files(topo, paths), control=in_files(control, paths), pfc=pfc, ecn=ecn, recovery=recovery
    )
    contents = [(file.name, file.read_bytes()) for file in traces]
    text = None if table is None else table.read_text()
    beside = Background.of(load=load, sizes=sizes, table=text, pattern=pattern)
    job = TrainingLoad.of(fabric, contents, ranks=ranks, shrink=shrink, stragglers=stragglers, beside=beside)
    training_load.perform(run, job)
