"""The queries of each client of the QoS RFC, and the settings of its connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.frames.path_record import QOS_SUPPORTED, ClassPortInfo
from testbed.subjects.qos.fabric import GBIT, Partition
from testbed.subjects.qos.records import NotFound, PathReason, PathRecordRequest, PathRecords, Selector, Wanted
from testbed.subjects.qos.rfc_clients import (
    AddressVector,
    BroadcastGroup,
    Cma,
    IoController,
    IpoibInterface,
    IserInitiator,
    MpiJob,
    NotConnected,
    SdpSocket,
    ServiceEntry,
    SocketAddress,
    SrpInitiator,
    asking,
)
from testbed.subjects.qos.syntax.check import load
from tests.unit.subjects.qos.policy_samples import small_fabric

POLICY = b"""
qos-levels
    qos-level
        name: DEFAULT
        sl: 0
    end-qos-level
    qos-level
        name: storage
        sl: 5
        mtu-limit: 3
        rate-limit: 3
    end-qos-level
    qos-level
        name: fast
        sl: 2
    end-qos-level
    qos-level
        name: part
        sl: 7
    end-qos-level
end-qos-levels
qos-match-rules
    qos-match-rule
        service-id: 0x1060CBC, 0x7000, 0x0000000000011F90
        qos-level-name: storage
    end-qos-match-rule
    qos-match-rule
        service-id: 0x01060050
        qos-level-name: fast
    end-qos-match-rule
    qos-match-rule
        pkey: 0x0001
        qos-level-name: part
    end-qos-match-rule
end-qos-match-rules
"""


class Sa:
    """An SA that answers by a policy, and keeps the requests."""

    def __init__(self) -> None:
        self.fabric = small_fabric()
        self._ask = asking(PathRecords(load(POLICY, "policy"), self.fabric))
        self.asked: list[PathRecordRequest] = []
        self.gids = {port.key.node: port.gid for port in self.fabric.end_ports}

    def ask(self, request: PathRecordRequest) -> AddressVector | NotFound:
        self.asked.append(request)
        return self._ask(request)

    def cma(self, **others: Any) -> Cma:
        return Cma(self.gids["h1"], self.ask, **others)


@pytest.fixture
def sa() -> Sa:
    return Sa()


# CMA


def test_the_cma_asks_with_the_service_id_of_port_space_and_port_and_uses_the_answer(sa: Sa) -> None:
    vector = sa.cma().connect(SocketAddress(sa.gids["h3"], 80))
    assert sa.asked == [PathRecordRequest(sgid=sa.gids["h1"], dgid=sa.gids["h3"], service_id=0x01060050)]
    assert (vector.sl, vector.mtu, vector.rate) == (2, 2048, 40 * GBIT)
    sa.cma().connect(SocketAddress(sa.gids["h3"], 80), port_space=0x11)
    assert sa.asked[-1].service_id == 0x01110050


@pytest.mark.parametrize(
    ("flowinfo", "option", "tclass"), [(0, None, None), (9 << 20 | 5, None, 9), (9 << 20, 4, 4), (0, 0, 0)]
)
def test_a_tclass_is_asked_for_by_the_address_or_by_an_option_that_goes_first(
    sa: Sa, flowinfo: int, option: int | None, tclass: int | None
) -> None:
    vector = sa.cma().connect(SocketAddress(sa.gids["h3"], 80, flowinfo), tclass=option)
    assert sa.asked[0].tclass == tclass
    assert vector.tclass == (tclass or 0)


def test_without_a_path_there_is_no_connection_and_the_reason_is_shown(sa: Sa) -> None:
    with pytest.raises(NotConnected, match=r"^CMA gets no path \(unknown-port\): no port has GID"):
        sa.cma().connect(SocketAddress(77, 80))


# Protocols above it


def test_sdp_has_a_service_id_of_its_own_and_limits_of_its_level(sa: Sa) -> None:
    vector = SdpSocket(sa.cma()).connect(SocketAddress(sa.gids["h2"], 8080))
    assert sa.asked[0].service_id == 0x0000000000011F90
    assert (vector.sl, vector.mtu, vector.rate) == (5, 1024, 10 * GBIT)


@pytest.mark.parametrize(
    ("options", "tclass"), [({}, None), ({"tos": 32}, 32), ({"priority": 5}, 5), ({"priority": 0, "tos": 32}, 0)]
)
def test_sdp_asks_for_so_priority_as_tclass_and_else_for_tos(sa: Sa, options: dict[str, int], tclass: int) -> None:
    SdpSocket(sa.cma(), **options).connect(SocketAddress(sa.gids["h2"], 8080))
    assert sa.asked[0].tclass == tclass


def test_iser_connects_through_the_cma_with_a_service_id_that_can_be_set(sa: Sa) -> None:
    assert IserInitiator(sa.cma()).login(sa.gids["h2"]).sl == 5
    assert IserInitiator(sa.cma(), service_id=0x01060050).login(sa.gids["h2"]).sl == 2
    assert [request.service_id for request in sa.asked] == [0x1060CBC, 0x01060050]


# SRP

TARGET_SERVICES = (ServiceEntry(0x6000, "other"), ServiceEntry(0x7000, "SRP.T10:0002c9"))


def test_srp_uses_the_service_id_of_the_controller_and_only_if_the_sa_does_qos(sa: Sa) -> None:
    target = IoController(sa.gids["h2"], TARGET_SERVICES)
    with_qos = SrpInitiator(sa.gids["h1"], sa.ask, ClassPortInfo(capabilities2=QOS_SUPPORTED))
    assert with_qos.connect(target, "SRP.T10:0002c9").sl == 5
    assert SrpInitiator(sa.gids["h1"], sa.ask, ClassPortInfo()).connect(target, "SRP.T10:0002c9").sl == 0
    assert [request.service_id for request in sa.asked] == [0x7000, None]
    assert with_qos.connect(target).sl == 0, "of the first service"
    with pytest.raises(NotConnected, match=r"no service x; its services: other, SRP.T10:0002c9"):
        with_qos.connect(target, "x")


# MPI


def test_mpi_has_its_fixed_sl_in_every_queue_pair(sa: Sa) -> None:
    ranks = [sa.gids[name] for name in ("h1", "h2", "h3")]
    job = MpiJob(ranks, 0, sa.ask, {(0, 2): 0})
    vectors = [job.queue_pair(one, other) for one in range(3) for other in range(3) if one != other]
    assert {vector.sl for vector in vectors} == {0}
    assert {request.sl for request in sa.asked} == {0} and {request.service_id for request in sa.asked} == {None}
    with pytest.raises(NotConnected, match=r"MPI rank 0 gets no path \(sl\): SL 4 is asked for"):
        MpiJob(ranks, 4, sa.ask).queue_pair(0, 1)
    assert MpiJob(ranks, 0, sa.ask, {(0, 1): 4}).queue_pair(1, 0).sl == 0
    with pytest.raises(UsageError, match="SL 16"):
        MpiJob(ranks, 16, sa.ask)


# IPoIB


def interface(sa: Sa, join: Callable[[int], BroadcastGroup], pkey: int = 0x8001) -> IpoibInterface:
    return IpoibInterface(sa.gids["h1"], pkey, join, sa.ask)


def test_ipoib_joins_its_broadcast_group_and_asks_with_all_that_it_carries(sa: Sa) -> None:
    joined: list[int] = []

    def join(pkey: int) -> BroadcastGroup:
        joined.append(pkey)
        return BroadcastGroup.of(Partition("Part1", pkey, sl=7, mtu=2048, rate=10 * GBIT, tclass=12))

    ipoib = interface(sa, join)
    assert joined == [1] and ipoib.mtu == 2048
    vector = ipoib.neighbour(sa.gids["h3"])
    assert sa.asked == [
        PathRecordRequest(
            sgid=sa.gids["h1"],
            dgid=sa.gids["h3"],
            pkey=1,
            sl=7,
            tclass=12,
            mtu=Wanted(2048, Selector.EXACTLY),
            rate=Wanted(5 * GBIT, Selector.GREATER),
        )
    ]
    assert (vector.sl, vector.mtu, vector.rate, vector.tclass) == (7, 2048, 10 * GBIT, 12)
    assert sa.fabric.port(sa.fabric.end_ports[2].key), "the path itself does 40 Gb/s; the group does not"


def test_ipoib_asks_once_for_each_neighbour_until_something_changes(sa: Sa) -> None:
    ipoib = interface(sa, lambda pkey: BroadcastGroup(pkey, 7, 1024, 10 * GBIT, 0))
    for _ in range(3):
        ipoib.neighbour(sa.gids["h3"])
    assert len(sa.asked) == 1
    ipoib.flush()
    ipoib.neighbour(sa.gids["h3"])
    assert len(sa.asked) == 2


def test_ipoib_has_no_path_where_the_policy_gives_its_partition_another_sl(sa: Sa) -> None:
    ipoib = interface(sa, lambda pkey: BroadcastGroup(pkey, 3, 1024, 10 * GBIT, 0))
    with pytest.raises(NotConnected, match=rf"\({PathReason.SL}\)"):
        ipoib.neighbour(sa.gids["h3"])
