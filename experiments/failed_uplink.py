"""A leaf loses one of four uplinks: which flows move, and what is lost until they do."""

import struct

from testbed.switch.ways.frame import fields_of
from testbed.switch.ways.model import Fields, Group
from xoff import Duration, Flow, LeafSpine, Network, Rate, RawPort, Run, Size, Ways, experiment, flowing, network

SPINES, HOSTS = 4, 8
LOST = 1
"""The place of the uplink that is lost."""
SEED = 20
PROBES = 64
GONE_AFTER = Duration("50us")
FRAME = Size("226B")
INTERVAL = Duration("2us")
"""The time between two frames of a flow."""
FIRST_PORT = 50_000
UDP_PORT = 20_000
"""Flow n of those that run together goes to this port and n."""


@experiment(timeout="120s", free_cpu=True)
def failed_uplink(run: Run) -> None:
    """A leaf spreads flows over four uplinks, and the second loses its light.

    Of 64 flows, each looked at before and after, hashing over the ways that are left moves three in four: all whose
    hash modulo 4 and modulo 3 name different uplinks. A resilient table moves those of the lost uplink and nobody else.
    The numbers are exactly those of the reference in Python, and all flows go back when the uplink is there again.
    Flows that send all the time lose frames for `gone_after`, 50 us, if they had the lost uplink, and otherwise none.
    Control case: a leaf that takes longer than the run to notice it loses them to the end.
    """
    moved = {}
    for case, by in (("hash", "hash"), ("resilient", "resilient"), ("not noticed", "hash")):
        ways = Ways(by, seed=SEED, gone_after="1s" if case == "not noticed" else GONE_AFTER)
        with network(LeafSpine(2, SPINES, HOSTS, delay="1us", ways=ways), case=case) as net:
            if case != "not noticed":
                moved[case] = _moved(run, net, case, ways)
            lost, on_it = _lost(net, ways)
        run.claim(f"{case}: flows that lost frames", [bool(frames) for frames in lost], equals=on_it)
        outage = INTERVAL * max(lost)
        run.figure(f"{case}: time until the last flow has moved", outage)
        if case == "not noticed":
            run.claim(f"{case}: nobody moves", outage, at_least=GONE_AFTER * 4)
        else:
            most = GONE_AFTER + INTERVAL * 2
            run.claim(f"{case}: moved after", outage, at_least=GONE_AFTER - INTERVAL, at_most=most)
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


def _lost(net: Network, ways: Ways) -> tuple[list[int], list[bool]]:
    """Pull the uplink while flows send, and return what each of them lost, and whether it had the uplink."""
    rate = Rate.from_bps((FRAME + Size("24B")).bytes * 8 * 10**9 // INTERVAL.ns)
    numbers = range(1, HOSTS + 1)
    flows = [
        Flow(f"h{one}", f"h{one + HOSTS}", duration="600us", frame=FRAME, rate=rate, source_port=FIRST_PORT)
        for one in numbers
    ]
    with flowing(*flows) as running:
        net.sleep("300us")
        net.fabric.cabling.pull(net.ways("leaf1")[LOST].port)
        running.wait()
    group = Group(ways, SEED, [1] * SPINES, 1, 1)
    packets = [
        Fields(net[f"h{one}"].IP(), net[f"h{one + HOSTS}"].IP(), 17, FIRST_PORT, UDP_PORT + place)
        for place, one in enumerate(numbers)
    ]
    return [report.lost for report in running.reports], [group.choose(one.words()) == LOST for one in packets]
