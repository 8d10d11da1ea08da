"""Experiments on DCBX with one fault in how ports do what was negotiated, so that a claim has to fail."""

from __future__ import annotations

from experiments.dcbx import dcbx_applications, dcbx_ets, dcbx_mismatch, dcbx_negotiation, dcbx_willing
from testbed.frames.dcbx.values import DcbxVersion
from testbed.lab import Run, experiment
from testbed.linux.port_program import PortProgram
from testbed.net.fabric.queues import PRIORITIES, Queues
from testbed.subjects.dcbx import negotiation
from testbed.subjects.dcbx.agent.port_settings import PortSettings
from testbed.subjects.dcbx.machines import winner


@experiment(timeout="120s")
def pfc_that_is_not_put_on_the_port(run: Run) -> None:
    PortSettings._apply_pfc = lambda *_: None  # type: ignore[method-assign]
    dcbx_negotiation.dcbx_negotiation(run)


@experiment(timeout="120s")
def defense_that_never_ends(run: Run) -> None:
    put = PortProgram.set_defended
    PortProgram.set_defended = lambda self, slot, mask: put(self, slot, mask | self.defended(slot))  # type: ignore
    for version, defense in ((DcbxVersion.PUBLISHED, False), (DcbxVersion.PUBLISHED, True), (DcbxVersion.DRAFT, True)):
        dcbx_mismatch._disagree(run, version, defense)


@experiment(timeout="120s")
def defense_of_everything(run: Run) -> None:
    put = PortProgram.set_defended
    PortProgram.set_defended = lambda self, slot, mask: put(self, slot, 0xFF * bool(mask))  # type: ignore
    for defense in (False, True):
        dcbx_mismatch._disagree(run, DcbxVersion.DRAFT, defense)


@experiment(timeout="120s")
def tie_breaks_the_other_way_round(run: Run) -> None:
    exact = winner
    vars(negotiation)["winner"] = lambda tie_break, local, remote: exact(tie_break, remote, local)
    dcbx_willing.dcbx_willing(run)


@experiment(timeout="200s")
def strict_classes_where_they_were(run: Run) -> None:
    """A class keeps its place when it becomes strict; the kernel then leaves it at its level as long as it is full."""
    Queues._places = property(lambda _: PRIORITIES)  # type: ignore[assignment, method-assign]
    dcbx_ets.dcbx_ets(run)


@experiment(timeout="120s")
def an_entry_that_stays(run: Run) -> None:
    put = PortProgram.set_applications
    PortProgram.set_applications = lambda self, slot, old, new: put(self, slot, old, new) if new else None  # type: ignore
    for version, name in ((DcbxVersion.PUBLISHED, "UDP port, in the DSCP"), (DcbxVersion.DRAFT, "EtherType")):
        entry, trust = dcbx_applications.CASES[name]
        dcbx_applications._move(run, version, trust, {name: entry})
