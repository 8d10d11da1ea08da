"""Result folders for the tests of reports: a small one like that of `xoff run incast`, and as many events as wanted."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testbed.frames import Mac
from testbed.frames.capture_file import Interface, Writer
from testbed.frames.mac_control import PfcFrame

MS = 1_000_000
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>\x1b[31m\u202e{{}}"


def network(t_ns: int, case: str, hosts: int = 2) -> dict[str, Any]:
    """Return the description of a star: hosts h1.., and the switch s1 whose port N is the one of hN."""
    cables, ports, nodes = [], {}, {"s1": "switch"}
    for number in range(1, hosts + 1):
        near, far = f"h{number}-eth0", f"s1-eth{number}"
        nodes[f"h{number}"] = "host"
        cables.append(
            {
                "ends": [near, far], "nodes": [f"h{number}", "s1"], "scale": 1000, "rate_bps": 10**7, "delay_ns": 5000,
                "hardware_rate_bps": 10**10, "hardware_delay_ns": 5.0, "hardware_length_m": 1.0, "loss": "0",
            }
        )  # fmt: skip
        group = {
            "xoff_cells": 300,
            "xon_offset_cells": 96,
            "guaranteed_cells": 0,
            "headroom_cells": 43,
            "lossless": True,
        }
        ports[near] = {"node": f"h{number}", "lossless": [3], "groups": {}}
        ports[far] = {"node": "s1", "lossless": [3], "groups": {"3": group}}
    pools = {"total_cells": 5000, "cell_bytes": 208, "shared_cells": 4914, "guaranteed_cells": 0, "headroom_cells": 86}
    return {
        "lab_ns": t_ns, "network": "started", "case": case, "topology": "Star", "nodes": nodes, "cables": cables,
        "ports": ports, "buffers": {"s1": pools},
    }  # fmt: skip


def pause(start_ns: int, end_ns: int, number: int = 1, priority: int = 3, cells: int = 301) -> list[dict[str, Any]]:
    """Return the agents' log of one pause: the switch's port N sends XOFF at `start_ns`, and XON at `end_ns`."""
    switch = {"port": f"s1-eth{number}", "priorities": [priority]}
    host = {"port": f"h{number}-eth0", "priorities": [priority]}
    return [
        {"t": start_ns, "event": "congested", **switch},
        {"t": start_ns, "event": "threshold", **switch, "shared_cells": cells},
        {"t": start_ns, "event": "xoff_sent", **switch, "quanta": 65535},
        {"t": start_ns + 20, "event": "xoff_received", **host, "quanta": 65535},
        {"t": start_ns + 60, "event": "queue_stopped", **host, "reaction_ns": 40},
        {"t": end_ns, "event": "relieved", **switch},
        {"t": end_ns, "event": "threshold", **switch, "shared_cells": cells - 97},
        {"t": end_ns, "event": "xon_sent", **switch},
        {"t": end_ns + 20, "event": "xon_received", **host},
    ]


def drop(t_ns: int, number: int = 1, reason: str = "threshold") -> dict[str, Any]:
    return {"t": t_ns, "event": "drop", "port": f"s1-eth{number}", "priorities": [3], "reason": reason, "octets": 1514}


def flow(t_ns: int, number: int, **changes: Any) -> dict[str, Any]:
    """Return the line of a flow of the log of flows: 3 us where 1.5 us was the best."""
    return {
        "lab_ns": t_ns, "flow": number, "source": "h1", "target": "h2", "transport": "udp", "priority": 3,
        "rate_control": "", "size_bytes": 1500, "completion_ns": 3000, "best_ns": 1500, "goodput_bps": 4 * 10**9,
        "worst_delay_ns": 900, "sent": 1, "received": 1, "lost": 0, "doubled": 0, "out_of_order": 0, "octets": 1514,
        "marked": None, "retransmitted": None, "cnps": None, "failure": "", "scale": 1000,
    } | changes  # fmt: skip


def result(virtual_ns: int = 1000 * MS, **changes: Any) -> dict[str, Any]:
    return {
        "schema": 2, "experiment": "incast", "status": "ok", "parameters": {"senders": 2}, "seed": 1,
        "figures": [{"name": "pauses of each sender", "value": [2, 1], "unit": ""}],
        "claims": [
            {
                "name": "goodput", "expected": {"at_least": 9_900_000}, "measured": 10_000_135, "passed": True,
                "unit": "b/s",
            }
        ],
        "fidelity": {
            "verdict": "kept", "reasons": [], "windows": 9, "idle_percent": 99.0, "timer_late_ns": 1000,
            "agent_late_ns": 0, "thresholds": {"idle_percent": 1, "timer_late_ns": MS, "agent_late_ns": MS},
        },
        "provenance": {"engine": "um", "kernel": "7.3.4", "xoff": "0.1.0", "commit": "abc"},
        "times": {"virtual_ns": virtual_ns, "wall_s": 1.5, "first_line_s": 0.5, "ratio": 0.6},
        "files": {"events.jsonl": "00" * 32}, "virtual_ns": virtual_ns, "passed": True, "reason": "",
        "digest": "12" * 32,
    } | changes  # fmt: skip


def lines(path: Path, content: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in content), encoding="utf-8")


def small(folder: Path, **changes: Any) -> Path:
    """Write a result of two networks one after another: with PFC three pauses, without it two drops."""
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result(**changes)), encoding="utf-8")
    ended = {"network": "ended"}
    lines(
        folder / "networks.jsonl",
        [
            network(10 * MS, "with PFC"), {"t_ns": 500 * MS, **ended},
            network(510 * MS, "without PFC"), {"t_ns": 990 * MS, **ended},
        ],
    )  # fmt: skip
    events = pause(100 * MS, 130 * MS) + pause(110 * MS, 140 * MS, number=2) + pause(200 * MS, 220 * MS)
    started = [{"t": t, "event": "agent_started", "port": "s1-eth1", "priorities": []} for t in (11 * MS, 511 * MS)]
    drops = [drop(600 * MS), drop(610 * MS)]
    lines(folder / "events.jsonl", sorted([*started, *events, *drops], key=lambda event: int(event["t"])))
    return folder


def hostile(folder: Path) -> Path:
    """Write the same result with markup and escapes in every name, and a huge name and number."""
    small(
        folder,
        experiment=HOSTILE,
        parameters={HOSTILE: HOSTILE},
        figures=[
            {"name": HOSTILE, "value": HOSTILE, "unit": HOSTILE},
            {"name": "N" * 200_000, "value": [10**3000, "V" * 200_000], "unit": ""},
        ],
        claims=[{"name": HOSTILE, "expected": {"equals": HOSTILE}, "measured": HOSTILE, "passed": False, "unit": ""}],
        provenance={HOSTILE: HOSTILE, "engine": HOSTILE},
        files={HOSTILE: HOSTILE},
        reason=HOSTILE,
    )
    for name in ("networks.jsonl", "events.jsonl"):
        text = (folder / name).read_text(encoding="utf-8")
        for known in ("with PFC", "s1-eth1", 'threshold"'):
            text = text.replace(known, json.dumps(HOSTILE)[1:-1] + known)
        (folder / name).write_text(text + "{not JSON\n[]\n" + '{"t": "x", "event": []}\n', encoding="utf-8")
    return folder


def large(folder: Path, events: int = 1_000_000, seconds: int = 60, hosts: int = 16) -> Path:
    """Write a result as long and as busy as wanted: pauses of 16 hosts at moments that do not repeat."""
    folder.mkdir(parents=True)
    end_ns, chance = seconds * 1000 * MS, random.Random(1)
    (folder / "result.json").write_text(json.dumps(result(end_ns)), encoding="utf-8")
    lines(folder / "networks.jsonl", [network(0, "large", hosts), {"t_ns": end_ns, "network": "ended"}])
    rounds = events // (9 * hosts)
    step = (end_ns - 10 * MS) // rounds
    made: list[dict[str, Any]] = []
    for number in range(1, hosts + 1):
        for turn in range(rounds):
            start = turn * step + chance.randrange(step // 2)
            made += pause(start, start + chance.randrange(100, step // 3), number, cells=chance.randrange(301, 900))
    made += [drop(chance.randrange(end_ns)) for _ in range(events - len(made))]
    lines(folder / "events.jsonl", sorted(made, key=lambda event: int(event["t"])))
    return folder


def fabric(folder: Path, leaves: int = 4, spines: int = 4, hosts: int = 16) -> Path:
    """Write a result of leaf and spine whose links have loads of 0 to 100 %."""
    small(folder)
    star = network(10 * MS, "fabric", 1)
    cables: list[dict[str, Any]] = []
    nodes: dict[str, str] = {}
    used: dict[str, int] = {}

    def cable(one: str, other: str) -> None:
        ends = []
        for name in (one, other):
            nodes[name] = "host" if name.startswith("h") else "switch"
            used[name] = used.get(name, 0) + 1
            ends.append(f"{name}-eth{used[name]}")
        cables.append(star["cables"][0] | {"ends": ends, "nodes": [one, other]})

    for leaf in range(leaves):
        for number in range(hosts):
            cable(f"h{leaf * hosts + number + 1}", f"leaf{leaf + 1}")
        for spine in range(spines):
            cable(f"leaf{leaf + 1}", f"spine{spine + 1}")
    started = star | {"nodes": nodes, "cables": cables, "ports": {}, "buffers": {}}
    lines(folder / "networks.jsonl", [started, {"network": "ended", "t_ns": 990 * MS}])
    ends = [end for one in cables for end in one["ends"]]
    rows = [f"{t * MS},{end},{10**10 * (at % 5) // 4}" for t in (100, 200, 300) for at, end in enumerate(ends)]
    (folder / "series-links.csv").write_text("\n".join(["t_ns,port,load_bps", *rows, ""]), encoding="utf-8")
    return folder


LINE_NS = 1_230_400
"""The time of a frame of 1514 octets on the line of `network`, in the lab."""
PFC_LINE_NS = 84 * 800
DELAY_NS = 5000


def datagram(source: int, target: int, number: int, priority: int = 3) -> bytes:
    """Return the frame of a datagram of host `source` to host `target`, of 1514 octets."""
    udp = struct.pack("!HHHH", 20000 + source, 20000 + target, 1480, 0) + struct.pack("<QQ", number, 0)
    ends = bytes([10, 0, 0, source, 10, 0, 0, target])
    ip = struct.pack("!BBHHHBBH", 0x45, priority << 5, 1500, number, 0x4000, 64, 17, 0) + ends
    header = bytes([2, 0, 0, 0, 0, target, 2, 0, 0, 0, 0, source]) + b"\x08\x00"
    return (header + ip + udp).ljust(1514, b"\0")


def captured(folder: Path, name: Callable[[str], str] = str, hosts: int = 3) -> Path:
    """Write a result in which h1 and h2 of `hosts` hosts each send ten frames to h3, and s1 pauses h1 once for 5 ms.

    Of the frames of h2 the fourth is dropped by s1's buffer, and the sixth is lost on the way to h3. `name` changes the
    names of interfaces in captures.
    """
    small(folder)
    ended = {"t_ns": 500 * MS, "network": "ended"}
    lines(folder / "networks.jsonl", [network(10 * MS, "with PFC", hosts), ended])
    start, pause_ns = 100 * MS, 112 * MS
    arrived: dict[tuple[str, str], list[tuple[int, bytes]]] = {}
    left: list[tuple[int, bytes]] = []
    for number in range(10):
        for host in (1, 2):
            held = 5 * MS if host == 1 and number >= 8 else 0
            t_ns = start + number * LINE_NS + held + DELAY_NS
            octets = datagram(host, 3, number)
            arrived.setdefault((f"h{host}-eth0", f"s1-eth{host}"), []).append((t_ns, octets))
            if (host, number) not in ((2, 3), (2, 5)):
                left.append((t_ns, octets))
    free_ns = 0
    for t_ns, octets in sorted(left):
        free_ns = max(free_ns, t_ns) + LINE_NS
        arrived.setdefault(("s1-eth3", "h3-eth0"), []).append((free_ns - LINE_NS + DELAY_NS, octets))
    mac = Mac(bytes([2, 0, 0, 0, 1, 1]))
    arrived["s1-eth1", "h1-eth0"] = [
        (pause_ns + DELAY_NS, PfcFrame.xoff(mac, [3]).encode()),
        (pause_ns + 5 * MS + DELAY_NS, PfcFrame.xon(mac, [3]).encode()),
    ]
    place = folder / "captures" / "1"
    place.mkdir(parents=True)
    for (source, target), frames in arrived.items():
        with (place / f"{source}-to-{target}.pcapng").open("wb") as file:
            writer = Writer(file)
            writer.interface(Interface(name(f"{source} > {target}"), speed_bps=10**7))
            for t_ns, octets in frames:
                writer.frame(0, t_ns, octets)
    events = pause(pause_ns, pause_ns + 5 * MS)
    for event in events:
        if event["port"] == "h1-eth0":  # a PFC frame is obeyed after its last bit
            event["t"] += DELAY_NS + PFC_LINE_NS - 20
    events.append(drop(start + 3 * LINE_NS + DELAY_NS, 2))
    lines(folder / "events.jsonl", sorted(events, key=lambda event: int(event["t"])))
    return folder


def star_of_frames(folder: Path, hosts: int = 19, each: int = 60) -> Path:
    """Write a result of `hosts` hosts at a switch over long cables, on which some 17 frames of each are at once."""
    small(folder)
    line = network(10 * MS, "long", hosts=hosts)
    for cable in line["cables"]:
        cable["delay_ns"] = 20 * MS
    lines(folder / "networks.jsonl", [line, {"t_ns": 500 * MS, "network": "ended"}])
    place = folder / "captures" / "1"
    place.mkdir(parents=True)
    for host in range(1, hosts + 1):
        with (place / f"h{host}.pcapng").open("wb") as file:
            writer = Writer(file)
            writer.interface(Interface(f"h{host}-eth0 > s1-eth{host}"))
            for number in range(each):
                writer.frame(0, 100 * MS + number * LINE_NS + host * 7000, datagram(host, 1 + host % hosts, number))
    return folder
