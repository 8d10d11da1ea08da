"""The scheduling of a port's queues, from its own shares and from ETS tables in both formats."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import pytest

from testbed.frames.dcbx.values import STRICT, Ets, Tsa
from testbed.linux.netlink.messages import Message, attributes
from testbed.net.fabric.port import Port, PortError
from testbed.net.fabric.queues import SHARED, Queues, Scheduling
from testbed.switch.ecn.curve import EcnCurve
from testbed.switch.priority.settings import PriorityMap, Trust
from testbed.units import Rate

IDENTITY = tuple(range(8))
ALL_ETS = (int(Tsa.ETS),) * 8


def published(
    assignment: tuple[int, ...] = IDENTITY, bandwidth: tuple[int, ...] = (30, 10, 10, 50, 0, 0, 0, 0), strict: str = ""
) -> Ets:
    return Ets(assignment, bandwidth, tuple(int(Tsa.STRICT if str(c) in strict else Tsa.ETS) for c in range(8)))


def ordered(scheduling: Scheduling) -> list[int]:
    """Return the strict queues in the order of their service."""
    return sorted(scheduling.strict, key=lambda queue: scheduling.levels[queue])


def test_a_port_with_its_own_shares_has_a_queue_for_each_priority() -> None:
    scheduling = Scheduling.of_port(Port(shares={3: 50}, strict=frozenset({6, 7})))
    assert scheduling.queue_of == IDENTITY
    assert ordered(scheduling) == [7, 6]
    assert {scheduling.levels[queue] for queue in range(6)} == {3}
    assert scheduling.weights[3] == 5000 and scheduling.weights[0] == 1000


def test_classes_of_the_published_format_are_queues() -> None:
    scheduling = Scheduling.of_ets(published((0, 1, 2, 3, 3, 0, 6, 7), strict="67"))
    assert scheduling.queue_of == (0, 1, 2, 3, 3, 0, 6, 7)
    assert ordered(scheduling) == [7, 6]
    assert [scheduling.levels[queue] for queue in (0, 1, 2, 3)] == [SHARED] * 4
    assert scheduling.weights[:4] == (3000, 1000, 1000, 5000)


def test_a_class_without_bandwidth_gets_what_the_others_leave() -> None:
    scheduling = Scheduling.of_ets(published((0, 1, 2, 3, 4, 4, 4, 4)))
    assert scheduling.levels[4] == SHARED + 1


def test_a_shaped_class_counts_as_strict_and_a_vendors_by_its_bandwidth() -> None:
    tsa = (int(Tsa.CBS), int(Tsa.VENDOR), *[int(Tsa.ETS)] * 6)
    scheduling = Scheduling.of_ets(Ets((0, 1, 2, 2, 2, 2, 2, 2), (0, 40, 60, 0, 0, 0, 0, 0), tsa))
    assert scheduling.strict == {0}
    assert scheduling.weights[1:3] == (4000, 6000)


def test_all_strict_classes_have_their_order_where_none_shares() -> None:
    scheduling = Scheduling.of_ets(Ets(IDENTITY, (0,) * 8, (int(Tsa.STRICT),) * 8))
    assert ordered(scheduling) == [7, 6, 5, 4, 3, 2, 1, 0]
    assert len(set(scheduling.levels)) == 8


def test_beside_one_that_shares_all_strict_classes_are_served_first() -> None:
    scheduling = Scheduling.of_ets(published(bandwidth=(100, 0, 0, 0, 0, 0, 0, 0), strict="1234567"))
    assert max(scheduling.levels[queue] for queue in range(1, 8)) < scheduling.levels[0] == SHARED


def test_in_the_draft_avb_goes_first_and_strict_priorities_have_queues_that_no_group_uses() -> None:
    scheduling = Scheduling.of_ets(Ets((0, 0, 13, 1, STRICT, 5, 14, STRICT), (50, 30, 0, 0, 0, 20, 0, 0)))
    assert [scheduling.queue_of[priority] for priority in (0, 1, 3, 5)] == [0, 0, 1, 5]
    assert len({scheduling.queue_of[priority] for priority in (2, 4, 6, 7)} - {0, 1, 5}) == 4
    assert ordered(scheduling) == [scheduling.queue_of[priority] for priority in (6, 2, 7, 4)]


def test_a_queue_that_no_priority_has_any_longer_is_soon_empty() -> None:
    scheduling = Scheduling.of_ets(published((0, 1, 0, 1, 0, 1, 0, 1), (70, 30, 0, 0, 0, 0, 0, 0)))
    assert scheduling.weights[3] == scheduling.weights[0] == 7000
    assert scheduling.levels[3] == SHARED


# Classes of the kernel


def classes(messages: tuple[Message, ...] | list[Message]) -> dict[int, tuple[int, int]]:
    """Return (level, quantum) of each class."""
    found = {}
    for message in messages:
        _, own, parent = struct.unpack_from("=iII", message.body, 4)
        if attributes(message.body, 20)[1] == b"htb\0" and parent == 0x1_0000:
            options = attributes(attributes(message.body, 20)[2])
            quantum, _, level = struct.unpack_from("=III", options[1], 32)
            found[own] = level, quantum
    return found


def queues(ets: bool = True) -> Queues:
    port = Port(ecn={3: EcnCurve("10kB", "20kB", 1)}).with_dcbx(ets=ets)
    return Queues(4097, Rate("10Mb/s"), port)


def test_where_dcbx_sets_shares_a_class_that_becomes_strict_is_another_class_of_the_kernel() -> None:
    """The kernel does not move a class that holds frames, so it would not become strict under load."""
    shared, strict = (queues().arrange(published(strict=which)) for which in ("", "3"))
    assert shared.sockets[3] != strict.sockets[3]
    assert shared.sockets[:3] == strict.sockets[:3]
    level_of = {"shared": classes(shared.requests), "strict": classes(strict.requests)}
    assert level_of["strict"][strict.sockets[3]][0] < level_of["strict"][strict.sockets[0]][0]
    for own in shared.sockets[:3]:
        assert level_of["shared"][own][0] == level_of["strict"][own][0]


def test_a_pause_stops_both_places_of_a_queue() -> None:
    made = [message for message in queues().messages() if attributes(message.body, 20)[1] == b"plug\0"]
    parents = {struct.unpack_from("=I", message.body, 12)[0] for message in made}
    assert len(parents) == 16
    stopped = set()
    for queue in range(8):
        request = queues().pausing(queue, stop=True)
        (length,) = struct.unpack_from("=I", request)
        assert len(request) == 2 * length
        stopped |= {struct.unpack_from("=I", request, start + 16 + 12)[0] for start in (0, length)}
    assert stopped == parents
    assert len(queues().red_handles(3)) == 2


def test_a_port_that_gets_its_first_table_later_has_its_classes_at_the_levels_that_they_keep() -> None:
    later = queues(ets=False)
    assert {level for level, _ in classes(later.arrange().requests).values()} == {1, SHARED}
    found = classes(later.arrange(published()).requests)
    assert found[later.arrange().sockets[0]][0] == SHARED
    assert len(later.pausing(3, stop=True)) == len(queues().pausing(3, stop=True))


def test_where_no_table_can_come_a_queue_has_one_place() -> None:
    request = Queues(4097, Rate("10Mb/s"), Port()).pausing(3, stop=True)
    assert struct.unpack_from("=I", request) == (len(request),)


# Virtual lanes


def test_shares_of_virtual_lanes_are_weights_and_strict_lanes_keep_their_order() -> None:
    scheduling = Scheduling.of_lanes((2, 0), {1: Fraction(3, 4), 5: Fraction(1, 4)})
    assert scheduling.queue_of == IDENTITY
    assert ordered(scheduling) == [2, 0]
    assert scheduling.weights[1] == 3 * scheduling.weights[5]
    assert {scheduling.levels[queue] for queue in (1, 5)} == {SHARED}
    assert {scheduling.levels[queue] for queue in (3, 4, 6, 7)} == {SHARED + 1}, "they have what the others leave"


def test_small_weights_are_kept_beside_large_ones() -> None:
    scheduling = Scheduling.of_lanes((), {0: Fraction(255, 256), 1: Fraction(1, 256)})
    assert scheduling.weights[0] / scheduling.weights[1] == pytest.approx(255, rel=0.001)


def test_a_port_with_lanes_has_classes_for_strict_and_for_shared_ones() -> None:
    queues = Queues(4096, Rate("10Mb/s"), Port().with_vls())
    scheduling = Scheduling.of_lanes((1,), {0: Fraction(1)})
    arrangement = queues.arranged(scheduling)
    assert arrangement.queue_of == IDENTITY
    assert len(set(arrangement.sockets)) == 8 and len(arrangement.requests) == 16
    handles = dict(enumerate(arrangement.sockets))
    classes = {handle: (1, 100 + queue) for queue, handle in handles.items()}
    assert queues.served(classes, scheduling) == {queue: (1, 100 + queue) for queue in range(8)}


def test_a_port_with_lanes_is_lossless_on_all_of_them_and_trusts_tags() -> None:
    port = Port().with_vls(4)
    assert (port.vls, port.pfc.enabled, port.priorities.trust) == (4, frozenset(range(4)), Trust.DOT1P)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vls": 9, "priorities": PriorityMap("dot1p")}, "vls is 9; a port has 1 to 8 virtual lanes"),
        ({"vls": 8}, r"set its trust to dot1p, or write Port\(\).with_vls\(8\)"),
        ({"vls": 8, "priorities": PriorityMap("dot1p"), "shares": {1: 50}}, "leave dcbx, shares and strict out"),
    ],
)
def test_lanes_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PortError, match=message):
        Port(**settings)
