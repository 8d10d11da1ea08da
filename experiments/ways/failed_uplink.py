"""A leaf loses one of four uplinks: which flows move, and what is lost until they do."""

import struct
import time
from contextlib import ExitStack

from testbed.switch.ways.frame import fields_of
from testbed.switch.ways.model import Fields, Group
from xoff import (
    Duration,
    Flow,
    LeafSpine,
    Network,
    Rate,
    RawPort,
    Run,
    Size,
    Tap,
    Ways,
    experiment,
    flowing,
    network,
)

SPINES, HOSTS = 4, 8
LOST = 1
"""The place of the uplink that is lost."""
SEED = 20
PROBES = 64
GONE_AFTER = Duration("50us")
FRAME = Size("226B")
INTERVAL = Duration("2us")
"""The time between two frames of a flow."""
ENDS = (("leaf1", False), ("leaf2", True))
"""The leaves of senders and of receivers, and whether frames leave their ports to hosts."""
FIRST_PORT = 50_000
UDP_PORT = 20_000
"""Flow n of those that run together goes to this port and n."""


@experiment(timeout="120s", free_cpu=True)
def failed_uplink(run: Run) -> None:
    """A leaf spreads flows over four uplinks, and the second loses its light.

    Of 64 flows, each looked at before and after, hashing over the ways that are left moves three in four: all whose
    hash modulo 4 and modulo 3 name different uplinks. A resilient table moves those of the lost uplink and nobody else.
    The numbers are exactly those of the reference in Python, and all flows go back when the uplink is there again.
    Flows that send all the time lose frames for `gone_after`, 50 us, if they had the lost uplink, and otherwise none:
    each goes another way with its first frame that comes to the leaf after that time.
    Control case: a leaf that takes longer than the run to notice it loses them to the end.
    """
    moved = {}
    for case, by in (("hash", "hash"), ("resilient", "resilient"), ("not noticed", "hash")):
        ways = Ways(by, seed=SEED, gone_after="1s" if case == "not noticed" else GONE_AFTER)
        with network(LeafSpine(2, SPINES, HOSTS, delay="1us", ways=ways), case=case) as net:
            if case != "not noticed":
                moved[case] = _moved(run, net, case, ways)
            lost, on_it, moments = _lost(net, ways)
        run.claim(f"{case}: flows that lost frames", [bool(frames) for frames in lost], equals=on_it)
        if case == "not noticed":
            run.claim(f"{case}: flows that moved", sum(moved is not None for moved, _ in moments), equals=0)
            run.claim(f"{case}: lost for", INTERVAL * max(lost), at_least=GONE_AFTER * 4)
        else:
            run.figure(f"{case}: time until the last flow has moved", max(found for found, _ in moments if found))
            run.claim(
                f"{case}: each has moved after", [found for found, _ in moments], equals=[due for _, due in moments]
            )
    run.claim("flows that a resilient table spares", moved["hash"] - moved["resilient"], at_least=PROBES // 4)


def _probe(net: Network, number: int) -> bytes:
    """Return a frame of UDP from h1 to the first host of the other leaf, from a port of its own."""
    source, target = net["h1"], net[f"h{HOSTS + 1}"]
    head = b"".join(bytes.fromhex(host.MAC().replace(":", "")) for host in (target, source))
    addresses = b"".join(bytes(map(int, host.IP().split("."))) for host in (source, target))
    packet = struct.pack("!BBHHHBBH", 0x45, 0, 46, 0, 0, 64, 17, 0) + addresses
    return head + b"\x08\x00" + packet + struct.pack("!HHHH", FIRST_PORT + number, UDP_PORT, 26, 0) + bytes(18)


def _ways_of_probes(net: Network, port: RawPort) -> list[int]:
    """Return the uplink that each of the probes takes."""
    found, before = [], [one.frames for one in net.ways("leaf1")]
    for number in range(PROBES):
        port.send(_probe(net, number))
        net.sleep("5us")
        after = [one.frames for one in net.ways("leaf1")]
        found.append(next(place for place in range(SPINES) if after[place] > before[place]))
        before = after
    return found


def _moved(run: Run, net: Network, case: str, ways: Ways) -> int:
    """Return how many probes take another uplink when one is lost."""
    group = Group(ways, SEED, [1] * SPINES, 1, 1)
    uplink = net.ways("leaf1")[LOST].port
    found, expected = [], []
    with RawPort(net["h1"], "h1-eth0", past_queues=True) as port:
        for is_there in (True, False, True):
            if is_there:
                net.fabric.cabling.plug(uplink)
            else:
                net.fabric.cabling.pull(uplink)
            net.sleep(GONE_AFTER * 4)
            group.set_there(LOST, is_there)
            found.append(_ways_of_probes(net, port))
            expected.append([group.choose(fields_of(_probe(net, number)).words()) for number in range(PROBES)])
    before, without, after = found
    moved = sum(one != other for one, other in zip(before, without, strict=True))
    by_reference = sum(one != other for one, other in zip(*expected[:2], strict=True))
    run.claim(f"{case}: flows that move, of {PROBES}", moved, equals=by_reference)
    run.claim(f"{case}: flows of the lost uplink", before.count(LOST), equals=expected[0].count(LOST))
    run.claim(f"{case}: each on the uplink of the reference", found == expected, equals=True)
    run.claim(f"{case}: back where they were", after == before, equals=True)
    return moved


def _lost(net: Network, ways: Ways) -> tuple[list[int], list[bool], list[tuple[Duration | None, Duration]]]:
    """Pull the uplink while flows send, and return what each of them lost, and whether it had the uplink.

    Return for those that had it, too, how long after that the leaf got the first frame that arrived, None if none did,
    and when it got the first one that was due to arrive.
    """
    rate = Rate.from_bps((FRAME + Size("24B")).bytes * 8 * 10**9 // INTERVAL.ns)
    numbers = range(1, HOSTS + 1)
    group = Group(ways, SEED, [1] * SPINES, 1, 1)
    packets = [
        Fields(net[f"h{one}"].IP(), net[f"h{one + HOSTS}"].IP(), 17, FIRST_PORT, UDP_PORT + place)
        for place, one in enumerate(numbers)
    ]
    on_it = [group.choose(one.words()) == LOST for one in packets]
    flows = [
        Flow(f"h{one}", f"h{one + HOSTS}", duration="600us", frame=FRAME, rate=rate, source_port=FIRST_PORT)
        for one in numbers
    ]
    with ExitStack() as stack:
        taps = [
            tuple(stack.enter_context(Tap(net[leaf], f"{leaf}-eth{one}", outgoing)) for leaf, outgoing in ENDS)
            for one, had_it in zip(numbers, on_it, strict=True)
            if had_it
        ]
        with flowing(*flows) as running:
            net.sleep("300us")
            pulled_lab_ns = time.monotonic_ns()
            net.fabric.cabling.pull(net.ways("leaf1")[LOST].port)
            running.wait()
        moments = []
        for tap, far_tap in taps:
            arrived = set(far_tap.frames())
            after = [(at - pulled_lab_ns, frame) for at, frame in tap.arrivals() if at > pulled_lab_ns]
            found = next((at for at, frame in after if frame in arrived), None)
            due = next(at for at, _ in after if at >= net.lab_ns(GONE_AFTER))
            moments.append((None if found is None else _time(net, found), _time(net, due)))
    return [report.lost for report in running.reports], on_it, moments


def _time(net: Network, lab_ns: int) -> Duration:
    return Duration.from_ns(lab_ns * 1000 // net.lab_ns("1us"))
