"""SONiC's commands in the command line of a running network: show, pfcwd, sonic-clear. Only the lab can import it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from testbed.agent.orders import Order, OrderType, encode_watchdog
from testbed.errors import UsageError, listed
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import PortState
from testbed.subjects.sonic.lab.export import of_fabric, tables_of
from testbed.subjects.sonic.lab.trimming_views import TrimmingViews
from testbed.subjects.sonic.lab.views import SonicViews
from testbed.subjects.sonic.write import write
from testbed.switch.pfc.settings import Action, Kind, WatchdogSettings
from testbed.units import Duration

_POLL_MS = 200
_MS = re.compile("[0-9]{1,7}", re.ASCII)
_VIEWS: dict[int, SonicViews] = {}
SHOW = (
    "pfc counters [PORT]", "pfc priority [PORT]", "priority-group watermark headroom|shared",
    "priority-group persistent-watermark headroom|shared", "priority-group drop counters",
    "queue counters [PORT] [--all|--trim] [--json]",
    "queue watermark unicast", "queue persistent-watermark unicast", "buffer_pool watermark",
    "buffer_pool persistent-watermark", "pfcwd config", "pfcwd stats", "ecn", "runningconfiguration all [SWITCH]",
    "switch-trimming global [--json]", "interfaces counters trim [PORT] [--json]",
    "switch counters all|trim|detailed [--json]", "acl table", "acl rule",
    "llr interface [PORT]", "llr profile [NAME]", "llr counters [-i PORT]", "llr counters detailed [PORT]",
)  # fmt: skip
CLEAR = (
    "pfccounters", "queuecounters", "priority-group drop counters", "priority-group watermark headroom|shared",
    "queue watermark unicast", "buffer_pool watermark", "switchcounters", "llr counters [interface PORT]",
)  # fmt: skip


def views() -> SonicViews:
    """Return the views of the running network, which remember cleared counters."""
    fabric = Fabric.current()
    if id(fabric.core) not in _VIEWS:
        _VIEWS.clear()
        _VIEWS[id(fabric.core)] = SonicViews(fabric)
    return _VIEWS[id(fabric.core)]


def trimming() -> TrimmingViews:
    """Return the views of packet trimming of the running network."""
    return TrimmingViews(views(), Fabric.current())


def _llr() -> Any:
    """Return the module of views of LLR, which only who asks for them imports."""
    from testbed.subjects.sonic.lab import llr_views

    return llr_views


def show(words: Sequence[str]) -> str:
    """Return the text of a show command."""
    seen = views()
    as_json = any(word in ("--json", "-j") for word in words)
    match [word for word in words if word not in ("--json", "-j")]:
        case ["switch-trimming", "global", *rest]:
            return trimming().configuration(as_json, _port(rest))
        case ["interfaces", "counters", "trim", *rest]:
            return trimming().interfaces(_port(rest), as_json)
        case ["switch", "counters", ("all" | "trim" | "detailed") as how, *rest]:
            return trimming().switch(how == "detailed", as_json, _port(rest))
        case ["llr", *rest] if (text := _llr().show(seen, rest)) is not None:
            return str(text)
        case ["acl", "table", *rest]:
            return trimming().acl_tables(_port(rest))
        case ["acl", "rule", *rest]:
            return trimming().acl_rules(_port(rest))
        case ["queue", "counters", *rest] if as_json or {"--all", "--trim"} & set(rest):
            ports = [word for word in rest if not word.startswith("--")]
            return trimming().queues(_port(ports), "--trim" not in rest, as_json)
        case ["pfc", "counters", *rest]:
            return seen.pfc_counters(_port(rest))
        case ["pfc", "priority", *rest]:
            return seen.pfc_priority(_port(rest))
        case ["priority-group", "watermark" | "persistent-watermark" as how, "headroom" | "shared" as kind]:
            return seen.group_watermark(kind, how != "watermark")
        case ["priority-group", "drop", "counters"]:
            return seen.group_drops()
        case ["queue", "counters", *rest]:
            return seen.queue_counters(_port(rest))
        case ["queue", "watermark" | "persistent-watermark" as how, "unicast"]:
            return seen.queue_watermark(how != "watermark")
        case ["buffer_pool", "watermark" | "persistent-watermark" as how]:
            return seen.pool_watermark(how != "watermark")
        case ["pfcwd", "config"]:
            return seen.watchdog_config()
        case ["pfcwd", "stats"]:
            return seen.watchdog_stats()
        case ["ecn"]:
            return seen.ecn()
        case ["runningconfiguration", "all", *rest]:
            return _configuration(_port(rest))
    raise UsageError(_unknown("show", words, SHOW))


def _configuration(wanted: str) -> str:
    """Return the config_db.json of a switch, as it runs."""
    fabric = Fabric.current()
    names = list(fabric.buffers)
    if not wanted and len(names) != 1:
        raise UsageError(f"a switch is expected, as in: show runningconfiguration all {names[0] if names else 's1'}")
    return write(tables_of(of_fabric(fabric, wanted or names[0])))


def clear(words: Sequence[str]) -> str:
    """Do what sonic-clear does, and return what it says."""
    seen = views()
    match list(words):
        case ["pfccounters"]:
            seen.clear_counts("pfc")
        case ["queuecounters"]:
            seen.clear_counts("queue counters")
            seen.clear_counts("trimmed")
        case ["switchcounters"]:
            seen.clear_counts("trimmed")
        case ["llr", "counters"] | ["llr", "counters", "interface", _]:
            said: str = _llr().LlrViews(seen, Fabric.current()).clear(*words[3:])
            return said
        case ["priority-group", "drop", "counters"]:
            seen.clear_counts("group drops")
        case ["priority-group", "watermark", "headroom" | "shared"]:
            seen.clear_watermark("group")
        case ["queue", "watermark", "unicast"]:
            seen.clear_watermark("queue")
        case ["buffer_pool", "watermark"]:
            seen.clear_watermark("pool")
        case _:
            raise UsageError(_unknown("sonic-clear", words, CLEAR))
    return ""


def _port(rest: Sequence[str]) -> str:
    if len(rest) > 1:
        raise UsageError(f"{' '.join(rest)}: one port or switch is expected, or none for all")
    return rest[0] if rest else ""


def _unknown(command: str, words: Sequence[str], known: Iterable[str]) -> str:
    lines = "".join(f"\n    {command} {one}" for one in known)
    return f"{' '.join([command, *words])} is none of its forms:{lines}"


# The watchdog


def watchdog(words: Sequence[str]) -> str:
    """Do a command of pfcwd: start, stop, interval or show."""
    match list(words):
        case ["show", "config" | "stats" as what]:
            return show(["pfcwd", what])
        case ["stop", *rest]:
            return _set(_ports(rest), lambda _: None)
        case ["interval", text]:
            return _set(_ports([]), lambda port: _with_poll(port, _ms("interval", text)))
        case ["start", *rest]:
            return _start(rest)
    raise UsageError("one of these is expected: pfcwd start, stop, interval MS, show config, show stats; `help pfcwd`")


def _start(words: Sequence[str]) -> str:
    """Do pfcwd start in both forms of SONiC: with the words `ports` and `detection-time`, and without them."""
    action, restoration = Action.DROP, None
    places: list[str] = []
    left = iter(words)
    for word in left:
        if word in ("--action", "-a"):
            action = _action(next(left, ""))
        elif word in ("--restoration-time", "-r"):
            restoration = _ms(word, next(left, ""))
        elif word.startswith("-"):
            raise UsageError(f"there is no option {word}; there are --action and --restoration-time")
        elif word not in ("ports", "detection-time"):
            places.append(word)
    if not places or not _MS.fullmatch(places[-1]):
        raise UsageError("a detection time in ms is expected at the end: pfcwd start --action drop ports all 400")
    detection = _ms("detection-time", places.pop())
    chosen = restoration or 2 * detection

    def settings(port: PortState) -> WatchdogSettings:
        before = port.settings.pfc.watchdog if port.settings else None
        poll, kind = (before.poll, before.kind) if before else (_lab(_POLL_MS, port), Kind.SONIC)
        return WatchdogSettings(_lab(detection, port), _lab(chosen, port), poll, action, kind)

    return _set(_ports([] if places == ["all"] else places), settings)


def _with_poll(port: PortState, poll: int) -> WatchdogSettings | None:
    before = port.settings.pfc.watchdog if port.settings else None
    return None if before is None else replace(before, poll=_lab(poll, port))


def _set(ports: Iterable[PortState], settings: Callable[[PortState], WatchdogSettings | None]) -> str:
    fabric = Fabric.current()
    for port in ports:
        if port.settings is None:
            continue
        chosen = settings(port)
        order = Order(OrderType.WATCHDOG, port.slot, frame=encode_watchdog(chosen))
        fabric.core.running_agents().order(port.node.name, order)
        port.settings = replace(port.settings, pfc=replace(port.settings.pfc, watchdog=chosen))
    return ""


def _ports(names: Sequence[str]) -> list[PortState]:
    """Return the named ports, by default all ports of switches that have PFC, as on a switch."""
    seen = views()
    if not names:
        return [port for _, ports in seen.ports() for port in ports if port.settings and port.settings.pfc.enabled]
    return [port for name in names for _, ports in seen.ports(name) for port in ports]


def _lab(ms: int, port: PortState) -> Duration:
    return Duration.from_ps(ms * 10**9 * port.scale.k)


def _ms(name: str, text: str) -> int:
    if not _MS.fullmatch(text) or not int(text):
        raise UsageError(f"{name} {text[:20]}: a number of ms is expected, such as 400")
    return int(text)


def _action(text: str) -> Action:
    for action in Action:
        if action.value == text:
            return action
    raise UsageError(f"there is no action {text[:20]!r}; there are {listed(action.value for action in Action)}")
