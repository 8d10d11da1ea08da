"""The Ryu application: SR policies with reverse tunnels for PFC, and the switches of the data centres.

Start it with `python3 -m controllers`, under os-ken or Ryu, or with `ryu-manager controllers/xoff_controller.py`;
docs/controller.md says how. It decides nothing: OpenFlow's messages go to `leaf`, and what comes back to the switches;
agents and REST are `service`'s, in a thread (os-ken) or green thread (Ryu) of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, ClassVar

from controllers import compat
from controllers.leaf import FLOOD, TO_CONTROLLER, Forget, Leaves, Order, Rule, Send
from controllers.service import Service
from controllers.settings import Settings

LOG = logging.getLogger("xoff")
COOKIE = 0x786F6666
"""Marks our flow entries, so that nobody else's are removed."""


class XoffController(compat.App):
    """Thin over `leaf` and `service`."""

    OFP_VERSIONS: ClassVar = [compat.ofproto.OFP_VERSION]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.service = Service(Settings.read())
        self.leaves = Leaves()
        self.library = compat.library()
        self.serving: Any = None
        self._datapaths: dict[int, Any] = {}  # by number: the connection that counts
        LOG.info("agents %s, REST %s, %s", self.service.agents_at, self.service.rest_at, self.library)

    def start(self) -> None:
        super().start()
        self.serving = compat.hub.spawn(self.service.serve)

    def close(self) -> None:
        """The end: sessions are closed in order, and routers keep what they have."""
        self.service.stop()
        if self.serving is not None:
            compat.hub.joinall([self.serving])

    # Switches

    @compat.set_ev_cls(compat.ofp_event.EventOFPSwitchFeatures, compat.CONFIG_DISPATCHER)
    def features(self, event: Any) -> None:
        """A switch is here: ask for its ports."""
        datapath = event.msg.datapath
        datapath.send_msg(datapath.ofproto_parser.OFPPortDescStatsRequest(datapath, 0))

    @compat.set_ev_cls(compat.ofp_event.EventOFPPortDescStatsReply, [compat.CONFIG_DISPATCHER, compat.MAIN_DISPATCHER])
    def ports(self, event: Any) -> None:
        datapath = event.msg.datapath
        usual = {port.port_no: _state(datapath, port) for port in event.msg.body if _is_usual(datapath, port)}
        local = [port for port in event.msg.body if port.port_no == datapath.ofproto.OFPP_LOCAL]
        name = _name(local[0]) if local else ""
        self._datapaths[datapath.id] = datapath
        self._tell(datapath, self.leaves.connected(datapath.id, usual, name))
        self._facts()

    @compat.set_ev_cls(compat.ofp_event.EventOFPStateChange, compat.DEAD_DISPATCHER)
    def gone(self, event: Any) -> None:
        number = event.datapath.id
        if self._datapaths.get(number) is not event.datapath:
            return  # it had not said who it is, or is back already by another connection
        del self._datapaths[number]

        def put(now_ns: int) -> None:
            self._put(number, None, now_ns)

        self.leaves.left(number)
        self.service.post(put)

    @compat.set_ev_cls(compat.ofp_event.EventOFPPortStatus, compat.MAIN_DISPATCHER)
    def port_status(self, event: Any) -> None:
        datapath, port = event.msg.datapath, event.msg.desc
        if _is_usual(datapath, port):
            is_gone = event.msg.reason == datapath.ofproto.OFPPR_DELETE
            state = None if is_gone else _state(datapath, port)
            self._tell(datapath, self.leaves.port(datapath.id, port.port_no, state))
            self._facts()

    @compat.set_ev_cls(compat.ofp_event.EventOFPPacketIn, compat.MAIN_DISPATCHER)
    def packet_in(self, event: Any) -> None:
        message = event.msg
        number, known = message.datapath.id, self.leaves.counters.copy()
        self._tell(message.datapath, self.leaves.frame(number, message.match["in_port"], message.data))
        news = self.leaves.counters - known
        if news.keys() & {"learned", "moved", "lldp_heard"}:
            self._facts()

    def _facts(self) -> None:
        """Let the manager know of the switches as they are now."""
        facts = {number: self.leaves.facts(number) for number in self.leaves.numbers}

        def put(now_ns: int) -> None:
            for number, leaf in facts.items():
                self._put(number, leaf, now_ns)

        self.service.post(put)

    def _put(self, number: int, leaf: Any, now_ns: int) -> None:
        self.service.manager.put_leaf(number, leaf, now_ns)

    def _tell(self, datapath: Any, orders: Iterable[Order]) -> None:
        for order in orders:
            match order:
                case Rule():
                    datapath.send_msg(_flow(datapath, order))
                case Forget():
                    datapath.send_msg(_forget(datapath, order))
                case Send():
                    datapath.send_msg(_packet(datapath, order))


def _flow(datapath: Any, rule: Rule) -> Any:
    parser, ofproto = datapath.ofproto_parser, datapath.ofproto
    actions = [] if rule.queue is None else [parser.OFPActionSetQueue(rule.queue)]
    actions += [_output(datapath, output) for output in rule.outputs]
    instructions = [parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, actions)] if actions else []
    if rule.goto is not None:
        instructions.append(parser.OFPInstructionGotoTable(rule.goto))
    return parser.OFPFlowMod(
        datapath, cookie=COOKIE, table_id=rule.table, priority=rule.priority, idle_timeout=rule.idle_s,
        match=parser.OFPMatch(**dict(rule.match)), instructions=instructions,
    )  # fmt: skip


def _forget(datapath: Any, order: Forget) -> Any:
    parser, ofproto = datapath.ofproto_parser, datapath.ofproto
    return parser.OFPFlowMod(
        datapath, cookie=COOKIE, cookie_mask=(1 << 64) - 1, table_id=1, command=ofproto.OFPFC_DELETE,
        out_port=ofproto.OFPP_ANY, out_group=ofproto.OFPG_ANY, match=parser.OFPMatch(eth_dst=order.destination),
    )  # fmt: skip


def _packet(datapath: Any, order: Send) -> Any:
    ofproto = datapath.ofproto
    return datapath.ofproto_parser.OFPPacketOut(
        datapath=datapath, buffer_id=ofproto.OFP_NO_BUFFER, in_port=ofproto.OFPP_CONTROLLER,
        actions=[_output(datapath, order.output)], data=order.frame,
    )  # fmt: skip


def _output(datapath: Any, output: int) -> Any:
    ofproto = datapath.ofproto
    port = {FLOOD: ofproto.OFPP_FLOOD, TO_CONTROLLER: ofproto.OFPP_CONTROLLER}.get(output, output)
    return datapath.ofproto_parser.OFPActionOutput(port, ofproto.OFPCML_NO_BUFFER)


def _is_usual(datapath: Any, port: Any) -> bool:
    return bool(port.port_no <= datapath.ofproto.OFPP_MAX)


def _state(datapath: Any, port: Any) -> tuple[str, bool, str]:
    ofproto = datapath.ofproto
    down = port.config & ofproto.OFPPC_PORT_DOWN or port.state & ofproto.OFPPS_LINK_DOWN
    return _name(port), not down, port.hw_addr


def _name(port: Any) -> str:
    return bytes(port.name).rstrip(b"\0").decode("ascii", "replace")
