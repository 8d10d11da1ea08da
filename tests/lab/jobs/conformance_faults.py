"""Conformance cases with one fault in the switch, or in what looks at it, so that a claim has to fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from experiments.conformance._case import Bench
from experiments.conformance.headroom_size import headroom_size
from experiments.conformance.l10_deadlock import l10_deadlock
from experiments.conformance.tc02_pfc import tc02_pfc
from experiments.conformance.watchdog_timer import watchdog_timer
from experiments.conformance.watermarks import watermarks
from experiments.conformance.wred_probability import wred_probability
from experiments.conformance.xoff_xon_limits import xoff_xon_limits
from testbed.lab import Experiment, Run, experiment
from testbed.linux.port_program import GroupLimits
from testbed.subjects.sonic.tables import Tables
from testbed.switch.ecn.curve import EcnCurve
from testbed.switch.pfc.watchdog import Watchdog

FRAME_CELLS = 8


def _perform(case: Experiment, run: Run) -> None:
    case(run, speed="100G", buffer="static")


@experiment(timeout="120s")
def no_circle_is_found(run: Run) -> None:
    """Have the watch for deadlocks take each group for one that will resume."""
    from testbed.net.fabric import deadlocks

    deadlocks.stays_congested = lambda *_: False
    _perform(l10_deadlock, run)


@experiment(timeout="120s")
def a_watchdog_that_is_late(run: Run) -> None:
    """The watchdog counts a tenth of the detection time too much."""
    from testbed.linux import pfc_device

    pfc_device.is_there = lambda: False  # the fault is in the agents' code, and the kernel of `um` has its own
    begin = Watchdog.__init__

    def late(self: Watchdog, settings: Any) -> None:
        begin(self, settings)
        self._detection += self._detection // 10

    Watchdog.__init__ = late  # type: ignore[method-assign]
    _perform(watchdog_timer, run)


def _limited(change: Callable[[GroupLimits], GroupLimits]) -> None:
    """The port program gets other limits of lossless groups than the switch's settings have."""
    from testbed.net.fabric import switch_buffer

    exact = switch_buffer.group_limits
    switch_buffer.group_limits = lambda group: change(exact(group)) if group.lossless else exact(group)


@experiment(timeout="240s")
def xoff_a_frame_early(run: Run) -> None:
    _limited(lambda limits: replace(limits, static=limits.static - FRAME_CELLS))
    _perform(xoff_xon_limits, run)


@experiment(timeout="240s")
def xon_a_frame_late(run: Run) -> None:
    _limited(lambda limits: replace(limits, xon_offset=limits.xon_offset + FRAME_CELLS))
    _perform(xoff_xon_limits, run)


@experiment(timeout="400s")
def headroom_of_a_frame_less(run: Run) -> None:
    _limited(lambda limits: replace(limits, headroom=max(0, limits.headroom - FRAME_CELLS)))
    _perform(headroom_size, run)


@experiment(timeout="240s")
def watermarks_that_stay(run: Run) -> None:
    """Clearing watermarks does nothing."""
    from testbed.subjects.sonic.lab.views import SonicViews

    SonicViews.clear_watermark = lambda *_: None  # type: ignore[method-assign]
    _perform(watermarks, run)


@experiment(timeout="120s")
def half_the_marks(run: Run) -> None:
    """The marking probability is half of what it should be."""
    from testbed.net.fabric import queues
    from testbed.switch.ecn.red import red_parameters

    def half(curve: EcnCurve, **more: Any) -> Any:
        return red_parameters(EcnCurve(curve.kmin, curve.kmax, curve.pmax / 2), **more)

    vars(queues)["red_parameters"] = half
    _perform(wred_probability, run)


@experiment(timeout="400s")
def one_of_two_queues_pauses(run: Run) -> None:
    """The switch sends PFC for the first of two lossless priorities alone, whatever its tables say."""
    exact = Bench.switch_of

    def half(self: Bench, tables: Tables) -> Any:
        qos = {port: replace(row, pfc_enable=(row.pfc_enable or frozenset()) - {4}) for port, row in tables.qos.items()}
        return exact(self, replace(tables, qos=qos))

    Bench.switch_of = half  # type: ignore[method-assign]
    _perform(tc02_pfc, run)
