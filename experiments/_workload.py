"""A load of RoCE flows over a topology; `xoff workload` runs it."""

from testbed.measures import offered_load
from testbed.measures.offered_load import OfferedLoad
from testbed.measures.own_files import in_files
from xoff import Duration, File, Run, experiment


@experiment(timeout="3600s")
def workload(
    run: Run,
    table: File | None = None,
    files: tuple[File, ...] | None = None,
    *,
    topo: str = "fat-tree,4",
    sizes: str = "websearch",
    load: str = "50%",
    control: str = "dcqcn",
    pattern: str = "random",
    flows: int = offered_load.FLOWS,
    duration: Duration = Duration("0s"),
    hosts: int = 0,
    pfc: bool = True,
    ecn: str = "auto",
    recovery: str = "go-back-N",
    pull: str = "",
) -> None:
    """A load of RoCE flows: completion times, slowdown, pauses, marks and losses."""
    paths = [file.path for file in files or ()]
    wanted = OfferedLoad.of(
        topo=in_files(topo, paths), sizes=sizes, table=None if table is None else table.read_text(), load=load,
        control=in_files(control, paths),
        pattern=pattern, flows=flows, lasts=duration, hosts=hosts, pfc=pfc, ecn=ecn, recovery=recovery, pulls=pull,
    )  # fmt: skip
    offered_load.perform(run, wanted)
