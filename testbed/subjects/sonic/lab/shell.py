"""SONiC's commands in Mininet's command line."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.errors import UsageError
from testbed.subjects.sonic.lab import commands, trimming_views


def show_tables(words: Sequence[str]) -> str:
    """Show tables of a SONiC switch, with the same columns; times are the hardware's.

    show pfc counters|priority [PORT]
    show priority-group watermark|persistent-watermark headroom|shared
    show priority-group drop counters
    show queue counters [PORT] [--all|--trim] [--json]
    show queue watermark|persistent-watermark unicast
    show buffer_pool watermark|persistent-watermark
    show pfcwd config|stats
    show ecn
    show switch-trimming global [SWITCH] [--json]
    show interfaces counters trim [PORT] [--json]
    show switch counters all|trim|detailed [--json]
    show acl table|rule [SWITCH]
    show llr interface [PORT] | profile [NAME] | counters [-i PORT] | counters detailed [PORT]
    show runningconfiguration all [SWITCH]   as a config_db.json"""
    return commands.show(words)


def control_watchdog(words: Sequence[str]) -> str:
    """Control SONiC's PFC watchdog; times are ms of the hardware, which the lab's scale multiplies.

    pfcwd start [--action drop|forward|alert] [--restoration-time MS] ports all|PORT... detection-time MS
    pfcwd stop [PORT...]
    pfcwd interval MS
    pfcwd show config|stats"""
    return commands.watchdog(words)


def clear_counters(words: Sequence[str]) -> str:
    """Clear counters by SONiC's sonic-clear; watermarks are reset in the port program.

    sonic-clear pfccounters|queuecounters|switchcounters
    sonic-clear priority-group drop counters
    sonic-clear priority-group watermark headroom|shared
    sonic-clear queue watermark unicast
    sonic-clear buffer_pool watermark
    sonic-clear llr counters [interface PORT]"""
    if list(words[:1]) != ["-clear"]:  # the command line ends a command's name at the dash
        raise UsageError("sonic-clear is the command; `help sonic`")
    return commands.clear(words[1:])


def configure(words: Sequence[str]) -> str:
    """Configure packet trimming of a running switch that was read from a config_db.json, as SONiC's config does.

    config switch-trimming global --size N --dscp N|from-tc --tc N --queue N|dynamic [SWITCH]
    config mmu -p PROFILE -t on|off [SWITCH]
    config apply-patch FILE [SWITCH]   a JSON patch of what trimming is made of
    config reload FILE [SWITCH]"""
    return trimming_views.configure(words)


def show_acl(words: Sequence[str]) -> str:
    """Show the packets that ACL rules with DISABLE_TRIM have fitted.

    aclshow [--all] [SWITCH]"""
    return commands.trimming().acl_counters("".join(word for word in words if word not in ("--all", "-a")))


SHELL = {
    "show": show_tables,
    "pfcwd": control_watchdog,
    "sonic": clear_counters,
    "config": configure,
    "aclshow": show_acl,
}
