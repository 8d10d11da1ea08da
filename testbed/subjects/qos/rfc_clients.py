"""The clients that the QoS RFC names (sections 4 to 8), sans-I/O.

Each makes the path record query of its section, and returns the settings of a connection. Sockets and queue pairs are
opened by others; a client gets `Ask`, a function that puts a request to the SA, over REST or in the same process, and
returns a path or the reason why there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from testbed.errors import UsageError, XoffError
from testbed.frames.path_record import ClassPortInfo
from testbed.subjects.qos.fabric import Partition
from testbed.subjects.qos.matching import ISER_PORT, TCP_PORT_SPACE, cma_service_id, iser_service_id, sdp_service_id
from testbed.subjects.qos.model import SLS
from testbed.subjects.qos.numbers import rate_below
from testbed.subjects.qos.records import Found, NotFound, PathRecordRequest, PathRecords, Selector, Wanted


class NotConnected(XoffError):
    """The error of a client that gets no path, with the SA's reason."""


@dataclass(frozen=True)
class AddressVector:
    """The settings of a queue pair, or of a socket in place of one."""

    sl: int
    mtu: int  # bytes
    rate: int  # bit/s
    tclass: int
    pkey: int
    dlid: int = 0

    @classmethod
    def of(cls, found: Found) -> AddressVector:
        return cls(found.sl, found.mtu, found.rate, found.tclass, found.pkey, found.dlid)


Ask = Callable[[PathRecordRequest], AddressVector | NotFound]


def asking(records: PathRecords) -> Ask:
    """Return a function that asks path records of the same process."""

    def ask(request: PathRecordRequest) -> AddressVector | NotFound:
        answer = records.query(request)
        return AddressVector.of(answer) if isinstance(answer, Found) else answer

    return ask


def connected(client: str, ask: Ask, request: PathRecordRequest) -> AddressVector:
    """Return the path of a request; NotConnected if there is none."""
    answer = ask(request)
    if isinstance(answer, NotFound):
        raise NotConnected(f"{client} gets no path ({answer.reason}): {answer.message}")
    return answer


_TCLASS_IN_FLOWINFO = 20


@dataclass(frozen=True)
class SocketAddress:
    """The address of a target: `struct sockaddr_in6` with the target's GID as its address."""

    gid: int
    port: int
    flowinfo: int = 0

    @property
    def tclass(self) -> int | None:
        """The traffic class beside the flow label, or None if it is 0."""
        return (self.flowinfo >> _TCLASS_IN_FLOWINFO) & 0xFF or None


@dataclass(frozen=True)
class Cma:
    """The CMA of one port, by its GID. It opens connections by address and port for other protocols (sections 2.6, 5).

    The Service-ID is the prefix of the port space and the port; a protocol with its own one, such as SDP, gives it. A
    TClass may be asked for by a connection option or in the IPv6 address (`sin6_flowinfo`), and the option goes first
    (decision 0126). Both are in the path record query, and the answer is the queue pair's address vector.
    """

    gid: int
    ask: Ask
    pkey: int | None = None

    def connect(
        self,
        target: SocketAddress,
        *,
        port_space: int = TCP_PORT_SPACE,
        service_id: int | None = None,
        tclass: int | None = None,
        client: str = "CMA",
    ) -> AddressVector:
        """Resolve the route to a target; NotConnected if the SA finds none."""
        return connected(client, self.ask, self.request(target, port_space, service_id, tclass))

    def request(
        self, target: SocketAddress, port_space: int, service_id: int | None, tclass: int | None
    ) -> PathRecordRequest:
        return PathRecordRequest(
            sgid=self.gid,
            dgid=target.gid,
            service_id=cma_service_id(target.port, port_space) if service_id is None else service_id,
            tclass=target.tclass if tclass is None else tclass,
            pkey=self.pkey,
        )


@dataclass(frozen=True)
class SdpSocket:
    """A stream socket of SDP, over a connection that the CMA opens (section 6); None is an option that is not set.

    Its Service-ID is 0x000000000001PPPP, PPPP the port. The socket's SO_PRIORITY is the TClass asked for; without it
    the TOS option is (decision 0126).
    """

    cma: Cma
    priority: int | None = None  # SO_PRIORITY
    tos: int | None = None  # IP_TOS

    def connect(self, target: SocketAddress) -> AddressVector:
        tclass = self.tos if self.priority is None else self.priority
        return self.cma.connect(target, service_id=sdp_service_id(target.port), tclass=tclass, client="SDP")


@dataclass(frozen=True)
class IserInitiator:
    """An initiator of iSER, which connects through the CMA as SDP does (section 8).

    The RFC leaves its Service-ID open: it is a setting, by default the CMA's for TCP port 3260 (decision 0126).
    """

    cma: Cma
    service_id: int | None = None  # None: of the target's port

    def login(self, target: int, port: int = ISER_PORT) -> AddressVector:
        """Connect to a target, given by its GID."""
        service_id = iser_service_id(port) if self.service_id is None else self.service_id
        return self.cma.connect(SocketAddress(target, port), service_id=service_id, client="iSER")


@dataclass(frozen=True)
class ServiceEntry:
    """One service of an I/O controller."""

    service_id: int
    name: str


@dataclass(frozen=True)
class IoController:
    """A target, as device management finds it."""

    gid: int
    services: Sequence[ServiceEntry]


@dataclass(frozen=True)
class SrpInitiator:
    """An initiator of SRP at one port, by its GID, which asks for its path without the CMA (section 7).

    A target's I/O controller reports its services, each with a Service-ID, in the ServiceEntries attribute. The
    initiator puts the Service-ID of one of them into the query if the SA's ClassPortInfo reports QoS; to an SA without
    QoS the field is reserved.
    """

    gid: int
    ask: Ask
    sa: ClassPortInfo

    def connect(self, target: IoController, name: str | None = None) -> AddressVector:
        """Connect to a service of a target: the one of that name, or the first."""
        found = [service for service in target.services if name in (None, service.name)]
        if not found:
            known = ", ".join(service.name for service in target.services) or "none"
            raise NotConnected(f"SRP: the target has no service {name}; its services: {known}")
        service_id = found[0].service_id if self.sa.has_qos else None
        return connected("SRP", self.ask, PathRecordRequest(sgid=self.gid, dgid=target.gid, service_id=service_id))


_FULL_MEMBER = 0x8000


@dataclass(frozen=True)
class BroadcastGroup:
    """The attributes of a partition's broadcast group (section 2.2)."""

    pkey: int
    sl: int
    mtu: int
    rate: int
    tclass: int

    @classmethod
    def of(cls, partition: Partition) -> BroadcastGroup:
        return cls(partition.pkey, partition.sl, partition.mtu, partition.rate, partition.tclass)


Join = Callable[[int], BroadcastGroup]
"""A function that asks the SA for the broadcast group of a P_Key."""


class IpoibInterface:
    """An IP interface in a partition, such as ib0.8001 (sections 2.3 and 4).

    It joins the partition's broadcast group first, and gets the group's SL, MTU, rate and TClass. All are in every path
    record query for a new neighbour; the interface has no Service-ID. The rate asked for is "no less than the group's",
    for a path may be faster; the interface does not send faster than the group's.
    """

    def __init__(self, gid: int, pkey: int, join: Join, ask: Ask) -> None:
        self._gid, self._ask = gid, ask
        self.group = join(pkey & ~_FULL_MEMBER)
        self._neighbours: dict[int, AddressVector] = {}

    @property
    def mtu(self) -> int:
        """The MTU of the interface."""
        return self.group.mtu

    def request(self, neighbour: int) -> PathRecordRequest:
        """Return the query for a neighbour's path, by its GID."""
        group, slower = self.group, rate_below(self.group.rate)
        return PathRecordRequest(
            sgid=self._gid,
            dgid=neighbour,
            pkey=group.pkey,
            sl=group.sl,
            tclass=group.tclass,
            mtu=Wanted(group.mtu, Selector.EXACTLY),
            rate=None if slower is None else Wanted(slower, Selector.GREATER),
        )

    def neighbour(self, gid: int) -> AddressVector:
        """Return the address handle of a neighbour. The SA is asked for it once."""
        known = self._neighbours.get(gid)
        if known is None:
            found = connected("IPoIB", self._ask, self.request(gid))
            known = self._neighbours[gid] = replace(found, rate=min(found.rate, self.group.rate))
        return known

    def flush(self) -> None:
        """Ask again for every neighbour: the subnet manager has reported a change."""
        self._neighbours.clear()


@dataclass(frozen=True)
class MpiJob:
    """A job of MPI that manages its connections itself (section 2.4): its ranks' GIDs, and the SL of their queue pairs.

    `sls` has the SLs of single pairs. Every queue pair has a fixed SL. The job asks the SA for MTU and rate of the path
    with that SL; where the policy gives it another one there is no path.
    """

    ranks: Sequence[int]
    sl: int
    ask: Ask
    sls: Mapping[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for sl in (self.sl, *self.sls.values()):
            if sl not in SLS:
                raise UsageError(f"MPI is configured with SL {sl}; an SL is 0 to 15")

    def queue_pair(self, sender: int, receiver: int) -> AddressVector:
        """Return the queue pair from one rank to another."""
        return connected(f"MPI rank {sender}", self.ask, self.request(sender, receiver))

    def request(self, sender: int, receiver: int) -> PathRecordRequest:
        sl = self.sls.get((sender, receiver), self.sl)
        return PathRecordRequest(sgid=self.ranks[sender], dgid=self.ranks[receiver], sl=sl)
