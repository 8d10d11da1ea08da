"""An incident on a switch that is read from a config_db.json; `xoff switch incident` runs it.

xoff run FILE.py --set switch=leaf1.json --set what=storm
"""

from typing import Annotated

from testbed.subjects.sonic.lab import incidents
from xoff import File, OneOf, Run, experiment


@experiment(timeout="900s")
def incident(
    run: Run,
    switch: File,
    *,
    what: Annotated[str, OneOf("victim", "storm", "flap", "dscp")] = "storm",
    port: str = "",
    priority: int = 3,
    cell: int = 208,
) -> None:
    """A victim of PFC, a storm, a flapping link or a wrong DSCP map, on a switch of SONiC's."""
    incidents.perform(run, what, switch.path, port=port, priority=priority, cell=cell)
