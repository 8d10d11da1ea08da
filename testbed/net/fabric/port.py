"""Settings of ports and switch buffers, in the vocabulary of switch command lines.

`Port` has the settings of a port: lossless priorities, classification of frames, shares of the line, ECN. `Buffer` has
those of the buffer that all ports of a switch share. Their defaults make a lossless network of any topology.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from testbed import subject
from testbed.errors import UsageError
from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.lldp_timers import LldpTimers
from testbed.switch.buffer.headroom import HeadroomPerGroup, HeadroomPolicy, policy_of
from testbed.switch.buffer.settings import (
    BufferSettings,
    Dynamic,
    GroupSettings,
    Pool,
    QueueSettings,
    Static,
    Threshold,
)
from testbed.switch.ecn.curve import EcnCurve
from testbed.switch.headroom import calculation
from testbed.switch.headroom.exchange import Settings as MeasurementSettings
from testbed.switch.pfc.settings import PfcSettings
from testbed.switch.priority.negotiation import Negotiate, Negotiation
from testbed.switch.priority.settings import PriorityMap, Trust, require_trust
from testbed.switch.trimming.settings import (
    DEFAULT_DSCP,
    DEFAULT_SIZE,
    MOST_EXCEPTIONS,
    TrimException,
    Trimming,
)
from testbed.units import Duration, Rate, Scale, Size, read_quantities

if TYPE_CHECKING:
    from testbed.switch.credits.settings import PortCredits
    from testbed.switch.rules.marking import Marking, RuleMaker

_FCS = 4
"""The octets of the FCS, which the lab's buffers do not count."""

ROCE = 3
"""The priority that data centres commonly make lossless."""


class PortError(UsageError):
    """The settings of a port contradict each other or are out of range."""


@dataclass(frozen=True)
class Reaction:
    """The reaction times of a port's agent."""

    sends: Duration
    """The time from the crossing of a threshold to the PFC frame."""
    stops: Duration
    """The time from the arrival of a PFC frame to the stop, or the restart, of the queue."""


LAB_AGENT_REACTION = Reaction(Duration("26us"), Duration("40us"))
"""An agent's reaction in the lab on the engine `vm`, where it is CPU work: medians of 1590 pauses, by bench/dataplane.
"""
LAB_RESPONSE = Duration("150us")
"""The time, in the lab, that headroom allows each end of a cable for its agent's work."""
_NEVER_QUEUED = Size("1GB")
"""The length from which on a curve marks that is to mark nothing."""
MEASUREMENT = MeasurementSettings(
    interval_ns=5_000_000, timeout_ns=3_000_000_000, repeat_ns=None, stamp_lag_ns=100_000_000
)
"""The default measurement of headroom: once, and again when the link changes."""


@dataclass(frozen=True)
class Port:
    """The settings of one port.

    `shares` are the shares of the line of some priorities (ETS), in percent of what the `strict` priorities leave; the
    priorities that are not named get equal shares of the rest. `strict` priorities are served first.

    With `dcbx` the port speaks DCBX, which decides what is lossless, and with ETS also the shares: by its own settings
    until it finds a peer, and by negotiation from then on. `with_dcbx` makes such settings.
    """

    pfc: PfcSettings = field(default_factory=lambda: PfcSettings(enabled=frozenset({ROCE})))
    priorities: PriorityMap = field(default_factory=lambda: PriorityMap(Trust.DSCP))
    shares: Mapping[int, int] = field(default_factory=dict)
    strict: frozenset[int] = frozenset()
    dwrr: Mapping[int, int] = field(default_factory=dict)
    """Weights of deficit round robin, as switches have them, instead of `shares`: whole numbers from 1 to 100. A
    priority that is neither named nor strict has 1."""
    ecn: Mapping[int, EcnCurve] = field(default_factory=dict)
    marking: Marking | None = None
    """A rule of one's own that marks in place of the curves of some queues; `with_marking` makes such settings."""
    telemetry: bool = False
    """True if a switch's port stamps RoCE packets that collect telemetry (INT) with its queue and its line, as HPCC
    needs it."""
    trimming: Trimming | None = None
    """The frames that a switch's port cuts in place of dropping them; `with_trimming` makes such settings. Hosts drop
    nothing, so it has no effect there."""
    trim_exceptions: tuple[TrimException, ...] = ()
    """The frames that come in by a switch's port and are dropped rather than trimmed, wherever they leave."""
    credits: PortCredits | None = None
    """The virtual channels with credits (CBFC); `with_credits` makes such settings."""
    dcbx: Negotiation | None = None
    lldp: LldpTimers = field(default_factory=LldpTimers)
    """The timers of DCBX, in the standard's time, which the lab's scale stretches."""
    measurement: MeasurementSettings = MEASUREMENT
    """The measurement of headroom, in the lab's time; `timeout_ns` does not include the time in the cable. The default
    spaces requests farther apart where many ports measure, since the lab's CPU could not keep up otherwise."""
    measurement_key: bytes = b""
    obeys_after: Duration = Duration("0s")
    """The time from the arrival of a PFC frame until the port obeys it, beside the agent's reaction. It stands for the
    interface delay and higher-layer delay of a device."""
    vls: int | None = None
    """The number of the port's virtual lanes under a QoS policy, which are its first priorities; None if no policy
    applies to the port. `with_vls` makes such settings."""
    reaction: Reaction | None = None
    """The agent's reaction times. With None they are the time of its work on the lab's CPU, or `LAB_AGENT_REACTION`
    where CPU work takes no time."""
    is_in_lab_time: bool = False
    """True if `obeys_after`, `reaction` and the watchdog's times are the lab's; otherwise they are the hardware's."""

    def __post_init__(self) -> None:
        read_quantities(self)
        if self.dcbx and self.dcbx.lossless is not None:
            object.__setattr__(self, "pfc", replace(self.pfc, enabled=self.dcbx.lossless))
        if self.dcbx and self.dcbx.shares and (self.shares or self.strict):
            raise PortError(
                "this port runs ETS by DCBX: put its shares into dcbx.ets.table and leave shares and strict out"
            )
        self._check_vls()
        self._check_trimming()
        self._check_credits()
        object.__setattr__(self, "strict", frozenset(self.strict))
        for name in ("shares", "dwrr", "ecn"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        require_trust(self.priorities, self.pfc.enabled)
        for priority in [*self.shares, *self.strict, *self.dwrr, *self.ecn]:
            if priority not in range(8):
                raise PortError(f"priority {priority!r} does not exist; there are 0 to 7")
        if both := sorted(self.strict & self.shares.keys()):
            raise PortError(f"priority {both[0]} is strict and has a share; it can have one of them")
        if any(type(share) is not int or share < 1 for share in self.shares.values()):
            raise PortError(f"shares are {dict(self.shares)}; each is a whole number of percent, 1 to 100")
        self._check_dwrr()
        if self.marking and (lacking := sorted(self.marking.queues - self.ecn.keys())):
            raise PortError(
                f"queue {lacking[0]} has a marking rule and no curve, which marks if the rule has a fault; write "
                f"Port(ecn={{{lacking[0]}: EcnCurve(...)}}).with_marking(...)"
            )
        unnamed = 8 - len(self.strict) - len(self.shares)
        if sum(self.shares.values()) > 100 - unnamed:
            raise PortError(
                f"shares sum up to {sum(self.shares.values())} %, and {unnamed} priorities that are not named need "
                f"1 % each; lower the shares, or name them"
            )

    def _check_dwrr(self) -> None:
        if not self.dwrr:
            return
        if self.shares:
            raise PortError("shares and dwrr are both given; both divide the line, so give one of them")
        if self.dcbx and self.dcbx.shares:
            raise PortError("this port runs ETS by DCBX: put its shares into dcbx.ets.table and leave dwrr out")
        if both := sorted(self.strict & self.dwrr.keys()):
            raise PortError(f"priority {both[0]} is strict and has a weight; it can have one of them")
        if any(type(weight) is not int or not 1 <= weight <= 100 for weight in self.dwrr.values()):
            raise PortError(f"weights are {dict(self.dwrr)}; each is a whole number, 1 to 100")

    def _check_vls(self) -> None:
        if self.vls is None:
            return
        if type(self.vls) is not int or not 1 <= self.vls <= 8:
            raise PortError(f"vls is {self.vls!r}; a port has 1 to 8 virtual lanes")
        if self.priorities.trust is not Trust.DOT1P:
            raise PortError(
                f"a port with virtual lanes finds the lane of a frame in its tag, and this one trusts "
                f"{self.priorities.trust}; set its trust to dot1p, or write Port().with_vls({self.vls})"
            )
        if self.dcbx or self.shares or self.strict or self.dwrr:
            raise PortError(
                "the shares of a port with virtual lanes are its policy's; leave dcbx, shares and strict out"
            )

    def _check_trimming(self) -> None:
        object.__setattr__(self, "trim_exceptions", tuple(self.trim_exceptions))
        if len(self.trim_exceptions) > MOST_EXCEPTIONS:
            raise PortError(
                f"trim_exceptions has {len(self.trim_exceptions)} entries; a port has at most {MOST_EXCEPTIONS}"
            )
        if self.trimming is None:
            return
        if self.vls is not None:
            raise PortError("a port with virtual lanes has lossless ones alone; leave trimming out")
        if lossless := sorted(self.trimming.queues & self.lossless_queues):
            raise PortError(
                f"queue {lossless[0]} is lossless, and only lossy queues are trimmed; write "
                f"Port().without_pfc().with_trimming({lossless[0]}), or name other queues"
            )

    def _check_credits(self) -> None:
        if self.credits is None:
            return
        if self.dcbx or self.vls is not None:
            raise PortError("credits are for ports without DCBX and virtual lanes of a policy; leave one of them out")
        for vc in sorted(self.credits.vcs):
            if vc in self.pfc.enabled:
                raise PortError(f"priority {vc} has PFC and credits; it can have one: write Port().with_credits({vc})")
            if self.trimming is not None and vc in self.trimming.queues:
                raise PortError(f"queue {vc} is trimmed, and with credits nothing is dropped; leave one of them out")
            if self.priorities.dot1p_to_local[vc] != vc or self.priorities.dot1p_to_group[vc] != vc:
                raise PortError(
                    f"virtual channel {vc} is priority, queue and priority group {vc}, and this port maps it otherwise"
                )

    @property
    def lossless_queues(self) -> frozenset[int]:
        """The queues of frames of lossless priorities."""
        return frozenset(
            self.priorities.dot1p_to_local[priority] for priority in self.pfc.enabled if priority in range(8)
        )

    def in_lab(self, scale: Scale) -> Port:
        """Return the same port with the lab's times; one that has them already is returned as it is."""
        return self if self.is_in_lab_time else replace(self._times(scale.lab), is_in_lab_time=True)

    def in_hardware(self, scale: Scale) -> Port:
        """Return the same port with the hardware's times, to the nearest picosecond."""
        return replace(self._times(scale.nearest_real), is_in_lab_time=False) if self.is_in_lab_time else self

    def _times(self, change: Callable[[Duration], Duration]) -> Port:
        watchdog = self.pfc.watchdog and self.pfc.watchdog.times(change)
        reaction = self.reaction and Reaction(change(self.reaction.sends), change(self.reaction.stops))
        pfc = replace(self.pfc, watchdog=watchdog)
        return replace(self, pfc=pfc, obeys_after=change(self.obeys_after), reaction=reaction)

    @property
    def measures(self) -> bool:
        """True if the port measures its headroom when its peer does, too."""
        return self.dcbx is not None and self.dcbx.measures_headroom

    def with_pfc(self, *priorities: int) -> Port:
        """Return the same port with these priorities lossless, and no others."""
        if not priorities:
            raise PortError(
                f"with_pfc() names no priority; write with_pfc({ROCE}), or without_pfc() for a port with PFC off"
            )
        return replace(self, pfc=replace(self.pfc, enabled=frozenset(priorities)))

    def without_pfc(self) -> Port:
        """Return the same port with PFC off: no priority is lossless."""
        return replace(self, pfc=replace(self.pfc, enabled=frozenset()))

    def with_trimming(
        self,
        *queues: int,
        size: int = DEFAULT_SIZE,
        dscp: int = DEFAULT_DSCP,
        queue: int | None = None,
        tc: int | None = None,
    ) -> Port:
        """Return the same port trimming what has no room for these queues: cut to `size`, with this DSCP.

        The rests go into `queue`, or into that of their DSCP's priority; `tc` is their priority in place of the DSCP's.
        """
        return replace(self, trimming=Trimming(frozenset(queues), size, dscp, queue, tc))

    def with_marking(self, rule: RuleMaker, *queues: int) -> Port:
        """Return the same port with a rule that marks in place of the curves: of these queues, or of all that have one.

        `rule` is a subclass of MarkingRule, or a function that makes one of a PortLine.
        """
        from testbed.switch.rules.marking import Marking

        chosen = frozenset(queues or self.ecn)
        if not chosen:
            raise PortError(
                "a marking rule stands in place of ECN curves, and this port has none; write "
                "Port(ecn={3: EcnCurve(...)}).with_marking(...)"
            )
        return replace(self, marking=Marking(rule, chosen))

    def with_rule(self, rule: RuleMaker, *queues: int) -> Port:
        """Return the same port with a rule of one's own: of these queues, or of all that have an ECN curve.

        `rule` is a subclass of PortRule, or a function that makes one of a PortLine. In place of curves it decides what
        is marked; a queue without one gets a curve that marks nothing, for after a fault.
        """
        from testbed.switch.rules.marking import Marking

        chosen = frozenset(queues or self.ecn)
        if not chosen:
            raise PortError("with_rule() names no queue, and none has an ECN curve; write with_rule(MyRule, 3)")
        silent = {queue: EcnCurve.step(_NEVER_QUEUED) for queue in chosen if queue not in self.ecn}
        return replace(self, ecn={**self.ecn, **silent}, marking=Marking(rule, chosen, hooks=True))

    def with_credits(self, *vcs: int, cells: int | None = None, mode: str = "per_vc", **timers: Any) -> Port:
        """Return the same port with credits (CBFC) for these virtual channels in place of PFC, if its peer has them.

        A virtual channel is a local priority. `cells` are the credits of each for what comes in here, or of all of them
        together with the mode "per_port"; None: as many as the cable needs. `timers` are those of `PortCredits`, in
        octets of the line: `cf_min`, `cf_max`, `cc_interval`; or `cc_time` in place of the last one: "10us".
        """
        # Read when it is needed: a module takes the lab's time, and other networks would begin later.
        from testbed.switch.credits.settings import CreditError, PortCredits

        if unknown := sorted(timers.keys() - PortCredits.__dataclass_fields__.keys()):
            raise CreditError(
                f"with_credits has no {unknown[0]!r}; its timers are cf_min, cf_max and cc_interval or cc_time"
            )
        credits = PortCredits(frozenset(vcs), cells, mode, **timers)
        pfc = replace(self.pfc, enabled=self.pfc.enabled - credits.vcs)
        return replace(self, pfc=pfc, credits=credits)

    def with_vls(self, vls: int = 8) -> Port:
        """Return the same port with this many virtual lanes for a QoS policy, all of them lossless."""
        priorities = PriorityMap(Trust.DOT1P, dot1p_to_local=self.priorities.dot1p_to_local)
        pfc = replace(self.pfc, enabled=frozenset(range(vls)))
        return replace(self, pfc=pfc, priorities=priorities, vls=vls)

    def with_dcbx(
        self,
        *,
        willing: bool = False,
        defense: bool = False,
        headroom: bool = False,
        ets: bool = False,
        version: DcbxVersion = DcbxVersion.PUBLISHED,
        **others: Any,
    ) -> Port:
        """Return the same port speaking DCBX about its lossless priorities, and with `ets` also about its shares.

        A port that is not willing recommends its shares. With `headroom` it measures the headroom that it needs, if its
        peer does, too. `others` are further settings of `DcbxSettings`; where they do not suffice, write out
        DcbxSettings.
        """
        negotiate: Negotiate | None = next(subject.loaded("negotiation"), None)
        if negotiate is None:
            raise PortError("no subject here has DCBX; leave with_dcbx out")
        chosen = {"willing": willing, "defense": defense, "headroom": headroom, "ets": ets, "version": version}
        settings = negotiate(self, **chosen, **others)
        if settings.shares is None:
            return replace(self, dcbx=settings)
        return replace(self, dcbx=settings, shares={}, strict=frozenset())

    def weights(self) -> dict[int, int]:
        """Return the share of each priority that is not strict, in hundredths of a percent."""
        shared = [priority for priority in range(8) if priority not in self.strict]
        if self.dwrr:
            given = {priority: self.dwrr.get(priority, 1) for priority in shared}
            return {priority: weight * 10_000 // sum(given.values()) for priority, weight in given.items()}
        unnamed = [priority for priority in shared if priority not in self.shares]
        left = (100 - sum(self.shares.values())) * 100
        return {
            priority: self.shares[priority] * 100 if priority in self.shares else left // len(unnamed)
            for priority in shared
        }


@dataclass(frozen=True)
class Buffer:
    """The buffer of a switch, which all its ports share. Thresholds are in cells.

    A group is one priority of one ingress port. A lossless group has the thresholds `guaranteed`, `xoff`, `xon_offset`
    and `headroom`, a lossy group those of `lossy`, and a group named in `groups` those given there.
    """

    total: int = 5_000
    """The cells of ingress pool 0, with guaranteed cells and headroom."""
    cell: int = 208
    """The octets of a cell."""
    guaranteed: int = 0
    """The cells that each lossless group has for itself."""
    xoff: Threshold | None = field(default_factory=lambda: Dynamic("1/2"))
    """The threshold in the shared pool above which a lossless group pauses: Static(cells) or Dynamic(alpha). With None
    each gets an equal part of the cells that headroom leaves."""
    xon_offset: int = 96
    """The cells below `xoff` at which a lossless group resumes."""
    headroom: int | str | HeadroomPolicy | None = None
    """The headroom of each lossless group. With None each port gets what its cable needs: one round trip, a frame each
    way, the PFC frame, and `response` at both ends. A port that measures its headroom gets the measured one.

    The words "shared pool" (SONiC's) and "dsh" let groups share headroom, as do the policies `SharedHeadroomPool(cells,
    over_subscribe)` and `DynamicSharedHeadroom(cells)`; "per group" is the default."""
    headroom_pool: int | None = None
    """The cells of pool 0 for headroom; with None as many as the policy of `headroom` has."""
    lossy: GroupSettings = field(default_factory=GroupSettings)
    """The thresholds of a group that is not lossless."""
    groups: Mapping[tuple[int, int], GroupSettings] = field(default_factory=dict)
    response: Duration | None = None
    """The time in which an end of a cable reacts to a threshold or a PFC frame, for the computed headroom; None: what
    the lab's agents need, `LAB_RESPONSE`."""
    overbook_headroom: bool = False
    """True if the headroom of all groups may exceed `headroom_pool`."""
    shortest: int = 64
    """The octets of the shortest frames for which measured headroom has to suffice."""
    more_pools: tuple[Pool, ...] = ()
    """The ingress pools from number 1 on."""
    egress_pools: tuple[int, ...] = ()
    """The cells of each egress pool, which limit the frames in `queues`."""
    queues: Mapping[tuple[int, int], QueueSettings] = field(default_factory=dict)
    """The limits of queues, by (port number, queue); a queue that is not named has none."""

    def __post_init__(self) -> None:
        read_quantities(self)
        policy_of(self.headroom)

    @property
    def policy(self) -> HeadroomPolicy:
        """The policy of headroom: who may use how much."""
        return policy_of(self.headroom)

    def lab_response(self, scale: Scale) -> Duration:
        """Return the time, in the lab, that headroom allows each end of a cable."""
        return LAB_RESPONSE if self.response is None else scale.lab(self.response)

    def settings(self, ports: Mapping[int, PortNeeds]) -> BufferSettings:
        """Return the settings of the buffer of a switch that has these ports."""
        headroom = {number: self._headroom(needs) for number, needs in ports.items()}
        named = {key: _fitted(key, one, ports) for key, one in self.groups.items() if _applies(key, one, ports)}
        policy = self.policy
        counts = self.headroom_pool is None and isinstance(policy, HeadroomPerGroup)
        spared = self._spared(ports, headroom, named) if counts else 0
        xoff = self.xoff or self._even_part(ports, headroom, spared)
        offset = min(self.xon_offset, xoff.cells) if isinstance(xoff, Static) else self.xon_offset
        groups = {
            (number, priority): GroupSettings(
                lossless=True,
                guaranteed=self.guaranteed,
                threshold=xoff,
                xon_offset=self.xon_offset if self.xoff else offset,
                headroom=headroom[number],
            )
            for number, needs in ports.items()
            for priority in needs.lossless
        }
        groups |= {
            (number, vc): GroupSettings(guaranteed=cells, threshold=Static(0))
            for number, needs in ports.items()
            for vc, cells in needs.credits.items()
        }
        groups |= named
        pool = sum(one.headroom for one in groups.values() if not one.pool) - spared if spared else self.headroom_pool
        settings = BufferSettings(
            ports=tuple(ports),
            total=self.total,
            headroom_pool=pool,
            priorities=dict.fromkeys(range(8), self.lossy),
            groups=groups,
            cell_bytes=self.cell,
            overbook_headroom=self.overbook_headroom or spared > 0,
            more_pools=self.more_pools,
            egress_pools=self.egress_pools,
            queues={key: one for key, one in self.queues.items() if key[0] in ports},
            policy=replace(policy, cells=None),
        )
        longest = max((settings.cells(needs.mtu + 14) for needs in ports.values()), default=0)
        if settings.shared_cells < longest and not self.lossy.guaranteed:
            raise PortError(
                f"guaranteed cells and headroom leave {settings.shared_cells} of {self.total} to share, and a frame of "
                f"a lossy priority takes {longest}: {longest - settings.shared_cells} cells are missing; enlarge the "
                "buffer, or lower what is reserved"
            )
        return settings

    def _headroom(self, needs: PortNeeds) -> int:
        if needs.measured is not None:
            return needs.measured
        cells = self.policy.cells
        return needs.headroom_cells(self) if cells is None else cells

    def _spared(
        self,
        ports: Mapping[int, PortNeeds],
        headroom: Mapping[int, int],
        named: Mapping[tuple[int, int], GroupSettings],
    ) -> int:
        """Return the cells of headroom that are not needed because a peer has fewer classes than lossless priorities.

        The peer's class stops as a whole when one of its priorities is paused, so its priorities together fill the
        headroom of one (decision 0377). Groups in `groups` keep their headroom.
        """
        spared = 0
        for number, needs in ports.items():
            own = sum((number, priority) not in named for priority in needs.lossless)
            if needs.classes is not None:
                spared += headroom[number] * max(0, own - needs.classes)
        return spared

    def _even_part(self, ports: Mapping[int, PortNeeds], headroom: Mapping[int, int], spared: int) -> Static:
        """Return an equal part of the buffer for each lossless group, after a tenth is set aside for lossy traffic."""
        groups = [(number, priority) for number, needs in ports.items() for priority in needs.lossless]
        reserved = self.policy.pool({group: headroom[group[0]] for group in groups}) + self.guaranteed * len(groups)
        left = self.total * 9 // 10 - reserved + spared
        return Static(max(0, left) // max(1, len(groups)))

    def measured_headroom(self, rate: Rate, mtu: int, round_trip: Duration) -> int:
        """Return the headroom in cells for a measured round trip and the frame that triggers PAUSE (decision 0115)."""
        port = calculation.HeadroomPort(rate, mtu + 18, min(self.shortest, mtu + 18), self.cell, not_kept=_FCS)
        return calculation.adaptive(port, round_trip).cells + -(-(mtu + 14) // self.cell)


def _fitted(key: tuple[int, int], group: GroupSettings, ports: Mapping[int, PortNeeds]) -> GroupSettings:
    """Return a group with its measured headroom, if there is one, in place of the configured headroom."""
    needs = ports.get(key[0])
    if needs is None or needs.measured is None or not group.lossless:
        return group
    return replace(group, headroom=needs.measured)


def _applies(key: tuple[int, int], group: GroupSettings, ports: Mapping[int, PortNeeds]) -> bool:
    number, priority = key
    needs = ports.get(number)
    return not (needs and needs.negotiated and group.lossless and priority not in needs.lossless)


@dataclass(frozen=True)
class PortNeeds:
    """The values that decide how much headroom a port of a switch needs, on the lab's scale."""

    lossless: frozenset[int]
    rate: Rate
    delay: Duration
    mtu: int = 1500
    negotiated: bool = False
    """True if DCBX decides what is lossless; then groups for other priorities are not lossless either."""
    measured: int | None = None
    """The measured headroom in cells; None if it was not measured."""
    classes: int | None = None
    """The number of the peer's traffic classes; None if the buffer is not sized by it."""
    units: Scale = Scale(1)
    """The scale between the buffer's own times and the lab's."""
    credits: Mapping[int, int] = field(default_factory=dict)
    """The cells of each virtual channel with credits, which are its own."""

    def headroom_cells(self, buffer: Buffer) -> int:
        """Return the cells for everything that still arrives after XOFF was due.

        In octets on the wire these are the round trip and both ends' response at line rate, two frames of the greatest
        length (one ahead of the PFC frame, one that the far end has begun), and the PFC frame. All of it is counted in
        the frames that waste most of their cells, which are the smallest: 84 octets on the wire take a cell.
        """
        longest = Size.from_bytes(self.mtu + 18 + 20)
        flight = self.rate.size_in(self.delay * 2 + buffer.lab_response(self.units) * 2)
        octets = (flight + longest * 2 + Size.from_bytes(84)).bytes
        return max(-(-octets // 84) * -(-60 // buffer.cell), -(-octets // buffer.cell))
