"""Bytes out are bytes in, through a path of several hops that is paused many times."""

import time
from typing import Annotated, Any

from xoff import (
    Between,
    Buffer,
    Chain,
    Duration,
    Flow,
    Flows,
    FrameCounts,
    PfcFrame,
    Port,
    RawPort,
    Run,
    Size,
    Static,
    experiment,
    network,
)

FRAME = Size("1514B")
PRIORITY = 3
SWITCHES = 4
PAUSE = Duration("60us")


@experiment(timeout="60s")
def conservation(
    run: Run, frames: Annotated[int, Between(200, 1000)] = 300, pauses: Annotated[int, Between(1, 12)] = 12
) -> None:
    """Bytes out are bytes in, along a row of four switches that is paused again and again.

    h1, h2 and h3 send to h4 more than the last cable can carry, and each pause of h4 travels back to all of them.
    Octets are counted by the senders, by the receiver, and by the kernel at every port: two counts of one thing are the
    same. The control case is the same without PFC: switches lose frames, and the counters show where.
    """
    case = "with PFC"
    found = _run(run, case, Port(), frames, pauses)
    sent = {f"h{number}": frames for number in range(1, SWITCHES)}
    passed = {f"s{number}": frames * min(number, SWITCHES - 1) for number in range(1, SWITCHES + 1)}
    run.claim(f"{case}: octets sent by each host", found["sent"], equals=_octets(sent))
    run.claim(f"{case}: octets received from each host", found["received"], equals=_octets(sent))
    run.claim(f"{case}: octets into each switch", found["into"], equals=_octets(passed))
    run.claim(f"{case}: octets out of each switch", found["out of"], equals=_octets(passed))
    run.claim(f"{case}: octets into the receiver's port", found["arrived"], equals=sum(_octets(sent).values()))
    run.claim(f"{case}: drops", found["dropped"], equals=dict.fromkeys(passed, 0))
    run.claim(f"{case}: pauses of the port that is paused least", min(found["pauses"].values()), at_least=pauses)

    case = "without PFC"
    found = _run(run, case, Port().without_pfc(), frames, pauses)
    lost = sum(found["sent"].values()) - sum(found["received"].values())
    missing = {switch: found["into"][switch] - found["out of"][switch] for switch in found["into"]}
    run.claim(f"{case}: octets lost between senders and receiver", lost, at_least=FRAME.bytes * frames // 2)
    run.claim(f"{case}: octets that did not leave the switches", sum(missing.values()), equals=lost)
    run.claim(f"{case}: octets that did not leave each switch", missing, equals=_octets(found["dropped"]))
    run.claim(f"{case}: pauses", sum(found["pauses"].values()), equals=0)


def _run(run: Run, case: str, port: Port, frames: int, pauses: int) -> dict[str, Any]:
    buffer = Buffer(total=2000, xoff=Static(80), xon_offset=16)
    topo = Chain(n=SWITCHES, port=port, buffer=buffer, length="200m")
    with network(topo) as net, RawPort(net[f"h{SWITCHES}"], f"h{SWITCHES}-eth0") as wire:
        *hosts, target = net.hosts
        traffic = FrameCounts(net, FRAME)
        flows = [Flow(host, target, PRIORITY, FRAME, count=frames) for host in hosts]
        mac = net.fabric.port(f"{target.name}-eth0").mac
        with Flows(flows) as running:
            begin_ns = time.monotonic_ns()
            for number in range(pauses):
                moment_ns = begin_ns + (2 * number + 1) * net.lab_ns(PAUSE)
                wire.send_at(PfcFrame.xoff(mac, [PRIORITY]).encode(), moment_ns)
                wire.send_at(PfcFrame.xon(mac, [PRIORITY]).encode(), moment_ns + net.lab_ns(PAUSE))
            running.wait()
        inwards, outwards = traffic.count()
        switches = [switch.name for switch in net.switches]
        groups = {
            switch: [net.fabric.group(name, PRIORITY) for name in inwards if name.startswith(f"{switch}-")]
            for switch in switches
        }
        on_the_way = [f"{host.name}-eth0" for host in hosts]
        on_the_way += [net.port(f"s{n}", f"s{n + 1}") for n in range(1, SWITCHES)]
        paused = {name: net.fabric.pfc(name, PRIORITY)["xoff_received"] for name in on_the_way}
    run.figure(f"{case}: pauses of each port on the way", paused)
    of_hosts = {host.name: report for host, report in zip(hosts, running.reports, strict=True)}
    return {
        "sent": _octets({name: report.sent for name, report in of_hosts.items()}),
        "received": _octets({name: report.received for name, report in of_hosts.items()}),
        "into": _octets({switch: _sum(inwards, switch) for switch in switches}),
        "out of": _octets({switch: _sum(outwards, switch) for switch in switches}),
        "arrived": inwards[f"{target.name}-eth0"] * FRAME.bytes,
        "dropped": {switch: sum(sum(group.dropped_frames) for group in groups[switch]) for switch in switches},
        "pauses": paused,
    }


def _sum(frames: dict[str, int], switch: str) -> int:
    return sum(many for port, many in frames.items() if port.startswith(f"{switch}-"))


def _octets(frames: dict[str, int]) -> dict[str, int]:
    return {name: many * FRAME.bytes for name, many in frames.items()}
