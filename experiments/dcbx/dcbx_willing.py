"""Ends that take over each other's PFC: combinations of willing ends, formats, tie-breaks and addresses."""

import itertools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.dcbx._dcbx import wait_for
from testbed.frames.dcbx.values import mask
from testbed.subjects.dcbx.settings import TieBreak
from xoff import (
    DcbxSettings,
    DcbxVersion,
    Duration,
    LosslessTopo,
    Mac,
    Network,
    PfcAdmin,
    PfcFrame,
    Port,
    RawPort,
    Run,
    experiment,
    network,
)

PRIORITY = 3
_BREATH = 0.002
_LOW, _HIGH = 0x02_00_00_00_00_00, 0x02_00_00_00_10_00

# Whose setting each end operates with in the end: (by a, by b).
ONE_IS_WILLING_OR_NONE = {
    (False, False): "ab",  # neither takes anything over: a mismatch stays one
    (True, False): "bb",
    (False, True): "aa",
}
BOTH_ARE_WILLING = {
    TieBreak.NONE: {"a": "ab", "b": "ab"},  # the draft: neither adopts anything from one that is not willing
    TieBreak.LOWER: {"a": "bb", "b": "aa"},  # by whose address is higher: the other one's setting
    TieBreak.HIGHER: {"a": "aa", "b": "bb"},
}


@dataclass(frozen=True)
class Case:
    """One link, between a port of the host a and one of b."""

    willing: tuple[bool, bool]
    version: DcbxVersion
    tie_break: TieBreak
    higher: str
    """The end whose port has the higher address."""
    has_pfc: str
    """The ends whose own setting has PFC on."""

    @property
    def operates(self) -> list[bool]:
        """True for each end that operates with PFC, by the tables."""
        table = BOTH_ARE_WILLING[self.tie_break][self.higher] if all(self.willing) else None
        return [whose == self.has_pfc for whose in table or ONE_IS_WILLING_OR_NONE[self.willing]]

    def settings(self, end: str) -> DcbxSettings:
        own = mask([PRIORITY]) if self.has_pfc == end else 0
        return DcbxSettings(self.version, self.tie_break, pfc=PfcAdmin(own, willing=self.willing["ab".index(end)]))

    def __str__(self) -> str:
        willing = {(True, True): "both", (True, False): "a", (False, True): "b", (False, False): "none"}[self.willing]
        return (
            f"{self.version}, tie-break {self.tie_break}, willing: {willing}, higher address: {self.higher}, "
            f"PFC: {self.has_pfc}"
        )


CASES = [
    Case((a, b), version, tie_break, higher, has_pfc)
    for a, b, version, tie_break, higher, has_pfc in itertools.product(
        (False, True), (False, True), DcbxVersion, TieBreak, ("a", "b"), ("a", "b")
    )
]


@experiment(timeout="120s")
def dcbx_willing(run: Run) -> None:
    """DCBX: two ends take over each other's PFC exactly by the draft's truth table and the tie-break.

    A link for each case, all side by side between the hosts a and b. What both ends operate with is that of the
    table; nothing is pending. Then each end receives XOFF, and sends a frame: those that operate with PFC hold it
    back, and the others, the control cases, send it.
    """
    with network(_links(), autoSetMacs=False) as net:
        fabric = net.fabric
        ports = {case: (f"a-eth{number}", f"b-eth{number}") for number, case in enumerate(CASES)}

        def features() -> dict[Case, list[dict[str, Any]]]:
            negotiated = fabric.snapshot("a")["dcbx"] | fabric.snapshot("b")["dcbx"]
            return {case: [negotiated[port]["features"]["pfc"] for port in ends] for case, ends in ports.items()}

        wait_for(
            "every port has received a frame of its peer",
            lambda: all(one["remote"] is not None for pair in features().values() for one in pair),
            20,
            0.5,
        )
        time.sleep(6)  # until the first frames of LLDP are over, on all links
        dcbx_log = fabric.lines()
        changed_ns = [line["t_ns"] for line in dcbx_log if line["what"] != "frame"]
        run.figure("all links settled after", Duration.from_ns(max(changed_ns) - min(changed_ns)))
        found = features()
        with run.measuring():
            waiting = _held_back(net, ports)
    for case in CASES:
        wanted = [[PRIORITY] * on for on in case.operates]
        run.claim(f"{case}: operates with", [one["oper"] for one in found[case]], equals=wanted)
        run.claim(f"{case}: pending", [one["pending"] for one in found[case]], equals=[False, False])
        run.claim(f"{case}: paused on the wire", waiting[case], equals=case.operates)
    agreed = sum(len(set(case.operates)) == 1 for case in CASES)
    run.figure("links that agree in the end, of all", [agreed, len(CASES)])


def _links() -> LosslessTopo:
    class Links(LosslessTopo):
        def build(self) -> None:
            self.addHost("a")
            self.addHost("b")
            for number, case in enumerate(CASES):
                addresses = [str(Mac((_base(case, end) + number).to_bytes(6, "big"))) for end in "ab"]
                own, other = (Port(dcbx=case.settings(end)) for end in "ab")
                self.addLink("a", "b", addr1=addresses[0], addr2=addresses[1], settings1=own, settings2=other)

    return Links(scale=1, rate="10Mb/s")


def _base(case: Case, end: str) -> int:
    return _HIGH if case.higher == end else _LOW


def _held_back(net: Network, ports: dict[Case, tuple[str, str]]) -> dict[Case, list[bool]]:
    """Return for each end if it holds a frame back when it receives XOFF, and if the frame comes when it may."""
    fabric = net.fabric
    for ends in ports.values():
        for port in ends:
            far = fabric.far_end(fabric.port(port))
            with RawPort(far.node, far.name, past_queues=True) as wire:
                wire.send(PfcFrame.xoff(far.mac, [PRIORITY]).encode())
            time.sleep(_BREATH)
    time.sleep(0.1)
    before = _received(net)
    for ends in ports.values():
        for port in ends:
            state = fabric.port(port)
            with RawPort(state.node, port) as wire:
                wire.set_priority(PRIORITY)
                far = fabric.far_end(state)
                wire.send(far.mac.octets + state.mac.octets + b"\x08\x00" + _PACKET)
            time.sleep(_BREATH)
    time.sleep(0.1)
    after = _received(net)
    far_of = {port: fabric.far_end(fabric.port(port)).name for ends in ports.values() for port in ends}
    return {case: [after[far_of[port]] == before[far_of[port]] for port in ends] for case, ends in ports.items()}


_PACKET = bytes([0x45, PRIORITY << 5, 0, 20, 0, 0, 0, 0, 64, 59, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]).ljust(46, b"\0")


def _received(net: Network) -> dict[str, int]:
    """Return the frames that came in by each port, as the kernel counts them."""
    found = {}
    for node in net.hosts:
        for line in Path(f"/proc/{node.pid}/net/dev").read_text().splitlines():
            name, _, numbers = line.partition(":")
            if name.strip().startswith(f"{node.name}-"):
                found[name.strip()] = int(numbers.split()[1])
    return found
