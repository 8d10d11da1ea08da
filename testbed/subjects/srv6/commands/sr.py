"""`xoff controller sr`: the state of the SR policy controller, and requests to it, by its REST (docs/controller.md)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from testbed.cli import controller
from testbed.errors import UsageError, plain
from testbed.lab.results.result import Exit
from testbed.rest.client import Client, ControllerError
from testbed.strict import regular_files
from testbed.typed_json.text import InvalidError, read
from testbed.units import Duration


def options(parser: argparse.ArgumentParser) -> None:
    common = controller.options()
    what = parser.add_subparsers(metavar="WHAT", dest="what", required=True)

    def add(name: str, summary: str, within: Any = what) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = within.add_parser(name, help=summary, description=summary, parents=[common])
        return added

    add("topology", "routers, links and switches")
    add("sids", "SIDs that routers advertise").add_argument("router", nargs="?", help="only the SIDs of this router")
    add("policies", "all policies, with their states")
    add("reverse", "the tunnels for PFC frames of a policy").add_argument("id", help="as in R1:100:R3")
    add("vpns", "all VPNs")
    add("slices", "slices, and their contents")
    events = add("events", "the log of events")
    events.add_argument("--follow", action="store_true", help="also print what happens from now on, until Ctrl-C")
    events.add_argument("--after", type=int, default=0, metavar="N", help="only events after number N")
    for name, summary in (("policy", "request or withdraw a policy"), ("vpn", "request or withdraw a VPN")):
        inner = what.add_parser(name, help=summary, description=summary).add_subparsers(dest="do", required=True)
        if name == "policy":
            _policy_options(add("add", "request a policy", inner))
        else:
            add("add", "request a VPN", inner).add_argument("file", type=Path, help="JSON, or - for standard input")
        add("remove", "withdraw it", inner).add_argument(
            "id", help="as in R1:100:R3" if name == "policy" else "its name"
        )
    summary = "remove a router that has gone for good, or that does harm"
    inner = what.add_parser("router", help=summary, description=summary).add_subparsers(dest="do", required=True)
    add("remove", "end its session and remove what it reported", inner).add_argument("id", help="its name")


def _policy_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("headend")
    parser.add_argument("endpoint")
    parser.add_argument("--colour", type=int, required=True, metavar="N")
    parser.add_argument("--vpn", metavar="NAME", help="the VPN whose packets the policy carries")
    parser.add_argument("--service", metavar="SID", help="without a VPN: a VPN SID of the endpoint")
    parser.add_argument("--slice", type=int, metavar="N")
    parser.add_argument("--binding-sid", metavar="SID")
    parser.add_argument(
        "--pfc", choices=("ends", "every-hop", "no"), default="ends", help="which routers must be PFC-capable"
    )
    parser.add_argument("--max-delay", metavar="T", help="as in 20ms")
    for name in ("include-any", "include-all", "exclude-any"):
        parser.add_argument(f"--{name}", action="append", default=[], metavar="NAME", help="affinity of links")
    parser.add_argument("--via", metavar="SID,SID", help="an explicit path: these segments")
    parser.add_argument("--preference", type=int, default=100, metavar="N")
    parser.add_argument("--replace", action="store_true", help="in place of the policy that is there")


def sr(options: argparse.Namespace) -> int:
    """Ask the SR policy controller, or request a change of it."""
    try:
        return _ask(options)
    except (LookupError, TypeError, AttributeError) as error:
        raise ControllerError(
            f"what answers is not a controller, or one of another version: {type(error).__name__}: {error}"
        ) from error


def _ask(options: argparse.Namespace) -> int:
    client = controller.client(options)
    if options.what == "events":
        return _events(client, options)
    if options.what in ("policy", "vpn", "router"):
        return _submit(client, options)
    path, show = {
        "topology": ("/topology", _topology),
        "sids": (f"/sids?router={quote(options.router)}" if getattr(options, "router", None) else "/sids", _sids),
        "policies": ("/policies", _policies),
        "reverse": (f"/policies/{quote(getattr(options, 'id', ''), safe=':')}/reverse", _reverse),
        "vpns": ("/vpns", _vpns),
        "slices": ("/slices", _slices),
    }[options.what]
    answer = client.ask("GET", path)
    if options.json:
        print(json.dumps(answer, indent=1))
    else:
        show(_neutral(answer))
    return Exit.OK


# Requests


def _submit(client: Client, options: argparse.Namespace) -> int:
    from testbed.cli.screen.console import say

    plural = {"policy": "policies", "vpn": "vpns", "router": "routers"}[options.what]
    if options.do == "remove":
        client.ask("DELETE", f"/{plural}/{quote(options.id, safe=':')}")
        say(f"{options.what} {options.id} is {'removed' if options.what == 'router' else 'withdrawn'}")
        return Exit.OK
    if options.what == "vpn":
        intent = _read(options.file)
        answer = client.ask("POST", "/vpns", intent)
    else:
        intent = _policy(options)
        name = f"{options.headend}:{options.colour}:{options.endpoint}"
        put = ("PUT", f"/policies/{quote(name, safe=':')}") if options.replace else ("POST", "/policies")
        answer = client.ask(*put, intent)
        answer = client.ask("GET", f"/policies/{quote(answer['id'], safe=':')}")
    if options.json:
        print(json.dumps(answer, indent=1))
    elif options.what == "vpn":
        _vpns(_neutral({"vpns": [answer]}))
    else:
        _policies(_neutral({"policies": [answer]}))
    return Exit.OK


def _policy(options: argparse.Namespace) -> dict[str, Any]:
    if options.via is not None:
        candidate: dict[str, Any] = {"type": "explicit", "segments": options.via.split(",")}
    else:
        delay = None if options.max_delay is None else Duration(options.max_delay).ps // 1000
        candidate = {
            "type": "dynamic",
            "pfc_ends": options.pfc != "no",
            "pfc_every_hop": options.pfc == "every-hop",
            "include_any": options.include_any,
            "include_all": options.include_all,
            "exclude_any": options.exclude_any,
            "max_delay_ns": delay,
        }
    return {
        "headend": options.headend,
        "colour": options.colour,
        "endpoint": options.endpoint,
        "vpn": options.vpn,
        "service": options.service,
        "slice": options.slice,
        "binding_sid": options.binding_sid,
        "candidates": [candidate | {"preference": options.preference}],
    }


def _read(file: Path) -> Any:
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else regular_files.octets(file, 16 << 20)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    try:
        return read(content)
    except InvalidError as error:
        raise UsageError(f"{file}: {error}") from None


# Showing


def _neutral(answer: Any) -> Any:
    """Return the answer with control characters in its texts written out: names in it come from routers."""
    match answer:
        case str():
            return plain(answer)
        case list():
            return [_neutral(member) for member in answer]
        case dict():
            return {plain(name): _neutral(member) for name, member in answer.items()}
        case _:
            return answer


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from testbed.cli.screen.console import stdout

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    if table.row_count:
        stdout.print(table)
    else:
        stdout.print(f"[dim]no {columns[0]} yet[/dim]")


def _ms(delay_ns: int | None) -> str:
    return "" if delay_ns is None else str(Duration.from_ns(delay_ns))


def _topology(content: dict[str, Any]) -> None:
    from rich.markup import escape

    from testbed.cli.screen.console import stdout

    _table(
        ("router", "state", "PFC", "pauses"),
        [
            (router["name"], router["state"], "yes" if router["pfc_capable"] else "no", str(len(router["pauses"])))
            for router in content["routers"]
        ],
    )
    _table(
        ("link", "state", "delay", "PFC at", "slices"),
        [
            (
                link["name"],
                "up" if link["up"] else "down",
                " / ".join(_ms(end["delay_ns"]) for end in link["ends"]),
                ", ".join(end["router"] for end in link["ends"] if end["pfc"]),
                ", ".join(map(str, link["slices"])),
            )
            for link in content["links"]
        ],
    )
    if content["leaves"]:
        _table(
            ("switch", "datapath", "ports", "hosts", "links"),
            [
                (
                    leaf["name"],
                    leaf["datapath"],
                    f"{sum(port['up'] for port in leaf['ports'])} of {len(leaf['ports'])} up",
                    str(len(leaf["hosts"])),
                    ", ".join(f"{link['port']} to {link['leaf']}" for link in leaf["links"]),
                )
                for leaf in content["leaves"]
            ],
        )
    for text in content["problems"]:
        stdout.print(f"[dim]problem:[/dim] {escape(text)}", soft_wrap=True)
    if content["unreported"]:
        stdout.print(f"[dim]not reported yet:[/dim] {', '.join(content['unreported'])}", soft_wrap=True)


def _sids(content: dict[str, Any]) -> None:
    _table(
        ("SID", "router", "behaviour", "flavours", "interfaces", "slice"),
        [
            (
                sid["nlri"]["sid"],
                sid["nlri"]["local_node"]["name"],
                sid["endpoint_behavior"]["name"],
                sid["endpoint_behavior"]["flavours"],
                ", ".join(adjacency["interface"] for adjacency in sid.get("end_x", {}).get("adjacencies", ())),
                str(sid.get("slice_id", "")),
            )
            for sid in content["sids"]
        ],
    )


def _policies(content: dict[str, Any]) -> None:
    _table(
        ("policy", "status", "path", "delay", "slice", "binding SID", "segments, or why not"),
        [
            (
                policy["id"],
                policy["status"],
                "-".join((policy["active"] or {}).get("routers", ())),
                _ms((policy["active"] or {}).get("delay_ns")),
                "" if policy["slice"] is None else str(policy["slice"]),
                policy["intent"]["binding_sid"] or "",
                policy["why"] or ", ".join((policy["active"] or {}).get("segments", ())),
            )
            for policy in content["policies"]
        ],
    )


def _reverse(content: dict[str, Any]) -> None:
    from rich.markup import escape

    from testbed.cli.screen.console import stdout

    _table(
        ("tunnel", "way", "state", "slice", "delay", "segments"),
        [
            (
                f"{tunnel['router']} to {tunnel['pauses']}",
                tunnel["direction"],
                tunnel["state"] + (f": {tunnel['why']}" if tunnel["why"] else ""),
                "" if tunnel["slice"] is None else str(tunnel["slice"]),
                _ms(tunnel["delay_ns"]),
                ", ".join(tunnel["segments"]),
            )
            for tunnel in content["tunnels"]
        ],
    )
    for text in content["missing"]:
        stdout.print(f"[dim]missing:[/dim] {escape(text)}", soft_wrap=True)


def _vpns(content: dict[str, Any]) -> None:
    _table(
        ("VPN", "colour", "router", "state", "SID", "prefixes", "policies"),
        [
            (
                vpn["name"],
                str(vpn["intent"]["colour"]),
                site["router"],
                state["state"] + (f": {state['why']}" if state["why"] else ""),
                site["sid"] or "",
                ", ".join(site["prefixes"]),
                ", ".join(vpn["policies"]),
            )
            for vpn in content["vpns"]
            for site, state in zip(vpn["intent"]["sites"], vpn["sites"], strict=True)
        ],
    )


def _slices(content: dict[str, Any]) -> None:
    _table(
        ("slice", "name", "routers", "links", "policies", "VPNs"),
        [
            (
                str(entry["id"]),
                ", ".join(entry["names"]),
                ", ".join(router["router"] for router in entry["routers"]),
                str(len(entry["links"])),
                ", ".join(entry["policies"]),
                ", ".join(entry["vpns"]),
            )
            for entry in content["slices"]
        ],
    )


def _events(client: Client, options: argparse.Namespace) -> int:
    def show(event: dict[str, Any]) -> None:
        if options.json:
            line = json.dumps(event)
        else:
            text = plain(event["text"]).replace("\n", " ")
            line = f"{event['sequence']:>6}  {event['time_ns'] / 1e9:.6f}  {plain(event['kind']):<18}  {text}"
        print(line, flush=True)

    if not options.follow:
        for event in client.ask("GET", f"/events?follow=false&after={options.after}")["events"]:
            show(event)
        return Exit.OK
    for line in client.lines(f"/events?after={options.after}"):
        if line.startswith("data: "):
            show(json.loads(line.removeprefix("data: ")))
    raise ControllerError("the controller has ended the stream of events")
