"""The states of DCBX and segment routing as rows of words, which a live view shows beside its drawing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.subjects.dcbx import features


def dcbx_rows(found: Mapping[str, Any]) -> dict[str, str]:
    """Return by port and TLV what the port does, what it and its peer announce, and why."""
    rows = {}
    for port, state in found.items():
        if not state["running"]:
            rows[port] = "off"
            continue
        for name, seen in state["features"].items():
            told = [seen[one] for one in ("oper", "admin", "remote")]
            if all(value is None or value is False for value in told):
                continue
            feature = features.named(name)
            oper, admin, remote = map(feature.text, told)
            willing = "" if seen["willing"] is None else ", willing" if seen["willing"] else ", not willing"
            rows[f"{port} {feature.head}"] = f"oper {oper}; local {admin}{willing}; peer {remote}. {seen['why']}"
        if state["refused"]:
            rows[f"{port} refused"] = str(state["refused"])
    return rows


def sr_rows(found: Mapping[str, Any]) -> dict[str, str]:
    """Return by router the counters of its SIDs, its tunnels, its controller, and the packets that filters dropped."""
    rows = {}
    for router, state in found.items():
        for sid, counted in state["sids"].items():
            if counted:
                rows[f"{router} {sid}"] = _words(counted)
        for number, tunnel in enumerate(state["tunnels"], 1):
            rows[f"{router} tunnel {number}"] = _words(tunnel) if isinstance(tunnel, Mapping) else str(tunnel)
        rows[f"{router} tunnels"] = str(len(state["tunnels"]))
        if state["controller"] is not None:
            rows[f"{router} controller"] = _words(state["controller"])
        dropped = {reason: frames for reason, frames in state["filtered"].items() if frames}
        if dropped:
            rows[f"{router} filters dropped"] = _words(dropped)
    return rows


def _value(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ",".join(map(str, value)) or "none"
    return str(value)


def _words(content: Any) -> str:
    if not isinstance(content, Mapping):
        return str(content)
    return ", ".join(f"{str(name).replace('_', ' ')} {_inner(value)}" for name, value in content.items())


def _inner(value: Any) -> str:
    return f"({_words(value)})" if isinstance(value, Mapping) else _value(value)
