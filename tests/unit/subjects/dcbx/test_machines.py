"""The draft's state machines, in every combination of their variables, against tables that are written out here."""

from __future__ import annotations

import itertools

import pytest

from testbed.frames import Mac
from testbed.subjects.dcbx.machines import Outcome, asymmetric, defense, hold, symmetric, winner
from testbed.subjects.dcbx.settings import TieBreak

LOW, HIGH = Mac.parse("02:00:00:00:00:01"), Mac.parse("fe:00:00:00:00:00")
ABSENT = "no neighbour"
BOOL = {"T": True, "F": False, "-": None}

# LocalWilling, RemoteWilling, who wins the tie (us, peer, -) | Oper | Pending if Oper and Remote differ
SYMMETRIC = """
    T T -     local   F
    T T us    local   T
    T T peer  remote  F
    T F -     remote  F
    T F us    remote  F
    T F peer  remote  F
    T - -     local   T
    T - us    local   T
    T - peer  local   T
    F T -     local   T
    F T us    local   T
    F T peer  local   T
    F F -     local   F
    F F us    local   F
    F F peer  local   F
    F - -     local   T
    F - us    local   T
    F - peer  local   T
"""

# LocalWilling, RV, the peer's configuration is known | Oper | Pending
ASYMMETRIC = """
    T T T  recommended  F
    T T F  recommended  T
    T F T  local        T
    T F F  local        T
    T - T  local        F
    T - F  local        T
    F T T  local        F
    F T F  local        T
    F F T  local        F
    F F F  local        T
    F - T  local        F
    F - F  local        T
"""

# DefenseEnabled, Oper, Remote | defense
DEFENSE = """
    T T T  F
    T T F  T
    T T -  T
    T F T  F
    T F F  F
    T F -  F
    F T T  F
    F T F  F
    F T -  F
    F F T  F
    F F F  F
    F F -  F
"""

HOLD = """
    T T T  held
    T T F  sent
    T T -  sent
    T F T  sent
    T F F  sent
    T F -  sent
    T - T  held
    T - F  held
    T - -  held
    F T T  sent
    F T F  sent
    F T -  sent
    F F T  sent
    F F F  sent
    F F -  sent
    F - T  sent
    F - F  sent
    F - -  sent
"""
"""The table of the hold machine: Oper, Remote and the far port's DefOn of one priority."""

WHY = {
    "T T -": "local setting: both ports are willing, and there is no tie-break",
    "T T us": "local setting: both ports are willing, and this port wins the tie-break",
    "T T peer": "the peer's: both ports are willing, and the peer wins the tie-break",
    "T F": "the peer's: this port is willing and the peer is not",
    "F T": "local setting: the peer is willing and this port is not",
    "F F": "local setting: neither port is willing",
}


def rows(table: str, *columns: str) -> list[list[str]]:
    """Return the lines of a table, after a check that its first columns are all combinations."""
    lines = [line.split() for line in table.strip().splitlines()]
    combinations = [list(combination) for combination in itertools.product(*(column.split() for column in columns))]
    assert [line[: len(columns)] for line in lines] == combinations
    return lines


@pytest.mark.parametrize("row", rows(SYMMETRIC, "T F", "T F -", "- us peer"), ids=" ".join)
@pytest.mark.parametrize("admin", [0x00, 0x08, 0xFF])
@pytest.mark.parametrize("remote", [0x00, 0x08, 0xFF])
def test_symmetric_machine(row: list[str], admin: int, remote: int) -> None:
    willing, remote_willing, tie, oper, pending = row
    known = remote_willing != "-"
    outcome = symmetric(
        admin,
        remote if known else None,
        local_willing=willing == "T",
        remote_willing=BOOL[remote_willing],
        wins={"us": True, "peer": False, "-": None}[tie],
        absent=ABSENT,
    )
    assert outcome.oper == {"local": admin, "remote": remote}[oper]
    assert outcome.pending == (not known or (pending == "T" and outcome.oper != remote))
    pair = f"{willing} {remote_willing}"
    assert outcome.why == (WHY[pair if pair in WHY else f"{pair} {tie}"] if known else f"local setting: {ABSENT}")


@pytest.mark.parametrize("row", rows(SYMMETRIC, "T F", "T F -", "- us peer"), ids=" ".join)
@pytest.mark.parametrize("remote", [0x00, 0x08])
def test_a_hold_has_an_effect_only_where_the_peer_wins_the_tie_break(row: list[str], remote: int) -> None:
    def outcome(tie: str, doubted: bool) -> Outcome[int]:
        return symmetric(
            0x08,
            None if row[1] == "-" else remote,
            local_willing=row[0] == "T",
            remote_willing=BOOL[row[1]],
            wins={"us": True, "peer": False, "-": None}[tie],
            absent=ABSENT,
            pinned=0x20 if doubted else None,
        )

    if row[:3] == ["T", "T", "peer"]:
        why = "kept for now: both ports are willing, and the same values come again and again"
        assert outcome("peer", True) == Outcome(0x20, True, why)
    else:
        assert outcome(row[2], True) == outcome(row[2], False)


def test_pending_is_the_equation_of_the_draft_wherever_no_tie_is_broken() -> None:
    """Pending = RemoteParam == NULL || !LocalWilling && RemoteWilling == TRUE && OperParam != RemoteParam."""
    for willing, remote_willing, admin, remote in itertools.product((True, False), (True, False, None), (1, 2), (1, 2)):
        param = None if remote_willing is None else remote
        outcome = symmetric(
            admin, param, local_willing=willing, remote_willing=remote_willing, wins=None, absent=ABSENT
        )
        assert outcome.pending == (param is None or (not willing and remote_willing is True and outcome.oper != param))


@pytest.mark.parametrize("row", rows(ASYMMETRIC, "T F", "T F -", "T F"), ids=" ".join)
@pytest.mark.parametrize("recommended", ["a table", "the same as local"])
def test_asymmetric_machine(row: list[str], recommended: str) -> None:
    willing, rv, known, oper, pending = row
    local = "the same as local"
    outcome = asymmetric(
        local,
        recommended if rv == "T" else None,
        rv=BOOL[rv],
        local_willing=willing == "T",
        known=known == "T",
        absent=ABSENT,
    )
    assert outcome.oper == {"local": local, "recommended": recommended}[oper]
    assert outcome.pending == (pending == "T")
    if willing == "F":
        why = "local setting: this port is not willing"
    else:
        nothing = "local setting: the peer recommends nothing" if known == "T" else f"local setting: {ABSENT}"
        why = {
            "T": "the peer's recommendation: this port is willing",
            "F": "local setting: the peer recommends nothing yet (RV is 0)",
            "-": nothing,
        }[rv]
    assert outcome.why == why


@pytest.mark.parametrize("row", rows(DEFENSE, "T F", "T F", "T F -"), ids=" ".join)
@pytest.mark.parametrize("priority", range(8))
def test_defense_machine(row: list[str], priority: int) -> None:
    enabled, oper, remote, expected = row
    bit = 1 << priority
    other = 0xFF & ~bit
    for rest in (0, other):  # the other priorities do not matter
        far = None if remote == "-" else (rest | bit if remote == "T" else rest)
        near = rest | bit if oper == "T" else rest
        assert bool(defense(enabled == "T", near, far) & bit) == (expected == "T")


@pytest.mark.parametrize("row", rows(HOLD, "T F", "T F -", "T F -"), ids=" ".join)
@pytest.mark.parametrize("priority", range(8))
def test_hold_until_the_far_port_shows_defon_0(row: list[str], priority: int) -> None:
    oper, remote, defended, expected = row
    bit = 1 << priority

    def mask(value: str, rest: int) -> int | None:
        return None if value == "-" else (rest | bit if value == "T" else rest)

    for rest in (0, 0xFF & ~bit):  # the other priorities do not matter
        near, far, on = (mask(value, rest) for value in (oper, remote, defended))
        assert bool((hold(True, near or 0, far, on) or 0) & bit) == (expected == "held")
        assert hold(False, near or 0, far, on) is None


def test_defense_of_all_masks_is_that_of_their_bits() -> None:
    for oper in range(256):
        for remote in (None, *range(256)):
            on = {n for n in range(8) if oper >> n & 1 and not (remote is not None and remote >> n & 1)}
            assert defense(True, oper, remote) == sum(1 << n for n in on)
            assert defense(False, oper, remote) == 0


@pytest.mark.parametrize(
    ("tie_break", "local", "remote", "wins"),
    [
        (TieBreak.NONE, LOW, HIGH, None),
        (TieBreak.NONE, HIGH, LOW, None),
        (TieBreak.NONE, LOW, LOW, None),
        (TieBreak.LOWER, LOW, HIGH, True),
        (TieBreak.LOWER, HIGH, LOW, False),
        (TieBreak.LOWER, LOW, LOW, None),
        (TieBreak.HIGHER, LOW, HIGH, False),
        (TieBreak.HIGHER, HIGH, LOW, True),
        (TieBreak.HIGHER, LOW, LOW, None),
    ],
)
def test_tie_break_by_address(tie_break: TieBreak, local: Mac, remote: Mac, wins: bool | None) -> None:
    assert winner(tie_break, local, remote) is wins
