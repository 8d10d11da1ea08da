"""Link Layer Retry of a switch that was read from a config_db.json: its cables, and SONiC's commands about it."""

from __future__ import annotations

import json

from testbed.experiment.definition import experiment
from testbed.experiment.run import Run

PROFILE = {
    "max_outstanding_frames": "64", "max_outstanding_bytes": "40000", "max_replay_count": "3",
    "max_replay_timer": "6000", "ctlos_spacing_bytes": "2048", "init_action": "best_effort", "flush_action": "block",
}  # fmt: skip
ON = {"llr_local": "enabled", "llr_remote": "enabled"}
CONFIG = {
    "DEVICE_METADATA": {"localhost": {"hostname": "leaf1"}},
    "PORT": {f"Ethernet{8 * n}": {"speed": "200000", "lanes": str(n), "fec": "rs"} for n in range(3)},
    "CABLE_LENGTH": {"AZURE": {f"Ethernet{8 * n}": "40m" for n in range(3)}},
    "LLR_PORT": {"Ethernet0": ON, "Ethernet8": ON | {"llr_profile": "short"}},
    "LLR_PROFILE": {"short": PROFILE},
}


def cells(text: str, port: str) -> list[list[str]]:
    """Return the rows of a port in a text, as words."""
    return [line.split() for line in text.splitlines() if line.split()[:1] == [port]]


@experiment
def test_llr_of_a_config_db_json_repairs_its_cables_and_sonics_commands_show_it(run: Run) -> None:
    """A host sends 100 frames to another over two cables with LLR, on one of which a frame is lost."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from testbed.subjects.sonic.lab import commands
    from testbed.subjects.sonic.lab.settings import Switch
    from testbed.subjects.sonic.lab.topo import SonicTopo
    from testbed.subjects.sonic.read import read
    from testbed.switch.link.jam import Jam

    switch = Switch.of(read(json.dumps(CONFIG).encode()).require("it"))
    with network(SonicTopo(switch), run, autoStaticArp=True) as net:
        show = commands.show
        net.fabric.core.cabling.jam("leaf1-eth2", Jam("frame", "lost", 50))
        with Flows([Flow("h1", "h2", frame="1514B", count=100)]) as running:
            running.wait()
        run.claim("frames lost", running.reports[0].lost, equals=0)

        cables = [net.fabric.core.ports.port(f"leaf1-eth{n}").lab_cable.in_hardware(switch.scale) for n in (1, 2)]
        buffers = [(one.retry.frames, one.retry.octets, str(one.retry.replay_timer)) for one in cables if one.retry]
        run.claim("buffers and timers", buffers, equals=[(71, 35_952, "5.5us"), (64, 40_000, "6us")])

        text = show(["llr", "interface"])
        run.claim("interfaces", [cells(text, f"Ethernet{8 * n}") for n in range(3)], equals=[
            [["Ethernet0", "static", "enabled", "enabled", "llr_200000_40m_profile"]],
            [["Ethernet8", "static", "enabled", "enabled", "short"]],
            [],
        ])  # fmt: skip
        profile = show(["llr", "profile", "short"])
        run.claim("profile", "| Maximum Outstanding Bytes   | 40000 " in profile, equals=True)
        run.claim("profiles", show(["llr", "profile"]).count("LLR Profile: "), equals=2)
        run.claim("no such profile", show(["llr", "profile", "long"]), equals="LLR profile long not found.\n")

        counters, port = show(["llr", "counters", "-i", "Ethernet8"]), net.fabric.llr("leaf1-eth2")
        received, sent = cells(counters, "Ethernet8")
        run.claim("sent", sent[1:], equals=[
            "Enable", *(str(port[name]) for name in (
                "TX_INIT_CTL_OS", "TX_INIT_ECHO_CTL_OS", "TX_ACK_CTL_OS", "TX_NACK_CTL_OS", "TX_OK", "TX_DISCARD",
                "TX_POISONED", "TX_REPLAY",
            )),
        ])  # fmt: skip
        run.claim("a replay", sent[-1], equals="1")
        run.claim("a NACK came", received[5], equals="1")
        detailed = show(["llr", "counters", "detailed", "Ethernet8"])
        line = f"LLR Tx Replay Triggered Count {'.' * 31} 1\n"
        run.claim("detailed", line in detailed, equals=True)
        run.claim("lines of the detailed view", detailed.count(" ... ") + detailed.count(".. "), equals=22)
        run.claim("without LLR", show(["llr", "counters", "Ethernet16"]),
                  equals="Interface Ethernet16 not found in LLR configuration.\n")  # fmt: skip

        said = commands.clear(["llr", "counters", "interface", "Ethernet8"])
        run.claim("cleared", said, equals="LLR counters cleared for Ethernet8.\n")
        run.claim("a replay since", cells(show(["llr", "counters"]), "Ethernet8")[1][-1], equals="0")
        run.claim("others are not cleared", int(cells(show(["llr", "counters"]), "Ethernet0")[0][6]), at_least=100)
        run.claim("the lab's counter stays", net.fabric.llr("leaf1-eth2")["TX_REPLAY"], equals=1)
