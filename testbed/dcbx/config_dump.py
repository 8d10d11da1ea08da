"""Writes the settings of a port as a configuration file, with every key written out: the opposite of `config.parse`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from testbed.dcbx.settings import DcbxSettings, LldpTimers, Shares
from testbed.frames.dcbx.values import STRICT, AppEntry, Selector, Table, Tsa, priorities

SELECTOR_KEYS = {
    "ethertype": Selector.ETHERTYPE,
    "tcp": Selector.TCP,
    "udp": Selector.UDP,
    "tcp-udp": Selector.ANY_PORT,
    "other-port": Selector.OTHER_PORT,
    "dscp": Selector.DSCP,
}
SELECTION_KEYS = {"strict": Tsa.STRICT, "shaped": Tsa.CBS, "vendor": Tsa.VENDOR}
"""Lists of classes that use another transmission selection than ETS."""


def dump(settings: DcbxSettings, timers: LldpTimers = LldpTimers()) -> str:
    """A file with the same settings and every key written out."""
    lines = [f'version = "{settings.version}"']
    if settings.tie_break is not None:
        lines.append(f'tie_break = "{settings.tie_break}"')
    lines.append(f"traffic_classes = {settings.traffic_classes}")
    lines += [f"buffer_by_classes = {_written(settings.buffer_by_classes)}", "", "[lldp]"]
    lines += [f"{field.name} = {_written(getattr(timers, field.name))}" for field in fields(LldpTimers)]
    if pfc := settings.pfc:
        values = {"enabled": list(priorities(pfc.enabled)), "willing": pfc.willing, "cap": pfc.cap}
        values |= {"defense": pfc.defense, "defon_octet": pfc.defon_octet, "headroom": pfc.headroom, "hold": pfc.hold}
        lines += _section("pfc", values)
    if ets := settings.ets:
        values = {"willing": ets.willing, "cbs": ets.cbs}
        lines += _section("ets", values | _table(ets.table.assignment, ets.table.bandwidth, ets.table.tsa))
        if isinstance(ets.recommend, Shares):
            lines += _section("ets.recommend", {"shares": list(ets.recommend.percent)})
        elif ets.recommend is not None:
            table = ets.recommend.table
            values = {"wait": ets.recommend.wait}
            lines += _section("ets.recommend", values | _table(table.assignment, table.bandwidth, table.tsa))
    if settings.applications:
        lines += _section("applications", {"willing": settings.applications.willing})
        names = {selector: name for name, selector in SELECTOR_KEYS.items()}
        for entry in settings.applications.entries:
            lines += ["", "[[application]]", f"{names[entry.selector]} = {protocol_text(entry)}"]
            lines.append(f"priority = {entry.priority}")
    if cn := settings.cn:
        values = {"enabled": list(priorities(cn.enabled)), "willing": cn.willing, "hold": cn.hold}
        lines += _section("cn", values)
    return "\n".join(lines) + "\n"


def _section(name: str, values: dict[str, Any]) -> list[str]:
    return ["", f"[{name}]", *(f"{key} = {_written(value)}" for key, value in values.items())]


def _table(assignment: Table | None, bandwidth: Table, tsa: Table | None) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if assignment is not None:
        values["classes"] = ["strict" if number == STRICT else number for number in assignment]
    values["bandwidth"] = list(bandwidth)
    for key, algorithm in SELECTION_KEYS.items():
        classes = [number for number in range(8) if tsa and tsa[number] == algorithm]
        if classes:
            values[key] = classes
    return values


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(_written(one) for one in value)}]"
    return str(value) if isinstance(value, int) else f'"{value}"'


def protocol_text(entry: AppEntry) -> str:
    return f"{entry.protocol:#06x}" if entry.selector is Selector.ETHERTYPE else str(entry.protocol)
