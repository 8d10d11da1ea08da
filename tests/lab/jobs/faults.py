"""Experiments with one fault in what they test, so that a claim has to fail."""

from __future__ import annotations

from typing import Any

from experiments.congestion import ecn_ramp, ecn_step
from experiments.headroom import headroom_response, headroom_short
from experiments.pfc import deadlock as ring
from experiments.pfc import duty_cycle, not_enabled, response, storm, watchdog
from testbed.agent.orders import NOTICE, NoticeType
from testbed.lab import Run, experiment
from testbed.net.fabric.port import Port
from testbed.switch.ecn.curve import EcnCurve
from testbed.switch.pfc import wire
from testbed.switch.pfc.watchdog import Watchdog


@experiment(_in_lab_time=True, timeout="60s")
def a_step_one_frame_late(run: Run) -> None:
    """The marking threshold is a frame higher than it should be."""
    _change_curve(lambda curve: EcnCurve.step(curve.kmin + ecn_step.FRAME, curve.limit))
    ecn_step.ecn_step(run)


@experiment(_in_lab_time=True, timeout="90s")
def half_the_marks(run: Run) -> None:
    """The marking probability is half of what it should be."""
    _change_curve(lambda curve: EcnCurve(curve.kmin, curve.kmax, curve.pmax / 2))
    ecn_ramp.ecn_ramp(run)


@experiment(_in_lab_time=True, timeout="60s")
def headroom_of_a_frame_less(run: Run) -> None:
    response.HEADROOM -= 1
    response.BURSTS = 1
    response.response(run)


@experiment(_in_lab_time=True, timeout="60s")
def a_lossy_priority_that_obeys(run: Run) -> None:
    """PFC is on for a priority that should be lossy."""
    from topologies.incast import Incast

    Incast.port = Port().with_pfc(not_enabled.LOSSLESS, not_enabled.LOSSY)
    not_enabled.not_enabled(run)


@experiment(_in_lab_time=True, timeout="60s")
def pauses_too_long(run: Run) -> None:
    """A pause lasts a twentieth longer than it should."""
    _by_processes()
    exact = wire.pause_ns
    wire.pause_ns = lambda rate, quanta: exact(rate, quanta) * 21 // 20
    duty_cycle.duty_cycle(run)


@experiment(_in_lab_time=True, timeout="60s")
def a_storm_that_spreads(run: Run) -> None:
    """PAUSE of one priority stops another one, too."""
    of = storm._storm_of
    storm._storm_of = lambda run, priorities, port: of(run, [*priorities, storm.LOSSLESS], port)
    storm.storm(run)


@experiment(_in_lab_time=True, timeout="60s")
def a_watchdog_that_is_early(run: Run) -> None:
    """The watchdog bites a poll before its time, and a little, lest that poll be at the end of the pause."""
    _by_processes()
    begin = Watchdog.__init__

    def early(self: Watchdog, settings: Any) -> None:
        begin(self, settings)
        self._detection -= (watchdog.POLL + watchdog.LATE).ns * 1000  # the lab is slower by that

    Watchdog.__init__ = early  # type: ignore[method-assign]
    watchdog.watchdog(run)


@experiment(_in_lab_time=True, timeout="90s")
def a_ring_without_up_and_down(run: Run) -> None:
    """Routing goes round the ring where it should not."""
    from topologies.ring import Ring

    Ring._is_clockwise = lambda *_: True  # type: ignore[method-assign]
    ring.deadlock(run)


@experiment(_in_lab_time=True, timeout="120s")
def short_headroom_of_a_frame_less(run: Run) -> None:
    """Both ends of a cable have a frame of headroom less than they are configured, unless they measured it."""
    from dataclasses import replace

    from testbed.net.fabric import switch_buffer

    told = switch_buffer.group_limits

    def less(group: Any) -> Any:
        given = told(group)
        return replace(given, headroom=given.headroom - 8) if 8 <= given.headroom <= 72 else given

    switch_buffer.group_limits = less
    vars(headroom_short).update(SHORT=(-8, 0, 8, 40), BURSTS=1)
    headroom_short.headroom_short(run)


@experiment(_in_lab_time=True, timeout="120s")
def a_response_that_is_not_measured(run: Run) -> None:
    """Stamps are taken as if every port obeyed at once."""
    from testbed.agent.pfc.loop import Loop

    def forward(self: Loop, slot: int, frame: bytes, arrived_ns: int) -> None:
        self._news.send(NOTICE.pack(NoticeType.MEASUREMENT, 0, slot, arrived_ns, arrived_ns) + frame)

    Loop._forward_measurement = forward  # type: ignore[method-assign]
    vars(headroom_response).update(SLOWER=headroom_response.SLOWER[::3])
    headroom_response.headroom_response(run)


@experiment(_in_lab_time=True, timeout="2000s", files=("looking.py", "random_links.py"))
def half_the_round_trip(run: Run) -> None:
    """Headroom for the way there, and not for the way back."""
    import random_links

    whole = random_links.Link.measured
    random_links.Link.measured = lambda self, round_trip_ns: whole(self, round_trip_ns // 2)  # type: ignore[method-assign]
    random_links.random_links(run, links=20)


def _by_processes() -> None:
    """Let agents do all by themselves: the fault is in their code, and the kernel of `um` has its own."""
    from testbed.linux import pfc_device

    pfc_device.is_there = lambda: False


def _change_curve(change: Any) -> None:
    """Have the switch told another curve than the experiment means."""
    from experiments.congestion import _held

    build = _held.Marking.build
    _held.Marking.build = lambda self, curve: build(self, curve and change(curve))  # type: ignore[method-assign]
