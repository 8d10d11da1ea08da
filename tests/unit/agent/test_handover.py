"""The state that a speaker leaves for its successor: all of it, or what was there before."""

from __future__ import annotations

import pytest

from testbed.agent.handover import Handover, HandoverError
from testbed.frames.dcbx.values import AppEntry, Selector
from testbed.frames.lldp import LONGEST_PDU
from testbed.subjects.dcbx.agent.part import PortNotes
from testbed.subjects.dcbx.agent.port_settings import Applied
from testbed.subjects.dcbx.neighbours import MOST
from testbed.subjects.dcbx.settings import ApplicationAdmin, DcbxSettings, PfcAdmin
from testbed.subjects.dcbx.tlvs import MOST_ENTRIES


def test_what_was_written_last_is_read() -> None:
    notes = Handover(1)
    assert notes.read() is None
    for number in range(3):
        notes.write({"number": number})
        assert notes.read() == {"number": number}


def test_a_page_that_was_not_finished_leaves_the_one_before() -> None:
    notes = Handover(1)
    notes.write("the first")
    notes.write("the second")
    notes._memory[20] ^= 1  # in the page that the second one is in
    assert notes.read() == "the first"


def test_every_port_may_have_as_many_neighbours_as_are_kept_and_full_tables() -> None:
    entries = tuple(AppEntry(number % 8, Selector.UDP, number) for number in range(MOST_ENTRIES))
    for ports in (1, 64):
        kept = {
            slot: PortNotes(
                DcbxSettings(pfc=PfcAdmin(8), applications=ApplicationAdmin(entries)),
                True,
                tuple(bytes([slot, number]) * (LONGEST_PDU // 2 + 7) for number in range(MOST)),
                Applied(8, applications={(1, entry.protocol): entry.priority for entry in entries}),
            )
            for slot in range(ports)
        }
        notes = Handover(ports)
        notes.write(kept)
        assert notes.read() == kept


def test_a_state_that_does_not_fit_is_refused() -> None:
    with pytest.raises(HandoverError, match=r"a handover of \d+ octets does not fit"):
        Handover(1).write(bytes(1 << 16))
