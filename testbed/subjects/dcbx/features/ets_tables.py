"""The tables of ETS, which ETS Configuration and ETS Recommendation have in common: on the wire, in files, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from testbed.frames import FieldError
from testbed.frames.dcbx.values import (
    STRICT,
    DcbxVersion,
    Ets,
    EtsRecommendation,
    Table,
    Tsa,
    assignment_problem,
    bandwidth_problem,
)
from testbed.frames.lldp_tlvs import Flaw
from testbed.strict.tables import TomlTable, array, whole
from testbed.subjects.dcbx.config_values import ConfigError
from testbed.subjects.dcbx.features.codec import DcbxReason, flaw
from testbed.subjects.dcbx.features.feature import CommonSettings, Data, DcbxSettingsError

LEGEND = "ETS is class:percent / class of priority 0 to 7"
DRAFT_LEGEND = f"{LEGEND}; S is strict, A and B are the AVB groups"

_WHOLE = 100
_STRICT = "strict"
"""Stands in a draft's file in place of the class of a priority that is in none."""
_SELECTION_KEYS = {"strict": Tsa.STRICT, "shaped": Tsa.CBS, "vendor": Tsa.VENDOR}
"""The keys of lists of classes that use another transmission selection than ETS."""
_ALGORITHMS = {int(tsa): tsa.name.lower() for tsa in Tsa if tsa is not Tsa.ETS}
_DRAFT_GROUPS = {13: "A", 14: "B", STRICT: "S"}


# On the wire


def published_tables(assignment: Table | None, bandwidth: Table, tsa: Table | None) -> dict[str, Table]:
    """Return the tables of the published format, by the names of their fields."""
    if assignment is None or tsa is None:
        raise FieldError("the published format needs priority assignment and transmission selection; give both")
    return {"priority": assignment, "bandwidth": bandwidth, "tsa": tsa}


def table_flaws(tlv: str, assignment: Table, bandwidth: Table, tsa: Table | None) -> list[Flaw]:
    """Return what is wrong in tables that could be read."""
    undefined, total = assignment_problem(assignment, tsa), bandwidth_problem(bandwidth, tsa)
    flaws = [] if undefined is None else [flaw(tlv, DcbxReason.UNDEFINED, undefined)]
    return flaws if total is None else [*flaws, flaw(tlv, DcbxReason.BANDWIDTH_SUM, total)]


# In settings


def check_format(what: str, version: DcbxVersion, settings: CommonSettings) -> None:
    """Raise DcbxSettingsError for tables of the format that the port does not speak."""
    if version is not settings.version:
        raise DcbxSettingsError(
            f"this {what} is for the {version} format, and the port speaks the {settings.version} one; "
            f"{'leave `tsa` out' if settings.is_draft else 'give assignment, bandwidth and `tsa`'}"
        )


def read_classes(version: DcbxVersion) -> Callable[[Any], Table]:
    """Return a reader of the class of each priority."""

    def entry(value: Any) -> int:
        if value != _STRICT:
            return whole(value)
        if version is DcbxVersion.DRAFT:
            return STRICT
        raise ConfigError('"strict" is the draft\'s; give the priority a class, and name that class in strict = [..]')

    def read(value: Any) -> Table:
        entries = tuple(entry(one) for one in array(value))
        if len(entries) != 8:
            raise ConfigError(f"{len(entries)} entries, and 8 are expected: the classes of priorities 0 to 7 in order")
        return entries

    return read


def read_percents(value: Any) -> Table:
    """Read the share of each class; those that are not given have none."""
    entries = [whole(entry) for entry in array(value)]
    if len(entries) > 8:
        raise ConfigError(f"{len(entries)} entries, and there are 8 classes")
    for entry in entries:
        if not 0 <= entry <= _WHOLE:
            raise ConfigError(f"{entry} is not a share: there are 0 to 100 percent")
    return tuple(entries + [0] * (8 - len(entries)))


def read_selection(table: TomlTable, version: DcbxVersion) -> Table | None:
    """Read transmission selection: ETS for every class that is in no other list. None in the draft, which has none."""
    chosen: dict[int, tuple[str, int]] = {}
    for key, algorithm in _SELECTION_KEYS.items():
        if version is DcbxVersion.DRAFT and table.has(key):
            way_out = 'write "strict" in place of a priority\'s class' if key == "strict" else "leave this out"
            table.refuse(key, f"the draft has no transmission selection of classes; {way_out}")
        for one in sorted(table.take(key, _read_class_set, set())):
            if one in chosen:
                table.refuse(key, f"class {one} is in {chosen[one][0]} too; leave one out")
            chosen[one] = key, int(algorithm)
    if version is DcbxVersion.DRAFT:
        return None
    return tuple(chosen[one][1] if one in chosen else int(Tsa.ETS) for one in range(8))


def _read_class_set(value: Any) -> set[int]:
    classes = {whole(one) for one in array(value)}
    for one in classes:
        if not 0 <= one <= 7:
            raise ConfigError(f"{one} is not a traffic class: there are 0 to 7")
    return classes


def keys_of_tables(assignment: Table | None, bandwidth: Table, tsa: Table | None) -> dict[str, Any]:
    """Return the keys of a section that has these tables."""
    values: dict[str, Any] = {}
    if assignment is not None:
        values["classes"] = ["strict" if one == STRICT else one for one in assignment]
    values["bandwidth"] = list(bandwidth)
    for key, algorithm in _SELECTION_KEYS.items():
        classes = [one for one in range(8) if tsa and tsa[one] == algorithm]
        if classes:
            values[key] = classes
    return values


def share_warnings(what: str, assignment: Table, bandwidth: Table, tsa: Table | None) -> Iterator[str]:
    """Yield warnings about shares of classes that have no effect, or a surprising one."""
    for one in range(8):
        is_ets = tsa is None or tsa[one] == Tsa.ETS
        share, noun = bandwidth[one], "priority group" if tsa is None else "traffic class"
        if tsa is not None and tsa[one] == Tsa.STRICT and share:
            yield f"{what}{noun} {one} is strict and has {share} %: a strict class has no share"
        elif is_ets and not share and one in assignment:
            yield f"{what}{noun} {one} has priorities and 0 %: ETS leaves it what the others do not use"


# As plain data, and in words


def table_data(table: Ets | EtsRecommendation) -> dict[str, Any]:
    assignment, tsa = table.assignment, table.tsa
    return {
        "assignment": None if assignment is None else list(assignment),
        "bandwidth": list(table.bandwidth),
        "tsa": None if tsa is None else [int(algorithm) for algorithm in tsa],
    }


def table_text(table: Data) -> str:
    """Return a table as in "0:70 1:30 2:strict / 00011002"."""
    return f"{shares_text(table)} / {_assigned(table)}"


def shares_text(table: Data) -> str:
    """Return the classes that have bandwidth or a priority; without TSA, as in the draft, each shares bandwidth."""
    used = set(table["assignment"] or ())
    shares = []
    for one, percent in enumerate(table["bandwidth"]):
        if not percent and one not in used:
            continue
        algorithm = Tsa.ETS if table["tsa"] is None else table["tsa"][one]
        if algorithm == Tsa.ETS:
            shares.append(f"{one}:{percent}")
        else:
            unused = f"({percent})" if percent else ""
            shares.append(f"{one}:{_ALGORITHMS.get(algorithm, f'tsa{algorithm}')}{unused}")
    return " ".join(shares) or "none"


def _assigned(table: Data) -> str:
    letters = _DRAFT_GROUPS if table["tsa"] is None else {}
    return "".join(letters.get(one, f"{one:x}") for one in table["assignment"])


def legend(table: Data) -> str:
    return DRAFT_LEGEND if table["tsa"] is None else LEGEND
