"""Two ends that disagree about a priority: what defense keeps out, and what is lost without it."""

import socket
import time
from collections.abc import Callable
from typing import Any

from experiments.dcbx._dcbx import feature, wait_for
from testbed.frames.dcbx.values import mask
from testbed.linux.process import kernel
from xoff import (
    Cable,
    DcbxSettings,
    DcbxVersion,
    Duration,
    Fabric,
    Flow,
    Flows,
    LosslessTopo,
    PfcAdmin,
    Port,
    PriorityMap,
    Rate,
    RawPort,
    Run,
    Trust,
    configure_dcbx,
    dcbx_state,
    experiment,
    network,
)

DISPUTED, OTHER = 3, 5
LINE = Rate("10Mb/s")
"""The rate of each sender's link; the receiver's has half of it, so that two senders are four times too fast."""
CELLS = 600
FRAMES = 400
SLOW = Rate("500kb/s")
_ETH_P_ALL = 3


@experiment(timeout="120s")
def dcbx_mismatch(run: Run) -> None:
    """DCBX: where the ends disagree about a priority, defense discards all of it and nothing else, until they agree.

    The switch has PFC on a priority and its hosts have not; no end is willing. Without defense the frames pass, and
    are lost in congestion, for the hosts do not pause. With defense the switch discards every one of them as it comes
    in, and counts it; another priority, bridge PDUs and LLDP pass. Then an administrator gives a host PFC while it is
    sending, and takes it away again. All of it in the draft's format and in the published one.
    """
    for version in DcbxVersion:
        for defense in (False, True):
            _disagree(run, version, defense)


def _disagree(run: Run, version: DcbxVersion, defense: bool) -> None:
    case = f"{version}, {'defense' if defense else 'no defense'}"
    # What has no priority of its own has the disputed one, so that bridge PDUs and LLDP are of it.
    priorities = PriorityMap(Trust.DSCP, DISPUTED)
    without = DcbxSettings(version, pfc=PfcAdmin(0))
    with_pfc = DcbxSettings(version, pfc=PfcAdmin(mask([DISPUTED])))
    defending = DcbxSettings(version, pfc=PfcAdmin(mask([DISPUTED]), defense=defense))

    class Incast(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            switch = Port(priorities=priorities, dcbx=defending)
            for name in ("h1", "h2"):
                own = Port(priorities=priorities, dcbx=without)
                self.addLink(self.addHost(name, port=own), "s1", settings2=switch)
            own = Port(priorities=priorities, dcbx=with_pfc)
            self.addLink(self.addHost("r", port=own), "s1", cable=Cable(LINE // 2), settings2=switch)

    topo = Incast(scale=1, rate=LINE, total=CELLS)
    with network(topo) as net, RawPort(net["h1"], "h1-eth0") as wire:
        fabric = net.fabric
        wait_for("the mismatch is known", lambda: feature(fabric, "s1-eth1", "pfc")["remote"] == [])
        wait_for("the receiver is known", lambda: feature(fabric, "s1-eth3", "pfc")["remote"] == [DISPUTED])
        time.sleep(4)  # until the first frames of LLDP are over

        # A mismatch that stays.
        flows = [Flow(name, "r", DISPUTED, count=FRAMES) for name in ("h1", "h2")]
        slow = Flow("h1", "r", OTHER, rate=SLOW, count=20)
        running = net.run(*flows, slow, settle=Duration("2s"))
        disputed, other = running.reports[:2], running.reports[2]
        kept_out = [fabric.sent(port).defended_frames for port in ("s1-eth1", "s1-eth2")]
        only = [FRAMES * defense * (priority == DISPUTED) for priority in range(8)]
        run.claim(f"{case}: discarded as they came in, by priority", [list(some) for some in kept_out],
                  equals=[only, only])  # fmt: skip
        counted = [dcbx_state(fabric, port)["discarded"] for port in ("s1-eth1", "s1-eth2")]
        run.claim(f"{case}: and so shown", counted, equals=[FRAMES * defense] * 2)
        received = sum(report.received for report in disputed)
        run.claim(f"{case}: lost in congestion", fabric.dropped(),
                  equals=0 if defense else 2 * FRAMES - received)  # fmt: skip
        if defense:
            run.claim(f"{case}: arrived", received, equals=0)
        else:
            # Three of four do not fit, but for what the buffer holds.
            run.claim(f"{case}: lost", 2 * FRAMES - received, at_least=2 * FRAMES * 3 // 4 - CELLS // 8)
        run.claim(f"{case}: of the other priority lost", other.lost, equals=0)

        told = feature(fabric, "h1-eth0", "pfc")["remote_defended"]
        in_words = [DISPUTED] * defense if version is DcbxVersion.DRAFT else None  # the published format has no DefOn
        run.claim(f"{case}: defended priorities as the host received them", [told], equals=[in_words])

        # Frames that concern bridges.
        before = sum(fabric.sent("s1-eth1").defended_frames)
        seen = _seen(net["r"], "r-eth0", lambda: wire.send_all(_special_frames(fabric)))
        run.claim(f"{case}: bridge PDU passes", seen.count(b"bridge PDU"), equals=1)
        run.claim(
            f"{case}: another frame without a priority passes", seen.count(b"experiment"), equals=int(not defense)
        )
        found = sum(fabric.sent("s1-eth1").defended_frames) - before
        run.claim(f"{case}: of these discarded", found, equals=int(defense))
        neighbours = [one["mac"] for one in dcbx_state(fabric, "s1-eth1")["neighbours"]]
        run.claim(f"{case}: LLDP neighbours", neighbours, equals=[str(fabric.port("h1-eth0").mac)])

        # An administrator ends the mismatch, and brings it back.
        before = sum(fabric.sent("s1-eth1").defended_frames)
        flow = Flow("h1", "r", DISPUTED, rate=SLOW, duration=Duration("1500ms"))
        with Flows([flow], settle=Duration("1s")) as running:
            time.sleep(0.5)
            configure_dcbx(fabric, "h1-eth0", with_pfc)
            wait_for("they agree", lambda: feature(fabric, "s1-eth1", "pfc")["remote"] == [DISPUTED])
            at_peace = sum(fabric.sent("s1-eth1").defended_frames) - before
            time.sleep(0.5)
            still = sum(fabric.sent("s1-eth1").defended_frames) - before
            configure_dcbx(fabric, "h1-eth0", without)
            running.wait()
        (report,) = running.reports
        found = sum(fabric.sent("s1-eth1").defended_frames) - before
        run.figure(f"{case}: slow flow, frames sent, discarded", [report.sent, found])
        run.claim(f"{case}: discarded while they agree", still - at_peace, equals=0)
        run.claim(f"{case}: lost and not discarded", report.lost - found, equals=0)
        for what, some in (("before", at_peace), ("after", found - still)):
            bounds = {"at_least": 10} if defense else {"equals": 0}
            run.claim(f"{case}: discarded {what} they agree", some, **bounds)


def _special_frames(fabric: Fabric) -> list[bytes]:
    """Return two frames of h1, one of the bridge protocols and one for the receiver; neither has a priority."""
    own = fabric.port("h1-eth0").mac.octets
    bridge_pdu = bytes.fromhex("0180c2000000") + own + len(_BRIDGE_PDU).to_bytes(2, "big") + _BRIDGE_PDU
    experiment = fabric.port("r-eth0").mac.octets + own + b"\x88\xb5" + _EXPERIMENT
    return [bridge_pdu.ljust(60, b"\0"), experiment.ljust(60, b"\0")]


_BRIDGE_PDU = b"\x42\x42\x03bridge PDU"
_EXPERIMENT = b"experiment"


def _seen(node: Any, interface: str, send: Callable[[], Any]) -> list[bytes]:
    """Return the special frames that come in by an interface when they are sent."""
    with kernel.in_network_of(node.pid):
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    with tap:
        tap.bind((interface, _ETH_P_ALL))
        tap.setblocking(False)
        send()
        time.sleep(0.1)
        seen: list[bytes] = []
        while True:
            try:
                frame = tap.recv(2048)
            except BlockingIOError:
                return seen
            seen += [text for text in (b"bridge PDU", b"experiment") if text in frame]
