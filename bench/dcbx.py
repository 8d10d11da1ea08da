"""The cost of DCBX: LLDPDUs read in a second, and an agent of 100 ports that has nothing to do.

    python bench/dcbx.py [--fuzz N] [--lab]

CPU time of this process, so that a busy machine disturbs little. `--fuzz` also throws N damaged frames at the parser.
`--lab` also runs a real agent on as many real interfaces in the lab, where a core does one instruction a nanosecond.
"""

from __future__ import annotations

import argparse
import heapq
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from testbed import lab
from testbed.experiment import definition
from testbed.frames import Mac, lldp
from testbed.frames.dcbx.values import AppEntry, DcbxVersion, Ets, Selector
from testbed.frames.lldp_tlvs import Capabilities, ManagementAddress, Text, TextKind
from testbed.lab.engines import table
from testbed.lab.results.result import Status, expectation
from testbed.subjects.dcbx import tlvs as dcbx
from testbed.subjects.dcbx.port import DcbxPort
from testbed.subjects.dcbx.settings import ApplicationAdmin, CnAdmin, DcbxSettings, EtsAdmin, PfcAdmin, PortIdentity
from tests.fuzz_lldp import Mutator, load_corpus, run

PORTS = 100
IDLE_SECONDS = 3600


def settings(version: DcbxVersion, willing: bool) -> DcbxSettings:
    """Return settings with every feature, as on a port of a real switch."""
    is_draft = version is DcbxVersion.DRAFT
    table = Ets((0, 0, 0, 1, 1, 0, 0, 2), (70, 30, 0, 0, 0, 0, 0, 0), None if is_draft else (2, 2, 0, 0, 0, 0, 0, 0))
    entries = (
        AppEntry(3, Selector.ETHERTYPE, 0x8906),
        AppEntry(4, Selector.TCP, 3260),
        AppEntry(5, Selector.UDP, 4791),
    )
    return DcbxSettings(
        version, None, 8, EtsAdmin(table, willing), PfcAdmin(0x18, willing), ApplicationAdmin(entries), CnAdmin(0x20)
    )


def port(number: int, version: DcbxVersion, willing: bool) -> DcbxPort:
    mac = Mac(bytes([2, 0, 0, 0]) + number.to_bytes(2, "big"))
    tlvs = (
        Text(TextKind.PORT_DESCRIPTION, b"to the next switch"),
        Text(TextKind.SYSTEM_NAME, b"s1"),
        Text(TextKind.SYSTEM_DESCRIPTION, b"Xoff on Debian"),
        Capabilities(4, 4),
        ManagementAddress.ip("192.0.2.1", number),
        ManagementAddress.ip("2001:db8::1", number),
    )
    identity = PortIdentity(mac, lldp.ChassisId.of_mac(mac), lldp.PortId.interface(f"s1-eth{number}"), tlvs)
    return DcbxPort(identity, settings(version, willing))


def frames(version: DcbxVersion) -> list[bytes]:
    """Return a frame from each of many ports: LLDP's own TLVs and all of DCBX's."""
    made = []
    for number in range(500):
        one = port(number, version, willing=number % 2 == 0)
        one.start(0)
        made += one.take_frames()
    return made


def rate(read: Callable[[bytes], object], given: list[bytes]) -> float:
    """Return the best of several rounds, in frames per second of CPU."""
    best = 0.0
    for _ in range(7):
        begin = time.process_time()
        for frame in given:
            read(frame)
        best = max(best, len(given) / (time.process_time() - begin))
    return best


def read_all(version: DcbxVersion) -> Callable[[bytes], object]:
    return lambda frame: dcbx.read(version, lldp.parse(frame).pdu.tlvs)


def read_if_sound(frame: bytes) -> None:
    try:
        found = lldp.parse(frame)
    except lldp.LldpError:
        return
    dcbx.read(DcbxVersion.PUBLISHED, found.pdu.tlvs)


def idle_share() -> float:
    """Return the percent of a core for PORTS ports and their peers' frames, after the start, at scale 1."""
    pairs = [
        (port(2 * n, DcbxVersion.PUBLISHED, False), port(2 * n + 1, DcbxVersion.PUBLISHED, True)) for n in range(PORTS)
    ]
    ports = [one for pair in pairs for one in pair]
    peers = [one for pair in pairs for one in reversed(pair)]
    second = 10**9

    def pass_on(number: int, now: int) -> None:
        for frame in ports[number].take_frames():
            peers[number].receive(frame, now)
        ports[number].take_events()

    def until(now: int, end: int) -> None:
        queue = [(one.deadline_ns or end, number) for number, one in enumerate(ports)]
        heapq.heapify(queue)
        while queue[0][0] < end:
            now, number = heapq.heappop(queue)
            if (ports[number].deadline_ns or end) <= now:
                ports[number].expire(now)
                pass_on(number, now)
            heapq.heappush(queue, (max(ports[number].deadline_ns or end, now + 1), number))

    for number, one in enumerate(ports):
        one.start(0)
        pass_on(number, 0)
    for number in range(len(ports)):
        pass_on(number, 0)
    until(0, 60 * second)
    begin = time.process_time()
    until(60 * second, (60 + IDLE_SECONDS) * second)
    return 100 * (time.process_time() - begin) / IDLE_SECONDS / 2  # two ends were simulated


def in_the_lab() -> list[tuple[str, str, str, bool | None]]:
    """Run a process with PORTS sockets, which is idle, after it was not."""
    ready = table.prepare("vm", print)
    job = definition.load_file(Path(__file__).parent / "jobs" / "dcbx.py", "many_ports")
    with tempfile.TemporaryDirectory() as folder:
        result = lab.run(job, parameters={"ports": PORTS}, on=ready, out=Path(folder))
    if result.status is not Status.OK:
        raise SystemExit(f"many_ports: {result.reason}")
    rows: list[tuple[str, str, str, bool | None]] = [
        (f"lab: {claim.name}", f"{claim.measured:.3g}", expectation(claim), claim.passed) for claim in result.claims
    ]
    return rows + [(f"lab: {figure.name}", f"{figure.value:.3g} {figure.unit}", "", None) for figure in result.figures]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what DCBX costs.")
    parser.add_argument("--fuzz", type=int, default=0, metavar="N", help="damaged frames to throw at the parser")
    parser.add_argument("--lab", action="store_true", help="also a real agent, in the lab")
    options = parser.parse_args()
    rows: list[tuple[str, str, str, bool | None]] = []

    def at_least(name: str, value: float, least: float) -> None:
        rows.append((name, f"{value:,.0f} /s", f"at least {least:,.0f} /s", value >= least))

    for version in DcbxVersion:
        at_least(f"LLDPDUs with all of DCBX, {version}", rate(read_all(version), frames(version)), 20_000)
    at_least("the same, without looking into DCBX", rate(lldp.parse, frames(DcbxVersion.PUBLISHED)), 20_000)
    mutator = Mutator(load_corpus(), seed=3)
    at_least(
        "damaged frames, as fuzzing makes them", rate(read_if_sound, [mutator.frame() for _ in range(5000)]), 20_000
    )
    share = idle_share()
    rows.append((f"an idle agent of {PORTS} ports", f"{share:.3f} %", "under 5 % of a core", share < 5))
    if options.fuzz:
        begin = time.process_time()
        run(options.fuzz, seed=1)
        took = time.process_time() - begin
        rows.append((f"{options.fuzz:,} damaged frames, parser and two ports", f"{took:.0f} s", "no exception", True))

    if options.lab:
        rows += in_the_lab()

    width = max(len(name) for name, *_ in rows)
    for name, value, wanted, ok in rows:
        mark = {None: " ", True: "✓", False: "✗"}[ok]
        print(f"{mark} {name:<{width}}  {value:>12}  {wanted}")
    return 0 if all(ok is not False for *_, ok in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
