"""Switches from config_db.json files in the lab: what SONiC's commands show, the watchdog, and small frames at "
"line rate."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.lab import Run, experiment
from testbed.units import Rate

if TYPE_CHECKING:
    from tests.lab.conftest import Runner

PRIORITY = 3
CONFIG = {
    "DEVICE_METADATA": {"localhost": {"hostname": "leaf1"}},
    "PORT": {f"Ethernet{4 * n}": {"speed": "100000", "mtu": "1500"} for n in range(3)},
    "CABLE_LENGTH": {"AZURE": {f"Ethernet{4 * n}": "5m" for n in range(3)}},
    "BUFFER_POOL": {
        "ingress_lossless_pool": {"type": "ingress", "mode": "dynamic", "size": "2000000", "xoff": "400000"},
        "egress_lossless_pool": {"type": "egress", "mode": "static", "size": "2000000"},
        "egress_lossy_pool": {"type": "egress", "mode": "dynamic", "size": "400000"},
    },
    "BUFFER_PROFILE": {
        "lossless": {
            "pool": "ingress_lossless_pool",
            "size": "2080",
            "xoff": "40000",
            "xon": "18304",
            "dynamic_th": "-1",
        },
        "lossy": {"pool": "ingress_lossless_pool", "size": "0", "dynamic_th": "3"},
        "out_lossless": {"pool": "egress_lossless_pool", "size": "0", "static_th": "2000000"},
        "out_lossy": {"pool": "egress_lossy_pool", "size": "1456", "dynamic_th": "-2"},
    },
    "BUFFER_PG": {
        "Ethernet0,Ethernet4,Ethernet8|3-4": {"profile": "lossless"},
        "Ethernet0,Ethernet4,Ethernet8|0": {"profile": "lossy"},
    },
    "BUFFER_QUEUE": {
        "Ethernet0,Ethernet4,Ethernet8|3-4": {"profile": "out_lossless"},
        "Ethernet0,Ethernet4,Ethernet8|0-2": {"profile": "out_lossy"},
    },
    "DSCP_TO_TC_MAP": {"AZURE": {str(dscp): str({3: 3, 4: 4}.get(dscp, 1)) for dscp in range(64)}},
    "TC_TO_PRIORITY_GROUP_MAP": {"AZURE": {str(tc): str(tc if tc in (3, 4) else 0) for tc in range(8)}},
    "TC_TO_QUEUE_MAP": {"AZURE": {str(tc): str(tc) for tc in range(8)}},
    "PORT_QOS_MAP": {
        "Ethernet0,Ethernet4,Ethernet8": {
            "dscp_to_tc_map": "AZURE",
            "tc_to_pg_map": "AZURE",
            "tc_to_queue_map": "AZURE",
            "pfc_enable": "3,4",
        }
    },
}


def switch(content: dict[str, Any]) -> Any:
    from testbed.subjects.sonic.lab.settings import Switch

    file = Path("config_db.json")
    file.write_text(json.dumps(content))
    return Switch.from_config_db(file)


def cells(text: str, port: str) -> list[str]:
    """Return the row of a port in a table."""
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [port])


@experiment(_in_lab_time=True, timeout="120s")
def test_commands_of_sonic_show_what_the_switch_did(run: Run) -> None:
    """Two hosts overload the third, lossless and lossy: pauses, watermarks and drops are those of the lab's counters,
    and clearing begins them anew.
    """
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from testbed.subjects.sonic.lab import commands as sonic_commands
    from testbed.subjects.sonic.lab.topo import SonicTopo

    leaf = switch(CONFIG)
    with network(SonicTopo(leaf), run, autoStaticArp=True) as net:
        flows = [Flow(f"h{n}", "h3", 3, count=1500, dscp=3) for n in (1, 2)]
        flows += [Flow(f"h{n}", "h3", 1, count=800, dscp=0) for n in (1, 2)]
        with Flows(flows) as running:
            running.wait()
        lossless, lossy = running.reports[:2], running.reports[2:]
        run.claim("lossless lost", sum(one.lost for one in lossless), equals=0)
        lost = sum(one.lost for one in lossy)
        run.claim("lossy lost", lost, at_least=200)

        show = sonic_commands.show
        counters = show(["pfc", "counters"])
        run.claim(
            "pfc counters, heads",
            counters.splitlines()[0].split(),
            equals=["Port", "Rx", *(f"PFC{n}" for n in range(8))],
        )
        sent = net.fabric.pfc("leaf1-eth1", 3)
        pauses = sum(sent[kind] for kind in ("xoff_sent", "xoff_refreshed", "xon_sent"))
        run.claim("pauses", pauses, at_least=2)
        run.claim("PFC3 sent", int(cells(counters.split("\n\n")[1], "Ethernet0")[4]), equals=pauses)
        run.claim("lossless priorities", cells(show(["pfc", "priority"]), "Ethernet4")[1], equals="3,4")

        group = net.fabric.group("leaf1-eth1", 3)
        shared = show(["priority-group", "watermark", "shared"])
        run.claim("shared watermark", int(cells(shared, "Ethernet0")[4]), equals=group.high_water[1] * 208)
        headroom = show(["priority-group", "watermark", "headroom"])
        run.claim("headroom watermark", int(cells(headroom, "Ethernet0")[4]), equals=group.high_water[2] * 208)
        run.claim("headroom was used", group.high_water[2], at_least=1)
        unicast = show(["queue", "watermark", "unicast"])
        queue = net.fabric.queue("leaf1-eth3", 1)
        run.claim("queue watermark", int(cells(unicast, "Ethernet8")[2]), equals=queue.high_water[1] * 208)
        pools = show(["buffer_pool", "watermark"])
        most = net.fabric.pools("leaf1")[0].high_water[1]
        run.claim("pool watermark", int(cells(pools, "ingress_lossless_pool")[1]), equals=most * 208)

        drops = show(["priority-group", "drop", "counters"])
        counted = sum(int(cells(drops, f"Ethernet{4 * n}")[1]) for n in range(3))
        run.claim("drops of group 0", counted, equals=lost)
        queues = show(["queue", "counters", "Ethernet8"])
        rows = {line.split()[1]: line.split()[2:] for line in queues.splitlines()[2:]}
        run.claim("UC3 packets", int(rows["UC3"][0]), equals=3000)
        run.claim("UC1 drops", int(rows["UC1"][2]), equals=lost)
        run.claim("UC1 drops at egress", queue.dropped_frames, equals=lost)

        for command in (["pfccounters"], ["queuecounters"], ["priority-group", "drop", "counters"],
                        ["priority-group", "watermark", "shared"], ["queue", "watermark", "unicast"],
                        ["buffer_pool", "watermark"]):  # fmt: skip
            sonic_commands.clear(command)
        for words, place in ((["pfc", "counters"], 4), (["priority-group", "drop", "counters"], 1),
                             (["priority-group", "watermark", "shared"], 4)):  # fmt: skip
            run.claim(f"{' '.join(words)}, cleared", int(cells(show(words), "Ethernet0")[place]), equals=0)
        kept = show(["priority-group", "persistent-watermark", "shared"])
        run.claim("persistent watermark", int(cells(kept, "Ethernet0")[4]), equals=group.high_water[1] * 208)
        run.claim("drops stay in the lab's counters", net.fabric.dropped(), equals=lost)


@experiment(_in_lab_time=True, timeout="120s")
def test_pfcwd_start_finds_a_storm_after_its_detection_time_and_an_alert_drops_nothing(run: Run) -> None:
    """A host pauses its switch for longer than the detection time: `alert` counts the storm, `drop` also empties the
    queue, and without a watchdog nothing is found. Times are those of hardware at a scale of 1000.
    """
    from testbed.frames.mac_control import PfcFrame
    from testbed.net.build.network import network
    from testbed.net.shell.wire import RawPort
    from testbed.subjects.sonic.lab import commands as sonic_commands
    from testbed.subjects.sonic.lab.topo import SonicTopo

    leaf = switch(CONFIG)
    with network(SonicTopo(leaf), run, autoStaticArp=True) as net:
        fabric = net.fabric
        port = fabric.port("leaf1-eth3")
        run.claim("no watchdog yet", "drop" in sonic_commands.show(["pfcwd", "config"]), equals=False)
        counted, found = 0, {}
        for action in ("alert", "drop", None):
            if action is None:
                sonic_commands.watchdog(["stop"])
            else:
                words = f"start --action {action} ports all detection-time 1 --restoration-time 1".split()
                sonic_commands.watchdog(words)
                sonic_commands.watchdog(["interval", "1"])
                row = cells(sonic_commands.show(["pfcwd", "config"]), "Ethernet8")
                run.claim(f"{action}: config", row, equals=["Ethernet8", action, "1", "1"])
            with RawPort(net["h3"], "h3-eth0") as raw:
                for _ in range(20):  # 335 ms each, repeated in time
                    raw.send(PfcFrame.xoff(fabric.far_end(port).mac, [PRIORITY]).encode())
                    time.sleep(0.2)
            state = fabric.pfc("leaf1-eth3", PRIORITY)
            found[str(action)] = state["storm_detected"] - counted
            counted = state["storm_detected"]
            if action is not None:
                stats = cells(sonic_commands.show(["pfcwd", "stats"]), "Ethernet8:3")
                run.claim(f"{action}: stats", stats[1:3], equals=["stormed", f"{counted}/{counted - 1}"])
                run.claim(f"{action}: still paused", state["paused_until_ns"] is not None, equals=action == "alert")
            time.sleep(4)
        run.claim("storms", found, equals={"alert": 1, "drop": 1, "None": 0})


@experiment(_in_lab_time=True, timeout="120s")
def test_small_frames_at_line_rate_on_eight_priorities_lose_nothing(run: Run) -> None:
    """64 octets on the wire, at line rate, two senders with eight priorities each into one port, all lossless, at the
    scale that is proposed for the lab's engine.
    """
    from testbed.lab.engines.load import Load, frame_costs
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from testbed.subjects.sonic.lab.settings import scale_for
    from testbed.subjects.sonic.lab.topo import SonicTopo

    content = json.loads(json.dumps(CONFIG))
    names = "Ethernet0,Ethernet4,Ethernet8"
    content["BUFFER_PG"] = {f"{names}|0-7": {"profile": "lossless"}}
    content["BUFFER_POOL"]["ingress_lossless_pool"] |= {"size": "8000000", "xoff": "960000"}
    content["BUFFER_QUEUE"] = {f"{names}|0-7": {"profile": "out_lossless"}}
    content["BUFFER_POOL"]["egress_lossless_pool"]["size"] = "8000000"
    content["BUFFER_PROFILE"]["out_lossless"]["static_th"] = "8000000"
    content["DSCP_TO_TC_MAP"]["AZURE"] = {str(dscp): str(dscp % 8) for dscp in range(64)}
    content["TC_TO_PRIORITY_GROUP_MAP"]["AZURE"] = {str(tc): str(tc) for tc in range(8)}
    content["PORT_QOS_MAP"][names]["pfc_enable"] = "0,1,2,3,4,5,6,7"
    leaf = switch(content)
    load = Load(2, Rate("100Gb/s"), 60)
    scale = max(load.least_scale(frame_costs()), scale_for(leaf.tables).k)
    run.figure("scale", scale)
    with network(SonicTopo(switch(content), scale=scale), run, autoStaticArp=True) as net:
        line = Rate("100Gb/s") // scale
        flows = [Flow(f"h{n}", "h3", p, "60B", line // 8, count=600, dscp=p) for n in (1, 2) for p in range(8)]
        with Flows(flows) as running:
            running.wait()
        run.claim("lost", [report.lost for report in running.reports], equals=[0] * 16)
        run.claim("dropped", net.fabric.dropped(), equals=0)
        paused = [net.fabric.pfc("leaf1-eth1", p)["xoff_sent"] for p in range(8)]
        run.figure("XOFF by priority", paused)


@experiment(_in_lab_time=True, timeout="120s")
def test_two_files_are_a_fabric_whose_pauses_reach_the_senders(run: Run) -> None:
    """Two leaves cabled by DEVICE_NEIGHBOR: three hosts of one overload a host of the other, through one cable."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from testbed.subjects.sonic.lab.topo import SonicTopo

    leaves = []
    for name, other in (("leaf1", "leaf-2-of-the-lab"), ("leaf-2-of-the-lab", "leaf1")):
        text = json.dumps({key: row for key, row in CONFIG.items() if key not in ("PORT", "CABLE_LENGTH")})
        content = json.loads(text.replace("Ethernet8", "Ethernet8,Ethernet12"))
        content["PORT"] = {f"Ethernet{4 * n}": {"speed": "100000", "mtu": "1500"} for n in range(4)}
        content["CABLE_LENGTH"] = {"AZURE": dict.fromkeys(content["PORT"], "300m")}
        content["BUFFER_PROFILE"]["lossless"]["xoff"] = "60000"
        content["DEVICE_METADATA"]["localhost"]["hostname"] = name
        content["DEVICE_NEIGHBOR"] = {"Ethernet12": {"name": other, "port": "Ethernet12"}}
        leaves.append(switch(content))
    topo = SonicTopo(*leaves)
    run.claim("hosts", topo.at["h1"] + topo.at["h4"], equals=("leaf1", "Ethernet0", "s2", "Ethernet0"))
    with network(topo, run, autoStaticArp=True) as net:
        flows = [Flow(f"h{n}", "h4", 3, count=800, dscp=3) for n in (1, 2, 3)]
        run.claim("cable", str(net.fabric.port("leaf1-eth4").cable), equals="100Mb/s over 1.5ms")
        flows.append(Flow("h5", "h4", 3, count=800, dscp=3))
        with Flows(flows) as running:
            running.wait()
        run.claim("lost", sum(report.lost for report in running.reports), equals=0)
        between = net.fabric.pfc("leaf1-eth4", 3)["xoff_received"]
        run.claim("pauses between the leaves", between, at_least=1)
        run.claim("pauses of h1", net.fabric.pfc("h1-eth0", 3)["xoff_received"], at_least=1)


@experiment(_in_lab_time=True, timeout="120s")
def risky(run: Run, xoff: str = "40000", length: str = "5m") -> None:
    """Run an incast over a switch with another headroom or other cables."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from testbed.subjects.sonic.lab.topo import SonicTopo

    content = json.loads(json.dumps(CONFIG))
    content["BUFFER_PROFILE"]["lossless"]["xoff"] = xoff
    content["CABLE_LENGTH"]["AZURE"] = dict.fromkeys(content["PORT"], length)
    leaf = switch(content)
    run.figure("warnings", sorted({problem.rule for problem in leaf.warnings}))
    with network(SonicTopo(leaf), run, autoStaticArp=True) as net:
        with Flows([Flow(f"h{n}", "h3", 3, count=1500, dscp=3) for n in (1, 2)]) as running:
            running.wait()
        run.figure("lost", sum(report.lost for report in running.reports))
        run.figure("dropped", net.fabric.dropped())


def test_what_the_check_calls_too_small_loses_frames_and_what_it_passes_does_not(run: Runner) -> None:
    """Check the same profile on cables of 5 m and of 2 km."""
    near, far = run(risky), run(risky, length="2km")
    assert (near.figure("lost"), near.figure("warnings")) == (0, [])
    assert "headroom too small" in far.figure("warnings")
    assert far.figure("lost") == far.figure("dropped") > 0
