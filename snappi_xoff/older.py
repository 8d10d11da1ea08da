"""Calls of snappi before 0.12, which scripts and the documentation still have: a state for each kind, set by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class OlderState:
    """The state that `transmit_state()`, `capture_state()` or `link_state()` made."""

    START, STOP, PAUSE, RESUME, UP, DOWN = "start", "stop", "pause", "resume", "up", "down"

    def __init__(self, state: str | None = None, **names: Any) -> None:
        self.state = state
        self.flow_names: list[str] | None = names.get("flow_names")
        self.port_names: list[str] | None = names.get("port_names")


def older_calls(api: Any) -> None:
    """Add the older calls, each of which makes a control state, to an API."""

    def setter(fill: Callable[[Any, OlderState], None]) -> Callable[[OlderState], Any]:
        def set_state(older: OlderState) -> Any:
            control = api.control_state()
            fill(control, older)
            return api.set_control_state(control)

        return set_state

    def traffic(control: Any, older: OlderState) -> None:
        control.traffic.flow_transmit.state = older.state
        if older.flow_names:
            control.traffic.flow_transmit.flow_names = older.flow_names

    def ports(part: str) -> Callable[[Any, OlderState], None]:
        def fill(control: Any, older: OlderState) -> None:
            chosen = getattr(control.port, part)
            chosen.state = older.state
            if older.port_names:
                chosen.port_names = older.port_names

        return fill

    def protocol(control: Any, older: OlderState) -> None:
        control.protocol.all.state = older.state

    fills = {"transmit": traffic, "capture": ports("capture"), "link": ports("link"), "protocol": protocol}
    for name, fill in fills.items():
        setattr(api, f"{name}_state", OlderState)
        setattr(api, f"set_{name}_state", setter(fill))
