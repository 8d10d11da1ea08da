"""Another policy under load, drift and a cable that goes: the network follows, and lossless traffic is not lost."""

from typing import Any

from experiments.qos._qos import flow, policy, setup_of, shares
from testbed.linux.port_program import OWN_FRAMES
from testbed.subjects.qos.records import Found, PathRecordRequest
from xoff import Duration, Flows, Incast, LeafSpine, Network, Port, PortKey, Run, SubnetManager, experiment, network

LASTS = Duration("4500us")
SETTLES, COUNTED = Duration("700us"), Duration("500us")
"""The time until frames from before are gone, and the time over which shares are counted."""


@experiment(timeout="120s")
def qos_change(run: Run) -> None:
    """Three policies in turn while four senders overload a port; then tables and classes are changed by hand.

    Each policy moves SLs to other VLs and gives them other shares, which are measured. With lossless VLs no frame is
    lost. The control case has PFC on none of them: there the same overload loses frames. A table and a class that are
    changed by hand are found and repaired. In a network of two spines a cable is pulled: paths lead over the other one.
    """
    reports = _changes(run, "lossless", Port().with_vls())
    run.claim("lossless: frames lost", sum(report.lost for report in reports), equals=0)
    run.claim("lossless: frames doubled", sum(report.doubled for report in reports), equals=0)
    reports = _changes(run, "no PFC", Port().with_vls().without_pfc())
    run.claim("no PFC: frames lost", sum(report.lost for report in reports), at_least=1000)
    _cable(run)


def _changes(run: Run, case: str, port: Port) -> Any:
    lossless = bool(port.pfc.enabled)
    policies: list[tuple[Any, list[float]]] = [
        (policy(setup_of({0: 0, 1: 1, 2: 2, 3: 3}, low="0:4,1:3,2:2,3:1")), [40, 30, 20, 10]),
        (policy(setup_of({0: 3, 1: 2, 2: 1, 3: 0}, low="0:1,1:1,2:1,3:7")), [70, 10, 10, 10]),
        (policy(setup_of({0: 0, 1: 1, 2: 6, 3: 7}, "7:1", "0:1,1:1,6:2", 0)), [12.5, 12.5, 25, 50]),
    ]
    with network(Incast(n=4, port=port, total=3000)) as net:
        *hosts, target = net.hosts
        with SubnetManager(net.fabric, policies[0][0]) as manager:
            flows = [flow(host, target, sl, duration=LASTS) for sl, host in enumerate(hosts)]
            with Flows(flows) as running:
                for number, (chosen, due) in enumerate(policies, 1):
                    changed = manager.apply(chosen).changes if number > 1 else ()
                    net.sleep(SETTLES)
                    before = [running.received_by(index) for index in range(4)]
                    net.sleep(COUNTED)
                    counts = [running.received_by(index) - old for index, old in enumerate(before)]
                    found = shares([_Count(count) for count in counts])  # type: ignore[misc]
                    run.figure(f"{case}: policy {number}: shares in percent", found)
                    run.figure(f"{case}: policy {number}: tables and shares that changed", len(changed))
                    if lossless:
                        near = all(
                            abs(one - other) <= 0.05 * other + 0.5 for one, other in zip(found, due, strict=True)
                        )
                        run.claim(f"{case}: policy {number}: shares as due, {due}", near, equals=True)
                if lossless:
                    _meddle(run, manager, case)
                running.wait()
            run.claim(f"{case}: drift at the end", list(map(str, manager.sweep().drift)), equals=[])
    return running.reports


class _Count:
    """A number of frames of one size, in place of a rate."""

    def __init__(self, frames: int) -> None:
        self.bps = frames


def _meddle(run: Run, manager: Any, case: str) -> None:
    """Change a table and a class past the manager."""
    fabric = manager.fabric
    slot = fabric.port("h1-eth0").slot
    table = fabric.core.program.lanes(slot, OWN_FRAMES)
    fabric.core.program.set_lanes(slot, {OWN_FRAMES: table}, {OWN_FRAMES: (1, *table[1:])})
    other = fabric.port("s1-eth5")
    done = other.node.cmd("tc class change dev s1-eth5 parent 1:1 classid 1:11 htb rate 8bit ceil 32gbit quantum 9000")
    drift = manager.sweep().drift
    run.claim(f"{case}: drift that is found", [str(one.port.node) for one in drift], equals=["h1", "s1"])
    run.figure(f"{case}: drift in words", [str(one) for one in drift] + [done])
    run.claim(f"{case}: table after the repair", fabric.core.program.lanes(slot, OWN_FRAMES) == table, equals=True)
    reported = manager.reported(PortKey("s1", 5)).shares.weighted
    repaired = round(float(reported[6] / reported[1]), 2)
    run.claim(f"{case}: shares after the repair, VL 6 to VL 1", repaired, equals=2.0)


def _cable(run: Run) -> None:
    with network(LeafSpine(length="100m", ways="host number", port=Port().with_vls())) as net:
        one, other = net["h1"], net["h3"]
        with SubnetManager(net.fabric, policy(setup_of({0: 0, 1: 1}))) as manager:
            gids = {port.key.node: port.gid for port in manager.subnet.end_ports}
            request = PathRecordRequest(sgid=gids["h1"], dgid=gids["h3"])
            leaving = [port for port in net.fabric.names() if port.startswith("leaf1-") and _is_used(net, port, flow)]
            run.claim("a cable is pulled: ways from leaf1 to h3 before", len(leaving), equals=1)
            net.fabric.cabling.pull(leaving[0])
            swept = manager.sweep()
            run.claim(
                "a cable is pulled: ports that are gone", len([c for c in swept.changes if c.what == "port"]), equals=2
            )
            run.claim("a cable is pulled: forwarding entries that changed", swept.rerouted, at_least=1)
            run.claim("a cable is pulled: path", isinstance(manager.records().query(request), Found), equals=True)
            running = net.run(flow(one, other, 0, count=200, duration=None))
            run.claim("a cable is pulled: frames lost after the sweep", running.reports[0].lost, equals=0)
            net.fabric.cabling.plug(leaving[0])
            back = [c.message for c in manager.sweep().changes if c.what == "port"]
            run.claim("the cable is back: ports", back, equals=["the port is new"] * 2)


def _is_used(net: Network, port: str, flow: Any) -> bool:
    """Report whether frames from h1 to h3 leave by this port, to a spine."""
    if not net.fabric.far_end(net.fabric.port(port)).node.name.startswith("spine"):
        return False
    before = sum(net.fabric.sent(port).sent_frames)
    net.run(flow("h1", "h3", 0, count=10, duration=None))
    return bool(sum(net.fabric.sent(port).sent_frames) - before >= 10)
