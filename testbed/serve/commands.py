"""Commands of viewers: controls of the lab and of its pace. Anything else is refused here, before it reaches the
lab."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from testbed.errors import UsageError, nearest

LONGEST = 2000
"""The most octets of one message."""


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 100 and value.isprintable()


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _speed(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < 10**6


_Fields = Mapping[str, Callable[[Any], bool]]
CONTROLS: dict[str, _Fields] = {
    "traffic": {
        "source": _text,
        "target": _text,
        "priority": _number,
        "rate": _text,
        "transport": _text,
        "frame": _text,
        "ecn": _flag,
    },
    "stop": {"flow": _number},
    "cable": {"port": _text, "on": _flag},
    "delay": {"port": _text, "delay": _text},
    "pfc": {"port": _text, "priority": _number, "on": _flag},
    "ecn": {"port": _text, "priority": _number, "on": _flag, "kmin": _text, "kmax": _text, "pmax": _text},
    "kill": {"node": _text, "speaker": _flag},
}
"""The controls of the lab (`testbed/net/live/controls.py`), with the fields of each."""
_OPTIONAL = {"rate", "transport", "frame", "ecn", "flow", "kmin", "kmax", "pmax", "speaker"}
PACE: dict[str, _Fields] = {"pace": {"speed": _speed}, "pause": {"on": _flag}, "step": {}}


def read(text: str) -> dict[str, Any]:
    """Read a command, which has the key `do` and the fields of that control and no others."""
    if len(text) > LONGEST:
        raise UsageError(f"a command of {len(text)} characters is too long; {LONGEST} is the most")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError("a command is a JSON object, and this is none") from None
    if not isinstance(found, dict) or not isinstance(found.get("do"), str):
        raise UsageError('a command is a JSON object with "do", as in {"do": "stop"}')
    known = CONTROLS | PACE
    name = found["do"]
    if name not in known:
        raise UsageError(f"there is no control {name[:40]}; {nearest(name[:40], known)}")
    fields = known[name]
    for key, value in found.items():
        if key == "do":
            continue
        if key not in fields:
            raise UsageError(f"{name} has no {key[:40]}")
        if not fields[key](value):
            raise UsageError(f"{name}: {key} is {str(value)[:40]!r}, which it cannot be")
    for key in fields:
        if key not in found and key not in _OPTIONAL:
            raise UsageError(f"{name} takes {key}, and there is none")
    return found
