"""A workload on switches that are read from config_db.json files; `xoff switch run` runs it.

xoff run FILE.py --set switches=leaf1.json,spine1.json --set workload=incast,8
"""

from testbed.subjects.sonic.lab import run as sonic_run
from xoff import File, Run, experiment


@experiment(timeout="600s")
def switch_run(
    run: Run,
    switches: tuple[File, ...],
    *,
    workload: str = "incast,2",
    size: str = "1MB",
    frame: str = "1514B",
    priority: int = 3,
    scale: int = 0,
    cell: int = 208,
    ports: str = "",
) -> None:
    """A workload over switches of SONiC's: losses, pauses and watermarks."""
    sonic_run.perform(
        run,
        [switch.path for switch in switches],
        workload=workload,
        size=size,
        frame=frame,
        priority=priority,
        scale=scale,
        cell=cell,
        ports=ports,
    )
