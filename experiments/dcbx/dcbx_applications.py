"""Application priority: a willing host's port applies the table of its switch."""

import socket
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from experiments.dcbx._dcbx import oper, wait_for
from testbed.linux.process import kernel
from xoff import (
    AppEntry,
    ApplicationAdmin,
    AppSelector,
    DcbxSettings,
    DcbxVersion,
    Flow,
    LosslessTopo,
    Network,
    PfcAdmin,
    Port,
    PriorityMap,
    Rate,
    RawPort,
    Run,
    configure_dcbx,
    experiment,
    network,
)

_ETH_P_ALL, _SO_RCVBUFFORCE = 3, 33
_SOL_PACKET, _PACKET_AUXDATA = 263, 8
_PORT = 20_000  # of the first flow
_TYPE = 0x88B5  # for experiments
_DSCP = 10
SLOW = Rate("500kb/s")
FRAMES = 40
BEFORE, WANTED = 0, 5
"""The priority that the frames have by themselves, and by the table."""

# What the entry is about, and how a port carries a priority on the wire.
CASES = {
    "UDP port, in the DSCP": (AppEntry(WANTED, AppSelector.UDP, _PORT), "dscp"),
    "UDP port, in the tag": (AppEntry(WANTED, AppSelector.UDP, _PORT), "dot1p"),
    "UDP or TCP port": (AppEntry(WANTED, AppSelector.ANY_PORT, _PORT), "dscp"),
    "DSCP": (AppEntry(WANTED, AppSelector.DSCP, _DSCP), "dscp"),
    "EtherType": (AppEntry(WANTED, AppSelector.ETHERTYPE, _TYPE), "dot1p"),
}


@experiment(timeout="200s")
def dcbx_applications(run: Run) -> None:
    """DCBX: an application entry of the switch moves a protocol to its priority at willing hosts, and nowhere else.

    For UDP ports, a DSCP and an EtherType, in both formats as far as they have them: frames are counted by the queue
    that the host puts them into, and by the priority that they have on the wire. The entry comes while the host is
    running, and is taken away again: they move, and move back. The control case is a host that is not willing, beside
    it on the same switch: its frames stay where they were.
    """
    for version in DcbxVersion:
        for trust in ("dscp", "dot1p"):
            entries = {
                name: entry
                for name, (entry, own) in CASES.items()
                if own == trust and not (entry.selector is AppSelector.DSCP and version is DcbxVersion.DRAFT)
            }
            _move(run, version, trust, entries)


def _move(run: Run, version: DcbxVersion, trust: str, entries: dict[str, AppEntry]) -> None:
    plain = Port(priorities=PriorityMap(trust)).without_pfc()
    nothing = DcbxSettings(version, pfc=PfcAdmin(0), applications=ApplicationAdmin())
    hosts = {name: replace(nothing, applications=ApplicationAdmin(willing=name == "willing"))
             for name in ("willing", "not willing")}  # fmt: skip

    class Two(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            for number, settings in enumerate(hosts.values(), 1):
                own, other = replace(plain, dcbx=settings), replace(plain, dcbx=nothing)
                self.addLink(self.addHost(f"h{number}", port=own), "s1", settings2=other)
            self.addLink(self.addHost("r"), "s1")

    with network(Two(scale=1, rate="10Mb/s", port=plain)) as net:
        fabric = net.fabric
        time.sleep(4)  # until the first frames of LLDP are over
        taps = {name: Tap(net, f"s1-eth{number}") for number, name in enumerate(hosts, 1)}
        for name, entry in entries.items():
            case = f"{version}, {name}"
            for when, table, wanted in (
                ("before", (), BEFORE),
                ("with the entry", (entry,), WANTED),
                ("without it again", (), BEFORE),
            ):
                told = replace(nothing, applications=ApplicationAdmin(table))
                for number in (1, 2):
                    configure_dcbx(fabric, f"s1-eth{number}", told)
                plain_table = [{"priority": one.priority, "selector": one.selector.value, "protocol": one.protocol}
                               for one in table]  # fmt: skip
                wait_for(case, lambda: oper(fabric, "h1-eth0", "applications") == plain_table)  # noqa: B023
                time.sleep(0.05)
                with run.measuring():
                    found = _send(net, entry, taps)
                for host, (queues, priorities) in found.items():
                    here = wanted if host == "willing" else BEFORE
                    if entry.selector is AppSelector.DSCP and here == BEFORE:
                        here = _DSCP // 8
                    label = f"{case}, {when}, host {host}"
                    run.claim(f"{label}: frames by queue", queues, equals={here: FRAMES})
                    run.claim(f"{label}: frames by priority on the wire", priorities, equals={here: FRAMES})
        for tap in taps.values():
            tap.close()


def _send(net: Network, entry: AppEntry, taps: dict[str, "Tap"]) -> dict[str, tuple[dict[int, int], dict[int, int]]]:
    """Have both hosts send frames that the entry is about; count them by host, queue and priority."""
    fabric = net.fabric
    ports = {name: f"h{number}-eth0" for number, name in enumerate(taps, 1)}
    before = {name: fabric.sent(port).sent_frames for name, port in ports.items()}
    for tap in taps.values():
        tap.priorities()
    if entry.selector is AppSelector.ETHERTYPE:
        time.sleep(0.2)
        for port in ports.values():
            state = fabric.port(port)
            with RawPort(state.node, port) as wire:
                head = fabric.port("r-eth0").mac.octets + state.mac.octets + _TYPE.to_bytes(2, "big")
                wire.repeat(head.ljust(100, b"\0"), 2_000_000, FRAMES)
    else:
        # The destination's port is that of the flow's number: one after the other, both are the first.
        dscp = _DSCP if entry.selector is AppSelector.DSCP else -1
        for name in ("h1", "h2"):
            flow = Flow(name, "r", BEFORE, rate=SLOW, count=FRAMES, dscp=dscp)
            net.run(flow)
    time.sleep(0.1)
    found = {}
    for name, port in ports.items():
        after = fabric.sent(port).sent_frames
        queues = {
            queue: after[queue] - before[name][queue] for queue in range(8) if after[queue] != before[name][queue]
        }
        found[name] = queues, taps[name].priorities()
    return found


class Tap:
    """The frames that come in by a port of the switch, as they were on the wire."""

    def __init__(self, net: Network, port: str) -> None:
        self._source = net.fabric.far_end(net.fabric.port(port)).mac.octets
        with kernel.in_network_of(net["s1"].pid):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        self._socket.bind((port, _ETH_P_ALL))
        self._socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 8 << 20)
        self._socket.setblocking(False)

    def priorities(self) -> dict[int, int]:
        """Count data frames since the last call, by the priority that they carry: in a tag, else in the DSCP."""
        return dict(sorted(Counter(self._each()).items()))

    def _each(self) -> Iterator[int]:
        while True:
            try:
                frame, messages, _, _ = self._socket.recvmsg(128, 128)
            except BlockingIOError:
                return
            if frame[6:12] != self._source or frame[:3] == _OF_THE_LINK:
                continue
            # The kernel removes a tag from a frame, and passes it as ancillary data.
            tags = [int.from_bytes(data[16:18], "little") for _, _, data in messages if data[0] & _TCI_VALID]
            if tags:
                yield tags[0] >> 13
            elif frame[12:14] == b"\x08\x00":
                yield frame[15] >> 5
            else:
                yield 0

    def close(self) -> None:
        self._socket.close()


_OF_THE_LINK = b"\x01\x80\xc2"
_TCI_VALID = 0x10
