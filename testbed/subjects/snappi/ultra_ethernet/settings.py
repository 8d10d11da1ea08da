"""OTG's `ultra_ethernet` of a configuration: Link Layer Retry and credits of test ports, checked by the model's tables.

What the lab's link layer does not have is an error with the path of its field, and what has no effect a warning.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from testbed.subjects.snappi.reading import Item
from testbed.subjects.snappi.ultra_ethernet.model import (
    CBFC_STATES,
    CHOICE,
    CONFIGURATION,
    LLR_STATES,
    Field,
    Flag,
    Number,
    Numbers,
    Part,
    Word,
    Words,
)
from testbed.switch.credits.settings import MOST_LOSSLESS
from testbed.switch.link.retry import Llr
from testbed.switch.priority.settings import PriorityMap, Trust
from testbed.units import Duration

if TYPE_CHECKING:
    from testbed.subjects.snappi.config import FlowPlan

MOST_VCS = 32
VCS = range(8)
"""The virtual channels that the lab has: its priorities."""
_LEAST_OCTETS = 60
_LOST_AT_ONCE = (0, 4_200_000_000)
"""The values of `pcs_lost_status_timer_max` that say what the lab does, or nothing: the default."""
_COMPANY = "FA7ACB"
_DISTANCES = "received ordered sets and messages are not checked for distances"
_FIXED: Mapping[str, tuple[object, str]] = {
    "phy.o_code": (6, "ordered sets of the lab have this O-code"),
    "phy.tx_control_ordered_set.min_spacing": (400, "ordered sets of the lab are so many octets apart"),
    "phy.tx_control_ordered_set.min_spacing_at_frame_start": (256, "the lab keeps no distance from a frame's start"),
    "phy.tx_control_ordered_set.min_spacing_within_frame": (2048, "the lab keeps no distance within a frame"),
    "phy.rx_control_ordered_set.validate_min_spacing": (False, _DISTANCES),
    "phy.rx_control_ordered_set.validate_llr_init_min_spacing": (False, _DISTANCES),
    "phy.rx_control_ordered_set.validate_llr_ack_nack_min_spacing": (False, _DISTANCES),
    "phy.rx_control_ordered_set.validate_cf_min_spacing": (False, _DISTANCES),
    "cbfc.sender.packet_overhead": (-4, "buffers of the lab do not count the FCS"),
    "cbfc.sender.cc_message.enable_type2_message": (False, "it is of virtual channels from 16 on"),
    "cbfc.sender.cc_message.company_id": (_COMPANY, "CC_Updates of the lab have this one"),
    "cbfc.sender.cc_message.source_address": ("00:00:00:00:00:01", "CC_Updates of the lab have the port's own address"),
    "cbfc.sender.cc_message.destination_address": ("01:80:C2:00:00:01", "CC_Updates of the lab go there"),
    "cbfc.receiver.enable": (
        False,
        "a test port takes frames as they come, so nothing that is sent to it needs credits",
    ),
    "cbfc.receiver.cc_message.validate_cc_min_spacing": (False, _DISTANCES),
    "cbfc.receiver.cc_message.validate_cc_max_spacing": (False, _DISTANCES),
}
"""The fields that have one value here, with the reason."""


@dataclass(frozen=True)
class VcCredits:
    """Credits of what a test port sends."""

    vcs: frozenset[int]
    """The virtual channels that have credits."""
    mode: str
    """`per_vc`, or `per_port` if all channels share them."""
    cells: int
    """The credits of each of them, or of all together."""
    cell: int
    """The octets of a cell of the receiver."""
    cf_min: int
    cf_max: int
    """The least and the most octets of the line from one CF_Update to the next."""
    cc_timer: Duration | None
    """The time from one CC_Update to the next, in the hardware's time; None: there are none."""
    priorities: PriorityMap
    """The classification of frames: their priority is their virtual channel."""
    lossless: tuple[bool, ...] = ()
    """For each virtual channel of the list whether it has credits."""


@dataclass(frozen=True)
class LinkLayer:
    """The link layer of a test port."""

    name: str
    """The name of the Ultra Ethernet instance that the port is in."""
    llr: Llr | None = None
    """LLR of what the port sends, in the hardware's time; None: the port has none."""
    sends: bool = False
    """True if LLR numbers what the port sends: `remote_enable`."""
    receives: bool = False
    """True if the port takes numbered frames: `local_enable`."""
    is_eligible: bool = True
    """True if the port's flows are LLR-eligible."""
    credits: VcCredits | None = None
    has_credits_on: bool = False
    """True if the sender of credits is enabled."""

    def with_llr(self, state: str) -> LinkLayer:
        """Return the same link layer with LLR in one of the model's states."""
        sends = self.sends if state.startswith("local") else state in ("remote_enable", "enable_all")
        receives = self.receives if state.startswith("remote") else state in ("local_enable", "enable_all")
        return replace(self, sends=sends, receives=receives)

    def with_credits(self, state: str) -> LinkLayer:
        """Return the same link layer with credits in one of the model's states."""
        return replace(self, has_credits_on=state in ("sender_enable", "enable_all"))


def read_link_layers(config: Item, ports: Collection[str]) -> dict[str, LinkLayer]:
    """Return the link layer of each port that has one."""
    found: dict[str, LinkLayer] = {}
    names: set[str] = set()
    classified: PriorityMap | None = None
    for item in config.items("ultra_ethernet"):
        has_llr, cbfc = item.has("llr"), item.peek("cbfc", {})
        has_sender = isinstance(cbfc, Mapping) and bool(cbfc.get("sender"))
        values = _values(item, "UltraEthernet")
        name = values["name"]
        if not name or name in names:
            item.error("name", "it is missing" if not name else f"there are two of {name}")
        names.add(name)
        _refuse(item, values)
        layer = LinkLayer(name)
        if has_llr:
            layer = _with_retry(item, values, layer)
            if values["llr"]["pcs_lost_status_timer_max"] not in _LOST_AT_ONCE:
                where = "llr.pcs_lost_status_timer_max"
                item.warn(where, "has no effect: what a cable held is lost at once when its link goes down")
        if has_sender:
            credits = _read_credits(item, values)
            layer = replace(
                layer, credits=credits, has_credits_on=credits is not None and values["cbfc"]["sender"]["enable"]
            )
            if credits and classified not in (None, credits.priorities):
                item.error("cbfc.sender.mapping", "the ports of one switch map frames to virtual channels alike")
            classified = credits.priorities if credits else classified
        if not values["port_names"]:
            item.error("port_names", "it is empty; name a port at least")
        for number, port in enumerate(values["port_names"]):
            if port not in ports:
                item.error(f"port_names[{number}]", f"there is no {port!r}")
            elif port in found:
                item.error(f"port_names[{number}]", f"{port} is in {found[port].name} too")
            else:
                found[port] = layer
    return found


def _values(item: Item, schema: str) -> dict[str, Any]:
    """Take all fields of an object by the table of its schema; what is out of range is an error."""
    fields, found = CONFIGURATION[schema], {}
    chosen = ""
    if isinstance(field := fields.get(CHOICE), Word):
        chosen = item.choice(field.default, *field.words)
        found[CHOICE] = chosen
    for name, field in fields.items():
        if name == CHOICE or (isinstance(fields.get(CHOICE), Word) and _is_left_out(fields[CHOICE], name, chosen)):
            continue
        found[name] = _value(item, name, field)
    return found


def _is_left_out(choice: Field, name: str, chosen: str) -> bool:
    return isinstance(choice, Word) and name in choice.words and name != chosen


def _value(item: Item, name: str, field: Field) -> Any:
    match field:
        case Number():
            return item.integer(name, field.default or 0, field.low, field.high)
        case Flag():
            return item.flag(name, bool(field.default))
        case Word():
            return item.one_of(name, field.words, field.default)
        case Words():
            return item.texts(name)
        case Numbers():
            return [
                _number(item, f"{name}[{number}]", one, field.high) for number, one in enumerate(item.take(name, ()))
            ]
        case Part(schema, True):
            return [_values(one, schema) for one in item.items(name)]
        case Part(schema):
            with item.item(name) as inner:
                return _values(inner, schema)
        case _:
            return item.text(name, getattr(field, "default", ""))


def _number(item: Item, name: str, value: object, high: int) -> int:
    if type(value) is int and 0 <= value <= high:
        return value
    item.error(name, f"it is {value!r}; 0 to {high} is possible")
    return 0


def _refuse(item: Item, values: Mapping[str, Any]) -> None:
    for path, (only, why) in _FIXED.items():
        value: Any = values
        for part in path.split("."):
            value = value[part]
        if (value.upper() if isinstance(value, str) else value) != only:
            shown = str(value).lower() if isinstance(value, bool) else value
            item.error(path, f"it is {shown}; Xoff has {str(only).lower() if only is False else only} only: {why}")


def _with_retry(item: Item, values: Mapping[str, Any], layer: LinkLayer) -> LinkLayer:
    llr = values["llr"]
    for name, least in (
        ("outstanding_seq_max", 1),
        ("outstanding_data_max", _LEAST_OCTETS),
        ("replay_timer_max", 1),
        ("data_age_timer_max", 1),
    ):
        if llr[name] < least:
            item.error(f"llr.{name}", f"it is {llr[name]}; Xoff needs {least} or more")
            return layer
    settings = Llr(
        frames=llr["outstanding_seq_max"],
        octets=llr["outstanding_data_max"],
        replay_timer=Duration(f"{llr['replay_timer_max']}ns"),
        replay_count=llr["replay_count_max"],
        spacing=values["phy"]["tx_control_ordered_set"]["llr_target_spacing"],
        init_action=llr["init_behavior"],
        flush_action=llr["flush_behavior"],
        re_init=llr["re_init_on_discard"],
        data_age=Duration(f"{llr['data_age_timer_max']}ns"),
    )
    return replace(layer, llr=settings, sends=llr["remote_enable"], receives=llr["local_enable"])


def _read_credits(item: Item, values: Mapping[str, Any]) -> VcCredits | None:
    sender, timers = values["cbfc"]["sender"], values["phy"]["tx_control_ordered_set"]
    channels, where = sender["virtual_channels"], "cbfc.sender.virtual_channels"
    lossless = {vc: channel for vc, channel in enumerate(channels) if channel[CHOICE] == "lossless"}
    beyond = [vc for vc in lossless if vc not in VCS]
    if len(channels) > MOST_VCS:
        item.error(where, f"there are {len(channels)}; a port has at most {MOST_VCS}")
    elif not lossless and not sender["enable"]:
        pass  # there is nothing that could have credits
    elif not 1 <= len(lossless) <= MOST_LOSSLESS:
        item.error(where, f"{len(lossless)} of them are lossless; 1 to {MOST_LOSSLESS} can be")
    elif beyond:
        item.error(f"{where}[{beyond[0]}]", "Xoff's lossless channels are 0 to 7, which are its priorities")
    else:
        limits = _limits(item, sender, lossless)
        priorities = _classification(item, sender)
        message = sender["cc_message"]
        if limits and priorities:
            timer = Duration(f"{message['timer']}us") if message["enable_type1_message"] else None
            return VcCredits(
                frozenset(lossless), sender["credit_mode"], limits, sender["cell_size"], timers["cbfc_cf_min_timer"],
                timers["cbfc_cf_max_timer"], timer, priorities, tuple(vc in lossless for vc in range(len(channels))),
            )  # fmt: skip
    return None


def _limits(item: Item, sender: Mapping[str, Any], lossless: Mapping[int, Mapping[str, Any]]) -> int:
    """Return the credits of each virtual channel, or those that they share; 0 if there is something wrong with them."""
    if sender["credit_mode"] == "per_port":
        return int(sender["total_credits"])
    limits = {channel["lossless"]["credit_limit"] for channel in lossless.values()}
    if len(limits) > 1:
        item.error("cbfc.sender.virtual_channels", "the lossless channels of a port have the same credit_limit in Xoff")
        return 0
    return int(limits.pop())


def _classification(item: Item, sender: Mapping[str, Any]) -> PriorityMap | None:
    """Return the classification of frames by PCP, DSCP or both, of which the DSCP goes first."""
    mapping = sender["mapping"]
    if "_and_" in mapping and sender["priority"] == "vlan_pcp_dei":
        item.error("cbfc.sender.priority", "it is vlan_pcp_dei; where Xoff looks at two fields, the DSCP goes first")
        return None
    dscp = next((word for word in ("ipv4_dscp", "ipv6_dscp") if word in mapping), "")
    tables: dict[str, list[int]] = {}
    for kind, name, count, field in (
        ("pcp_to_dot1p", "vlan_pcp_dei", 8, "pcp_dei0"),
        ("dei_to_dot1p", "vlan_pcp_dei", 8, "pcp_dei1"),
        ("dscp_to_dot1p", dscp, 64, "values"),
    ):
        if name and name in mapping:
            table = _table(item, sender["virtual_channels"], name, field)
            if table is None:
                return None
            if field == "pcp_dei1" and not table:
                continue  # as without DEI
            tables[kind] = [table.get(value, 0) if table else value * 8 // count for value in range(count)]
    return PriorityMap(Trust.DSCP if dscp else Trust.DOT1P, 0, **tables)


def _table(item: Item, channels: Sequence[Mapping[str, Any]], name: str, field: str) -> dict[int, int] | None:
    """Return the channel of each value that a channel names; None if there is something wrong with them."""
    found: dict[int, int] = {}
    for vc, channel in enumerate(channels):
        where = f"cbfc.sender.virtual_channels[{vc}].mapping.{name}.{field}"
        values = channel["mapping"][name][field]
        if values and vc not in VCS:
            item.error(where, "frames can be in channels 0 to 7 only, which are Xoff's priorities")
            return None
        for value in values:
            if found.setdefault(value, vc) != vc:
                item.error(where, f"{value} is named by channel {found[value]} too")
                return None
    return found


def apply_to_flows(
    config: Item, flows: Sequence[FlowPlan], layers: Mapping[str, LinkLayer]
) -> tuple[tuple[FlowPlan, ...], dict[str, LinkLayer]]:
    """Return flows in the queues of their virtual channels, and the link layers with what flows say of LLR."""
    made, chosen = list(flows), dict(layers)
    for port, layer in layers.items():
        own = [number for number, flow in enumerate(flows) if flow.tx_port == port and flow.queue is not None]
        if layer.llr and own:
            is_eligible = flows[own[0]].is_llr_eligible
            for number in own:
                if flows[number].is_llr_eligible != is_eligible:
                    where = f"flows[{number}].ultra_ethernet.llr_eligible"
                    config.error(where, "flows of one port are all eligible in Xoff, or none")
            if not is_eligible:
                config.warn(
                    f"flows[{own[0]}].ultra_ethernet.llr_eligible", f"is not set, so LLR repairs no frames of {port}"
                )
            chosen[port] = replace(layer, is_eligible=is_eligible)
        if layer.credits:
            for number in own:
                made[number] = _in_channel(config, number, flows[number], layer.credits)
    return tuple(made), chosen


_LOOKED_AT = 64


def _in_channel(config: Item, number: int, flow: FlowPlan, credits: VcCredits) -> FlowPlan:
    from testbed.switch.priority.classify import classify

    size = min(flow.sizes.sizes)
    frames = (flow.packet.frame(place, size) for place in range(_LOOKED_AT))
    vcs = {classify(frame, credits.priorities).dot1p for frame in frames}
    if len(vcs) > 1:
        config.error(f"flows[{number}].packet", f"its frames are in virtual channels {sorted(vcs)}; a flow has one")
    return replace(flow, queue=min(vcs))


def states_of(kind: str) -> tuple[str, ...]:
    """Return the states of LLR or of credits that can be set."""
    return LLR_STATES if kind == "llr" else CBFC_STATES
