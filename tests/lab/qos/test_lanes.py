"""Path records agree with the network under the same policy."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from testbed.frames.path_record import SLS, Attribute, Method, PathMask, PathRecord, SaMad, Status, dscp_of
from testbed.lab import Run, experiment
from testbed.subjects.qos.model import DROP_VL, NodeType, Policy, PortGroup, QosLevel, Sl2VlScope, VlArbScope, VlWeight
from testbed.subjects.qos.numbers import Ranges
from testbed.subjects.qos.records import Found, NotFound, PathReason, PathRecordRequest
from testbed.switch.priority.classify import read

if TYPE_CHECKING:
    from tests.lab.conftest import Runner


GROUPS = (
    PortGroup("all", node_types=(NodeType.ALL,)),
    PortGroup("switches", node_types=(NodeType.SWITCH,)),
    PortGroup("hosts", node_types=(NodeType.CA,)),
)
PAIRS = (("h1", "h3"), ("h3", "h1"), ("h2", "h4"), ("h1", "h2"))


def random_policy(chance: random.Random) -> Policy:
    """Draw scopes for some devices, input and output ports; now and then a VL that a port lacks, or one without
    weight.
    """
    scopes = []
    for _ in range(chance.randrange(1, 5)):
        vls = [chance.choice([*range(8), *range(8), 8, 12, DROP_VL]) for _ in SLS]
        ports = [
            Ranges.of([(number, number) for number in range(1, 5) if chance.random() < 0.7] or [(1, 1)])
            if chance.random() < 0.5
            else None
            for _ in range(2)
        ]
        name = chance.choice(GROUPS).name
        across = chance.random() < 0.3
        scopes.append(
            Sl2VlScope(tuple(vls), () if across else (name,), (), (name,) if across else (), ports[0], ports[1])
        )
    weights = tuple(VlWeight(vl, chance.choice((0, 1, 20))) for vl in range(8))
    arb = (VlArbScope((chance.choice(GROUPS).name,), low=weights),) if chance.random() < 0.5 else ()
    return Policy(GROUPS, tuple(scopes), arb)


@experiment(timeout="300s")
def arrive_as_found(run: Run, policies: int = 40) -> None:
    """Send a frame of each SL on several ways through two leaves and two spines, under random policies."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Port
    from testbed.net.shell.wire import RawPort, Tap
    from testbed.subjects.qos.lab.subnet_manager import SubnetManager
    from topologies.leaf_spine import LeafSpine

    chance = random.Random(run.seed)
    differences, outcomes = [], {"arrived": 0, "dropped": 0}
    with network(LeafSpine(ways="host number", port=Port().with_vls()), run, autoStaticArp=True) as net:
        raw = {host.name: RawPort(host, f"{host.name}-eth0") for host in net.hosts}
        taps = {host.name: Tap(host, f"{host.name}-eth0") for host in net.hosts}
        with SubnetManager(net.fabric) as manager:
            gids = {port.key.node: port.gid for port in manager.subnet.end_ports}
            for number in range(policies):
                manager.apply(random_policy(chance))
                for source, target in PAIRS:
                    for sl in SLS:
                        _send(raw[source], net[source].MAC(), net[target].MAC(), dscp_of(sl))
                time.sleep(0.05)
                arrived = {name: _arrived(tap, net) for name, tap in taps.items()}
                for source, target in PAIRS:
                    for sl in SLS:
                        answer, in_octets = _ask(manager, gids[source], gids[target], sl)
                        found = isinstance(answer, Found)
                        if found != in_octets:
                            differences.append(f"policy {number}: {answer}, and in octets: {in_octets}")
                        if isinstance(answer, NotFound) and answer.reason is not PathReason.SL_DROPPED:
                            differences.append(f"policy {number}: {answer}")
                        came = (source, dscp_of(sl)) in arrived[target]
                        outcomes["arrived" if came else "dropped"] += 1
                        if found != came:
                            differences.append(
                                f"policy {number}, {source} to {target}, SL {sl}: {answer}, came: {came}"
                            )
                if drift := manager.sweep().drift:
                    differences.append(f"policy {number}: drift {list(map(str, drift))}")
        for port in raw.values():
            port.close()
        for tap in taps.values():
            tap.close()
    run.figure("outcomes", outcomes)
    run.figure("differences", differences[:10])
    run.claim("differences", len(differences), equals=0)


def _ask(manager: Any, source: int, target: int, sl: int) -> tuple[Found | NotFound, bool]:
    """Ask for a path with this SL, and ask the subnet administration for it in octets: does it find one?"""
    set_up = manager.policy
    manager.policy = replace(set_up, levels=(QosLevel("L", sl),), default_level="L")
    record = PathRecord(sgid=source, dgid=target).pack()
    mad = SaMad(Method.GET, Attribute.PATH_RECORD, 1, PathMask.SGID | PathMask.DGID, record)
    answer = SaMad.unpack(manager.answer(mad.pack()))
    found = manager.records().query(PathRecordRequest(sgid=source, dgid=target))
    manager.policy = set_up
    in_octets = answer.status == Status.OK and PathRecord.unpack(answer.data).sl == sl
    return found, in_octets


def _send(port: Any, source: str, target: str, dscp: int) -> None:
    """Send an IPv4 packet with nothing in it; a drop at the sender is an error of its socket."""
    ends = bytes.fromhex(target.replace(":", "")) + bytes.fromhex(source.replace(":", ""))
    header = bytes([0x45, dscp << 2, 0, 46]) + bytes(4) + bytes([64, 253]) + bytes(2) + bytes(8)
    try:
        port.send(ends + b"\x08\x00" + header + bytes(26))
    except OSError:
        return


def _arrived(tap: Any, net: Any) -> set[tuple[str, int]]:
    """Return (sender, DSCP) of the frames that came."""
    names = {bytes.fromhex(host.MAC().replace(":", "")): host.name for host in net.hosts}
    found = set()
    for frame in tap.frames():
        dscp = read(frame).dscp
        if dscp is not None and frame[6:12] in names:
            found.add((names[frame[6:12]], dscp))
    return found


def test_frames_of_an_sl_arrive_exactly_where_a_path_with_it_is_found(run: Runner) -> None:
    outcomes = run(arrive_as_found).check().figure("outcomes")
    assert min(outcomes.values()) > 300, outcomes
