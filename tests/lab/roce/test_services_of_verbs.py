"""Random messages of all services and operations between Soft-RoCE and the queue pairs that the lab's kernel serves."""

from __future__ import annotations

import json
import mmap
import random
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.frames import roce
from testbed.frames.roce import Opcode, Service
from testbed.lab import Run, experiment
from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.ports import address_of
from testbed.roce import in_kernel, rates
from testbed.roce.endpoint import FIRST_QP
from testbed.roce.memory import Content, content_block
from testbed.roce.nic import PLAIN, NicTiming
from testbed.roce.rates import Line
from testbed.roce.source_port import from_both
from testbed.roce.work import Operation
from testbed.units import NEVER, Rate, Scale

if TYPE_CHECKING:
    from tests.lab.conftest import Runner

LOSSLESS = 3
Q_KEY = 0x11
IMMEDIATE = 0x01234567
LONGEST = 20_000
"""The octets of a message at the most."""
OPERATIONS = (Operation.WRITE, Operation.SEND, Operation.READ, Operation.COMPARE_SWAP, Operation.FETCH_ADD)
SHARED = NicTiming(receives=3, receive_ns=400_000, shares_receives=True, receive_limit=2, rnr_code=1)
"""A NIC whose queue pairs have three receives in common."""
LINE = Line(Rate("100Mb/s"), Scale(1000))
Row = dict[str, Any]


class Far(LosslessTopo):
    """A host of programs with verbs, and one with Xoff's own RoCE."""

    def build(self) -> None:
        self.addSwitch("s1")
        self.addLink(self.addHost("verbs", rdma=True), "s1")
        self.addLink(self.addHost("own"), "s1", delay="20ns")


def any_row(dice: random.Random, service: Service, *, ours: bool, most: int) -> Row:
    """Return a row of messages that one end asks for."""
    operations = {Service.RC: OPERATIONS, Service.UC: OPERATIONS[:2], Service.UD: OPERATIONS[1:2]}[service]
    operation = dice.choice(operations)
    if operation.is_atomic:
        return _row(service, operation, ours=ours, message=8, many=dice.randrange(1, most))
    longest = {Service.RC: LONGEST, Service.UC: 6000, Service.UD: 1024}[service]
    message = dice.choice([16, 1000, 1024, longest, dice.randrange(16, longest)])
    many = dice.randrange(1, 1 + min(most, most * 1024 // message))
    takes = operation in (Operation.WRITE, Operation.SEND)
    return _row(
        service, operation, ours=ours, message=message, many=many, immediate=takes and dice.random() < 0.4,
        shared=operation is Operation.SEND and dice.random() < 0.5,
    )  # fmt: skip


def _row(service: Service, operation: Operation, *, immediate: bool = False, shared: bool = False, **more: Any) -> Row:
    return {"service": str(service), "operation": str(operation), "immediate": immediate, "shared": shared, **more}


def trouble(fabric: Any, interface: str, words: str) -> None:
    """Have the cable at an interface lose, double and reorder frames."""
    from testbed.linux.process import kernel

    command = f"tc qdisc replace dev {interface} root netem limit 10000 {words}"
    with kernel.in_network(fabric.cabling._namespace):
        subprocess.run(command.split(), check=True)


@experiment(debs=["perftest"], files=("jobs/verbs_peer.py", "jobs/verbs_services.py"), timeout="120s")
def random_services(run: Run, ip_version: int = 4, number: int = 1, most: int = 60, words: str = "") -> None:
    """Rows of messages of random services, operations and lengths, which both ends ask for at the same time."""
    from testbed.linux import roce_device
    from testbed.linux.flow_device import NOWHERE
    from testbed.linux.process import kernel
    from testbed.net.build.network import network
    from testbed.net.shell.wire import Tap
    from testbed.net.traffic.roce_connections import open_listener

    dice, rows = random.Random(number), 18
    services = [Service.RC, Service.UC, Service.UD]
    plan = [any_row(dice, services[at // 2 % 3], ours=not at % 2, most=most) for at in range(rows)]
    psn, far_psn = 0xFFFFF0, 5
    Path("content").write_bytes(Content(0).read(0, most * 1024 + LONGEST))
    c = roce_device.C
    rate = roce_device.rate(*(rates.control("fixed", LINE).in_kernel() or (0, {})))
    kinds = [OPERATIONS.index(Operation(row["operation"])) for row in plan]
    codes = (
        roce_device.WRITE, roce_device.SEND, roce_device.READ, roce_device.COMPARE_SWAP, roce_device.FETCH_ADD,
    )  # fmt: skip
    with network(Far(rate="100Gb/s", ipv6=True), run) as net, run.measuring():
        verbs, own = net["verbs"], net["own"]
        if words:
            for interface in ("own-eth0~", "s1-eth2~"):
                trouble(net.fabric, interface, words)
        far_address, address = (address_of(node, ip_version) or "" for node in (verbs, own))
        told = {
            "far": FIRST_QP, "psn": psn, "far_psn": far_psn, "address": address, "traffic_class": LOSSLESS << 5,
            "far_key": roce_device.FIRST_KEY, "q_key": Q_KEY, "rows": plan, "shared": 8,
        }  # fmt: skip
        Path("told").write_text(json.dumps(told))
        program = Path(__file__).with_name("jobs") / "verbs_services.py"
        peer = verbs.popen(["python3", program, "told"], stdin=subprocess.PIPE, stderr=None, text=True)
        its = json.loads(peer.stdout.readline())
        with Tap(own, "own-eth0") as tap, Tap(own, "own-eth0", outgoing=True) as sent:
            with kernel.in_network_of(own.pid):
                listener = open_listener(is_ipv6=ip_version == 6)
                settings = c.xr_settings(
                    mtu=1024, ack_every=16, window=4096, retries=200, retransmit_ns=100_000_000, cnp_ns=50_000_000
                )
                device = roce_device.RoceDevice(
                    listener, rows, settings, content_block(), mmap.mmap(-1, mmap.PAGESIZE), first=FIRST_QP,
                    is_per_priority=False, moderation=0,
                )  # fmt: skip
                for place, (row, far_number, far_key) in enumerate(zip(plan, its["numbers"], its["keys"], strict=True)):
                    kind, service = codes[kinds[place]], Service(row["service"])
                    gives = (kind == roce_device.READ) is not row["ours"]
                    role = roce_device.IS_SOURCE if gives else roce_device.IS_TARGET
                    nic = SHARED if row["shared"] and not row["ours"] else PLAIN
                    device.add(c.xr_add(
                        number=FIRST_QP + place, far_number=far_number, first=far_psn, far_first=psn,
                        **roce_device.ends(address, far_address), flow_label=0x12345, port=0xC100 + place,
                        far_port=far_port(service, far_number, FIRST_QP + place), priority=LOSSLESS,
                        ds_field=LOSSLESS << 5, cnp_priority=6, cnp_ds_field=0xC0, buffer=32_000,
                        roles=role | roce_device.IS_ASKER * row["ours"], region=place, operation=kind,
                        far_key=far_key, message=row["message"], left=row["message"] * row["many"], messages=NEVER,
                        immediate=IMMEDIATE, has_immediate=row["immediate"], begin_ns=time.monotonic_ns(),
                        end_ns=NEVER, line_bps=LINE.rate.bps, nic=c.xr_nic(**nic.numbers()), rate=rate,
                        service=list(Service).index(service), q_key=Q_KEY, sent_at=NOWHERE, received_at=NOWHERE,
                    ))  # fmt: skip
            print(file=peer.stdin, flush=True)  # it has its numbers taken, and posts
            ours = [FIRST_QP + place for place, row in enumerate(plan) if row["ours"]]
            device.look()
            while not all(device.has_ended(one) for one in ours):
                time.sleep(0.002)
                device.look()
            time.sleep(0.02)
            print(file=peer.stdin, flush=True)
            said = json.loads(peer.stdout.readline())
            reports = [device.report(FIRST_QP + place) for place in range(rows)]
            opcodes = [Counter(frame[62 if ip_version == 6 else 42] for frame in frames if is_roce(frame, ip_version))
                       for frames in (sent.frames(), tap.frames())]  # fmt: skip
        peer.communicate()
        device.close()
        listener.close()
    failures = [in_kernel.failure(one.failure) for one in reports if one.failure[0]]
    run.claim("failures", failures, equals=[])
    wrong = [
        f"row {place}, {row}: {text}"
        for place, (row, far, report) in enumerate(zip(plan, said, reports, strict=True))
        if (text := wrong_of(row, far, report, may_lose=bool(words)))
    ]
    run.claim("rows that did not come as they were sent", wrong, equals=[])
    packets = sum(one.counters.sent_packets + one.counters.received_packets for one in reports)
    run.figure("packets of data", packets)
    run.figure("messages that came over UC and UD", sum(
        len(far["came"]) if row["ours"] else report.counters.messages
        for row, far, report in zip(plan, said, reports, strict=True) if row["service"] != "RC"
    ))  # fmt: skip
    for name in ("rnr_naks", "no_receive", "limit_events", "retransmitted", "incomplete", "duplicates"):
        run.figure(name, sum(getattr(one.counters, name) for one in reports))
    for way, of in zip(("sent", "got"), opcodes, strict=True):
        run.figure(f"opcodes {way}", {Opcode(one).name: count for one, count in sorted(of.items())})
        unreliable = sum(count for one, count in of.items() if one in roce.DATAGRAMS or 0x20 <= one < 0x40)
        run.claim(f"packets {way} of UC and UD", unreliable, at_least=1)


def is_roce(frame: bytes, ip_version: int) -> bool:
    if ip_version == 6:
        return frame[12:14] == b"\x86\xdd" and frame[20] == 17 and frame[56:58] == b"\x12\xb7"
    return frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[36:38] == b"\x12\xb7"


def far_port(service: Service, far_number: int, number: int) -> int:
    """Return the UDP port of a queue pair of Soft-RoCE: of datagrams a hash of its number, else of both numbers."""
    if service is Service.UD:
        return 0xC000 + (far_number * 0x61C88647 & 0xFFFFFFFF) // (1 << 18)
    return from_both(far_number, number)


def wrong_of(row: Row, far: dict[str, Any], report: Any, *, may_lose: bool) -> str:
    """Return what is wrong with a row, or nothing."""
    many, octets = row["many"], row["message"] * row["many"]
    is_reliable, operation = row["service"] == "RC", row["operation"]
    if operation in (Operation.FETCH_ADD, Operation.COMPARE_SWAP):
        counted = far["memory"][:16] if row["ours"] else report.is_as_expected and report.octets == 8 * many
        originals = "" if row["ours"] else far["memory"]
        expected = many.to_bytes(8, "little").hex() if row["ours"] else True
        right = counted == expected and (row["ours"] or originals == b"".join(
            one.to_bytes(8, "little") for one in range(many)).hex())  # fmt: skip
        return "" if right else f"counted {counted}, {originals[:64]}"
    if row["ours"] is (operation == Operation.READ):  # the kernel takes
        dropped = report.counters.no_receive * row["message"]
        right = report.is_as_expected and (
            (report.octets == octets) if is_reliable else may_lose or report.octets + dropped == octets
        )
        return "" if right else f"{report.octets} octets of {octets}, as sent: {report.is_as_expected}"
    if operation == Operation.SEND:
        came = far["came"]
        right = came == list(range(many)) if is_reliable or not may_lose else -1 not in came
        right = right and (not row["immediate"] or far["immediates"] == len(came))
        return "" if right or (row["shared"] and not is_reliable and -1 not in came) else f"came: {came}"
    right = far["whole"] == many if is_reliable or not may_lose else far["pieces"]
    return "" if right else f"{far['whole']} messages of {many} are whole, pieces are right: {far['pieces']}"


def test_messages_of_all_services_pass_between_soft_roce_and_the_kernel(run: Runner) -> None:
    for version in (4, 6):
        result = run(random_services, ip_version=version).check()
        assert result.figure("limit_events") > 0


def test_what_is_lost_doubled_or_late_is_lost_over_unreliable_services_alone(run: Runner) -> None:
    words = "delay 20us 20us 25% loss 1% duplicate 1% reorder 2%"
    run(random_services, number=7, words=words).check()


def test_a_million_packets_of_random_messages_pass_between_soft_roce_and_the_kernel(run: Runner) -> None:
    """Every second run has trouble on the way, and of each two one goes over IPv6."""
    packets, number = 0, 100
    while packets < 1_000_000:
        words = "delay 20us 20us 25% loss 0.2% duplicate 0.2% reorder 1%" if number % 2 else ""
        version = 4 + number // 2 % 2 * 2
        result = run(random_services, ip_version=version, number=number, most=1500, words=words).check()
        packets += int(result.figure("packets of data"))
        number += 1
        print(f"{packets} packets of data after {number - 100} runs")


MARKS = {"test_a_million_packets_of_random_messages_pass_between_soft_roce_and_the_kernel": [("long",)]}
