"""`xoff dcbx`: DCBX on interfaces of this machine, outside of the lab."""

from __future__ import annotations

import argparse
import contextlib
import grp
import json
import os
import pwd
import select
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path

import testbed
from testbed.errors import UsageError, plain
from testbed.lab.results.result import Exit
from testbed.subjects.dcbx import show as shown
from testbed.subjects.dcbx.daemon import control_socket

_USER, _NOBODY, _GROUP = "xoff", "nobody", "xoff"
_STANDARD_ERROR = 2
_ALWAYS_FITS = 4096
"""The octets that a pipe takes in one piece if it takes any (PIPE_BUF)."""


def agent_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("interface", nargs="*", metavar="IFACE", help="an Ethernet interface, as in eth0")
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="TOML, see docs/dcbx.md; default: /etc/xoff/dcbx/IFACE.toml or /etc/xoff/dcbx.toml; else willing to all",
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="append every frame and event, a JSON object a line")
    parser.add_argument(
        "--user",
        metavar="NAME",
        help="the user that root becomes when the sockets are open; default: the user xoff, else the user nobody",
    )
    parser.add_argument(
        "--group", metavar="NAME", help="whose members may use `xoff dcbx show`; default: xoff if there is such a group"
    )
    parser.add_argument("--unit", action="store_true", help="print a systemd unit xoff-agent@.service, and do no more")


def agent(options: argparse.Namespace) -> int:
    """Run DCBX on interfaces of this machine until SIGINT or SIGTERM; SIGHUP and a changed FILE change its settings."""
    if options.unit:
        print(unit(), end="")
        return Exit.OK
    if not options.interface:
        raise UsageError("xoff dcbx agent needs an interface, as in xoff dcbx agent eth0")
    from testbed.subjects.dcbx.daemon.agent import DcbxAgent
    from testbed.subjects.dcbx.daemon.log_file import LogFile

    user, group = _user(options.user), _group(options.group)
    with ExitStack() as stack:
        log = None
        if options.log:
            try:
                log = LogFile(options.log, _say)
            except OSError as error:
                raise UsageError(f"--log {options.log}: {error.strerror}") from None
            stack.callback(log.close)
        made = DcbxAgent(options.interface, options.config, _say, log, group)
        made.run(become=user)
    return Exit.OK


def _user(name: str | None) -> tuple[int, int] | None:
    """Return the user and the group that the process becomes, or None if it stays the user that it is."""
    if os.geteuid() != 0:
        if name is not None:
            raise UsageError(f"--user {name}: only root can become another user")
        return None
    for candidate in [name] if name else [_USER, _NOBODY]:
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(candidate)
            return None if found.pw_uid == 0 else (found.pw_uid, found.pw_gid)
    raise UsageError(f"--user: there is no user {name or f'{_USER}, and no {_NOBODY}'}; --user root stays root")


def _group(name: str | None) -> int | None:
    try:
        return grp.getgrnam(name or _GROUP).gr_gid
    except KeyError:
        if name is None:
            return None
        raise UsageError(f"--group: there is no group {name}; `groupadd --system {name}` makes it") from None


def show_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("interface", nargs="?", metavar="IFACE", help="the interface of an agent (default: all agents)")


def show(options: argparse.Namespace) -> int:
    """Show what the agents of this network namespace negotiate: each port and TLV, local, operational and remote."""
    answers = control_socket.ask(options.interface)
    if options.json:
        print(json.dumps(answers, indent=1))
        return Exit.OK
    ports = {control_socket.printable(name): answer["port"] for name, answer in answers.items()}
    sys.stdout.write(shown.table(ports))
    for (name, port), answer in zip(ports.items(), answers.values(), strict=True):
        if port["link"] != "up":
            print(f"{name}: the link is {port['link']}" if port["link"] != "no carrier" else f"{name}: no carrier")
        for line in shown.details(port, answer["now_ns"]):
            print(f"{name}: {line}")
        for warning in port["warnings"]:
            print(f"{name}: warning: {warning}")
        print(f"{name}: {port['card']}")
    return Exit.OK


def metrics_options(parser: argparse.ArgumentParser) -> None:
    show_options(parser)
    parser.add_argument(
        "--listen", metavar="ADDRESS:PORT",
        help="answer a monitoring system at http://ADDRESS:PORT/metrics, as in 127.0.0.1:9471, until Ctrl-C",
    )  # fmt: skip


def metrics(options: argparse.Namespace) -> int:
    """Print what the agents of this network namespace count, as OpenMetrics, or serve it to a monitoring system."""
    from testbed.subjects.dcbx.daemon import metrics as made

    if options.listen is None:
        sys.stdout.write(made.text(options.interface))
        return Exit.OK
    with made.server(options.listen, options.interface) as server:
        _say(f"the metrics are at http://{options.listen}{made.PATH}; Ctrl-C ends it")
        server.serve_forever()
    return Exit.OK


def forget(options: argparse.Namespace) -> int:
    """Have the agents of this network namespace remove all neighbours; those on the link are learnt again."""
    answers = control_socket.ask(options.interface, control_socket.FORGET)
    if options.json:
        print(json.dumps(answers, indent=1))
        return Exit.OK
    for name, answer in answers.items():
        print(
            f"{control_socket.printable(name)}: {answer['forgotten']} removed; neighbours on the link are learnt again"
        )
    return Exit.OK


def unit() -> str:
    """Return a systemd unit, with an instance for each interface, as in `systemctl enable --now xoff-agent@eth0`."""
    program = [sys.executable, "-m", "testbed"]
    folder = Path(testbed.__path__[0]).parent
    return f"""\
[Unit]
Description=DCBX on %I (Xoff)
Documentation=file://{folder}/docs/dcbx.md
Wants=sys-subsystem-net-devices-%i.device
After=sys-subsystem-net-devices-%i.device network-pre.target

[Service]
WorkingDirectory={folder}
ExecStart={shlex.join(program)} dcbx agent %I
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=5s
RuntimeDirectory=xoff
RuntimeDirectoryPreserve=yes
CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW CAP_SETUID CAP_SETGID CAP_SETPCAP
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_PACKET AF_NETLINK AF_UNIX AF_INET
RestrictNamespaces=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
"""


def _say(text: str) -> None:
    """Print a line for people. A reader that has gone, or does not read, neither ends nor delays the agent."""
    octets = f"xoff: {plain(text)}\n".encode(errors="replace")[:_ALWAYS_FITS]
    with contextlib.suppress(OSError):
        poll = select.poll()
        poll.register(_STANDARD_ERROR, select.POLLOUT)
        if poll.poll(0):
            os.write(_STANDARD_ERROR, octets)
