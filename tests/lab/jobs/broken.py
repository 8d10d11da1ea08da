"""Experiments on networks with a fault that their claims have to find."""

from dataclasses import replace
from typing import Any

from testbed.lab import Run, experiment


@experiment(_in_lab_time=True, timeout="120s")
def a_threshold_of_one_cell_more(run: Run) -> None:
    from experiments.pfc import thresholds
    from testbed.net.fabric import switch_buffer

    told = switch_buffer.group_limits
    switch_buffer.group_limits = lambda group: replace(told(group), static=told(group).static + 1)
    thresholds._static(run)


@experiment(_in_lab_time=True, timeout="120s")
def an_offset_of_one_cell_more(run: Run) -> None:
    from experiments.pfc import hysteresis
    from testbed.net.fabric import switch_buffer

    told = switch_buffer.group_limits
    switch_buffer.group_limits = lambda group: replace(told(group), xon_offset=told(group).xon_offset + 1)
    hysteresis._exactly(run)


@experiment(_in_lab_time=True, timeout="120s")
def headroom_for_no_frame(run: Run) -> None:
    from experiments.pfc import incast
    from testbed.net.fabric.port import PortNeeds

    PortNeeds.headroom_cells = lambda *_: 0  # type: ignore[method-assign]
    incast.incast(run)


@experiment(_in_lab_time=True, timeout="120s")
def a_cable_that_loses_frames(run: Run) -> None:
    """Data, which no switch's counters tell, and PAUSE, so that switches drop as well."""
    from experiments.pfc import conservation
    from testbed.net.build import options
    from testbed.net.fabric.cable import Cable

    def lossy(*described: Any) -> Cable:
        cable = whole(*described)
        return Cable(cable.rate, delay=cable.delay, loss="1/200")

    whole = options.cable_of
    vars(options)["cable_of"] = lossy
    conservation.conservation(run)
