"""End.X.PFC on real routers, and its packets as another decoder reads them."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs.looking import wait_for

from testbed.frames import Mac
from testbed.frames.mac_control import PauseFrame, PfcFrame
from testbed.lab import Run, experiment
from testbed.linux.process import kernel
from testbed.subjects.srv6.lab import routers as srv6
from testbed.subjects.srv6.protocol.reverse_tunnel import Encapsulator, ReverseTunnel
from xoff import wan_filtered, wan_state

if TYPE_CHECKING:
    from tests.lab.conftest import Runner


MAC = Mac.parse("02:00:00:00:00:99")
_RECEIVE_ERRORS, _HOPS = 25, 16  # IPV6_RECVERR, IPV6_UNICAST_HOPS


def _trace(node: Any, address: str) -> list[str]:
    """Return the nodes that answer a datagram with a hop limit of one, two and so on, up to the address itself."""
    answered: list[str] = []
    with kernel.in_network_of(node.pid):
        probe = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    probe.settimeout(5)
    probe.setsockopt(socket.IPPROTO_IPV6, _RECEIVE_ERRORS, 1)
    while not answered or (answered[-1] != address and len(answered) < 8):
        probe.setsockopt(socket.IPPROTO_IPV6, _HOPS, len(answered) + 1)
        probe.sendto(b"where", (address, 33434 + len(answered)))
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            try:
                _, ancillary, _, _ = probe.recvmsg(512, 512, socket.MSG_ERRQUEUE)
            except BlockingIOError:
                time.sleep(0.01)
                continue
            (offender,) = (data for level, kind, data in ancillary if kind == _RECEIVE_ERRORS)
            answered.append(socket.inet_ntop(socket.AF_INET6, offender[24:40]))
            break
        else:
            answered.append("nobody")
    probe.close()
    return answered


def counters(fabric: Any) -> dict[str, int]:
    """Return the counters of packets to r1's SID."""
    (own, _) = wan_state(fabric, "r1")["sids"].values()
    return dict(own)


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def at_the_sid(run: Run) -> None:
    """Check that r1's SID answers r3's ping, that PFC in a tunnel pauses J for its quanta, and that other frames do
    nothing.
    """
    from testbed.net.build.network import network
    from testbed.net.shell.wire import capture
    from topologies.srv6_wan import Srv6Wan

    topo = Srv6Wan(n=1, wan="1km")
    with network(topo, run) as net:
        fabric, r3 = net.fabric, net["r3"]
        place, leg = topo.graph.leg("r1", "r2")
        sid, end2, end3 = (
            one.address for one in (srv6.end_x_pfc_sid("r1", place, leg), srv6.end_sid("r2"), srv6.end_sid("r3"))
        )
        pinged = r3.cmd(f"ping -6 -c 3 -i 0.2 -W 5 {sid}")
        run.claim("pings that were answered", pinged.count("bytes from"), equals=3)
        run.claim(
            "a trace to the SID", _trace(r3, str(sid)), equals=[str(topo.graph.leg("r2", "r3")[1].address), str(sid)]
        )
        packets = Encapsulator(ReverseTunnel("r3", "r1", (end3, end2, sid)), srv6.source_address(3))
        with kernel.in_network_of(r3.pid):
            raw = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
        good = packets.packet(PfcFrame.xoff(MAC, [3], 5000))
        other_mac = good.replace(bytes.fromhex("0180c2000001"), bytes.fromhex("0180c20000ff"))
        pause = good[: -len(PfcFrame.xoff(MAC, [3]).encode())] + PauseFrame(MAC, 5000).encode()
        outside = good.replace(srv6.source_address(3).packed, socket.inet_pton(socket.AF_INET6, "fd00:bad::1"))
        with capture(net["r2"], "r2-eth0", Path("tunnel.pcap"), "ip6"):
            for packet in (other_mac, pause, outside, good):
                raw.sendto(packet, (str(end2), 0))
                time.sleep(0.05)
            wait_for(lambda: fabric.pfc("r1-eth1", 3)["paused_until_ns"] is not None)
            run.claim("paused", fabric.pfc("r1-eth1", 3)["paused_until_ns"] is not None, equals=True)
            time.sleep(0.4)  # and ask nothing meanwhile: to answer takes an agent a millisecond
        raw.close()
        counted = counters(fabric)
        run.figure("what became of packets to the SID", counted)
        state = fabric.pfc("r1-eth1", 3)
        run.claim("pauses", state["xoff_received"], equals=1)
        # 5000 quanta of 512 bits at 10 Mb/s; and until the agent was awake.
        run.claim("ns paused", state["paused_ns"], at_least=256_000_000, at_most=256_500_000)
        wanted = {
            "paused": 1,
            "answered ping": 3,
            "answered traceroute": 1,
            "dropped inner_other_mac": 1,
            "dropped inner_pause": 1,
        }
        run.claim("by what became of them", wanted.items() <= counted.items(), equals=True)
        run.claim("from outside the domain, dropped by r2", wan_filtered(fabric, "r2")["source_outside"], equals=1)


def test_the_sid_answers_pings_obeys_pfc_and_counts_the_rest(run: Runner) -> None:
    result = run(at_the_sid).check()
    assert result.folder is not None
    tunnel = result.folder / "tunnel.pcap"
    frames = _read(tunnel)
    pfc = [frame for frame in frames if "macc" in frame]
    assert pfc, "no MAC control frame was found inside"
    for frame in pfc:
        assert frame["ipv6"]["ipv6.routing.type"] == "4", frame["ipv6"]
    good = pfc[-1]
    assert good["macc"]["macc.opcode"].lower() == "0x0101"
    assert "_ws.expert" not in json.dumps(good), good
    complaints = [frame for frame in frames if "_ws.expert" in json.dumps(frame)]
    assert len(complaints) == 1, "a warning for the frame to another address, and for no other"


def _read(file: Path) -> list[dict[str, dict[str, str]]]:
    """Return each packet's layers with their fields, flattened."""
    said = subprocess.run(
        ["tshark", "-r", str(file), "-T", "json", "--no-duplicate-keys"], capture_output=True, text=True, check=True
    )
    return [{name: _flat(layer) for name, layer in one["_source"]["layers"].items()} for one in json.loads(said.stdout)]


def _flat(layer: object) -> dict[str, str]:
    found: dict[str, str] = {}
    if isinstance(layer, dict):
        for name, value in layer.items():
            if isinstance(value, str):
                found[name] = value
            else:
                found |= _flat(value)
    elif isinstance(layer, list):
        for one in layer:
            found |= _flat(one)
    return found
