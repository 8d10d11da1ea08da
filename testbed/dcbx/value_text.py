"""Values of DCBX in a few characters each, from the plain data that `show` makes: for tables, diagrams and logs.

"-" is what is not run, not known or not announced; "none" is a set of priorities, or a table, that has nothing in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from testbed.frames.dcbx.values import STRICT, Selector, Tsa

Data = Mapping[str, Any]

NAMES = {
    "traffic_classes": "TC",
    "ets": "ETS",
    "recommendation": "ETS rec",
    "pfc": "PFC",
    "applications": "APP",
    "cn": "CN",
    "headroom": "headroom",
}
"""Features as a table heads them, in the order of the draft's summary."""

LEGEND = "ETS is class:percent / class of priority 0 to 7"
DRAFT_LEGEND = f"{LEGEND}; S is strict, A and B are the AVB groups"

_MOST_ENTRIES = 3
_ALGORITHMS = {int(tsa): tsa.name.lower() for tsa in Tsa if tsa is not Tsa.ETS}
_DRAFT_GROUPS = {13: "A", 14: "B", STRICT: "S"}
_SELECTORS = {
    Selector.TCP.value: "tcp",
    Selector.UDP.value: "udp",
    Selector.ANY_PORT.value: "tcp+udp",
    Selector.OTHER_PORT.value: "other",
    Selector.DSCP.value: "dscp",
}


def value(feature: str, plain: Any) -> str:
    """A feature's local, operational or remote value."""
    return "-" if plain is None else _TEXTS[feature](plain)


def priorities(numbers: Sequence[int] | None) -> str:
    return "-" if numbers is None else ",".join(map(str, numbers)) or "none"


def yes_no(truth: bool | None) -> str:
    return "-" if truth is None else "yes" if truth else "no"


def ets(table: Data) -> str:
    """As in "0:70 1:30 2:strict / 00011002"."""
    return f"{_shares(table)} / {_assigned(table)}"


def recommendation(table: Data) -> str:
    if not table["valid"]:
        return "RV 0"
    return _shares(table) if table["assignment"] is None else ets(table)


def applications(entries: Sequence[Data]) -> str:
    """As in "4:tcp/3260 3:0x8906", the first few."""
    shown = [f"{entry['priority']}:{_protocol(entry)}" for entry in entries[:_MOST_ENTRIES]]
    if len(entries) > _MOST_ENTRIES:
        shown.append(f"+{len(entries) - _MOST_ENTRIES}")
    return " ".join(shown) or "none"


def _shares(table: Data) -> str:
    """The classes that have bandwidth or a priority; without TSA, as in the draft, each shares bandwidth."""
    used = set(table["assignment"] or ())
    shares = []
    for number, percent in enumerate(table["bandwidth"]):
        if not percent and number not in used:
            continue
        algorithm = Tsa.ETS if table["tsa"] is None else table["tsa"][number]
        if algorithm == Tsa.ETS:
            shares.append(f"{number}:{percent}")
        else:
            unused = f"({percent})" if percent else ""
            shares.append(f"{number}:{_ALGORITHMS.get(algorithm, f'tsa{algorithm}')}{unused}")
    return " ".join(shares) or "none"


def _assigned(table: Data) -> str:
    letters = _DRAFT_GROUPS if table["tsa"] is None else {}
    return "".join(letters.get(number, f"{number:x}") for number in table["assignment"])


def _protocol(entry: Data) -> str:
    selector, protocol = entry["selector"], entry["protocol"]
    if selector == Selector.ETHERTYPE.value:
        return f"{protocol:#06x}" if protocol else "default"
    return f"{_SELECTORS[selector]}/{protocol}"


_TEXTS: dict[str, Callable[[Any], str]] = {
    "traffic_classes": str,
    "ets": ets,
    "recommendation": recommendation,
    "pfc": priorities,
    "applications": applications,
    "cn": priorities,
    "headroom": yes_no,
}
