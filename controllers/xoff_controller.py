"""The Ryu application: SR policies with reverse tunnels for PFC, and the switches of the data centres.

Start it with `python3 -m controllers`, under os-ken or Ryu, or with `ryu-manager controllers/xoff_controller.py`;
see docs/controller.md. It decides nothing: OpenFlow's messages go to `leaf`, and its orders to the switches;
agents and REST are the `io_loop`'s, in a thread (os-ken) or green thread (Ryu) of their own.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ClassVar

from controllers import compat
from controllers.io_loop import IoLoop
from controllers.leaf import FLOOD, TO_CONTROLLER, Leaves, Order, RemoveHost, Rule, Send
from controllers.settings import Address, Settings

LOG = logging.getLogger("xoff")
_FACTS_NS = 100_000_000
"""The time between two reports of the switches' state to the manager."""
_PATIENCE_S = 0.5
"""The time for which a switch whose queue is full may leave messages unread."""
COOKIE = 0x786F6666
"""The cookie of the controller's flow entries, so that it removes no others."""


Handler = Callable[["XoffController", Any], None]


def _guarded(handler: Handler) -> Handler:
    """Make a handler end the connection of the switch if it raises; under os-ken an exception would end all
    handlers.
    """

    @wraps(handler)
    def safe(self: XoffController, event: Any) -> None:
        try:
            handler(self, event)
        except Exception:
            message = getattr(event, "msg", None)
            datapath = event.datapath if message is None else message.datapath
            compat.DOOR.defect(datapath, bytes(getattr(message, "buf", None) or b""))

    return safe


class XoffController(compat.App):
    """The application: OpenFlow's events go to `leaf` and `io_loop`, and their orders to the switches."""

    OFP_VERSIONS: ClassVar = [compat.ofproto.OFP_VERSION]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        host = compat.openflow_host()
        where = Address(path=host) if host.startswith("/") else Address(host or "0.0.0.0")
        where.check_open("switches", os.environ)
        self.io_loop = IoLoop(Settings.read())
        self.leaves = Leaves()
        self.library = compat.library()
        self.serving: Any = None
        self._datapaths: dict[int, Any] = {}  # by number: the connection that counts
        self._lock = threading.Lock()  # `leaves` is read by the I/O loop's thread
        self._changed: set[int] = set()  # switches with changes that the manager does not have
        self._told_ns = -_FACTS_NS
        LOG.info("agents %s, REST %s, %s", self.io_loop.agents_at, self.io_loop.rest_at, self.library)

    def start(self) -> None:
        super().start()
        self.serving = compat.hub.spawn(self.io_loop.serve)

    def close(self) -> None:
        """Close all sessions in order. Routers keep what is installed on them."""
        self.io_loop.stop()
        if self.serving is not None:
            compat.hub.joinall([self.serving])

    # Switches

    @compat.set_ev_cls(compat.ofp_event.EventOFPSwitchFeatures, compat.CONFIG_DISPATCHER)
    @_guarded
    def features(self, event: Any) -> None:
        """Greet a new switch: ask for its ports."""
        datapath = event.msg.datapath
        datapath.send_msg(datapath.ofproto_parser.OFPPortDescStatsRequest(datapath, 0))

    @compat.set_ev_cls(compat.ofp_event.EventOFPPortDescStatsReply, [compat.CONFIG_DISPATCHER, compat.MAIN_DISPATCHER])
    @_guarded
    def ports(self, event: Any) -> None:
        datapath = event.msg.datapath
        usual = {port.port_no: _state(datapath, port) for port in event.msg.body if _is_usual(datapath, port)}
        local = [port for port in event.msg.body if port.port_no == datapath.ofproto.OFPP_LOCAL]
        name = _name(local[0]) if local else ""
        self._datapaths[datapath.id] = datapath
        compat.DOOR.identified(datapath.socket)
        with self._lock:
            orders = self.leaves.connected(datapath.id, usual, name)
        self._tell(datapath, orders)
        self._facts(datapath.id)

    @compat.set_ev_cls(compat.ofp_event.EventOFPStateChange, compat.DEAD_DISPATCHER)
    @_guarded
    def gone(self, event: Any) -> None:
        number = event.datapath.id
        if self._datapaths.get(number) is not event.datapath:
            return  # it was not identified yet, or has another connection already
        del self._datapaths[number]
        with self._lock:
            self.leaves.disconnected(number)
        self._facts(number)

    @compat.set_ev_cls(compat.ofp_event.EventOFPPortStatus, compat.MAIN_DISPATCHER)
    @_guarded
    def port_status(self, event: Any) -> None:
        datapath, port = event.msg.datapath, event.msg.desc
        if _is_usual(datapath, port):
            is_gone = event.msg.reason == datapath.ofproto.OFPPR_DELETE
            state = None if is_gone else _state(datapath, port)
            with self._lock:
                orders = self.leaves.port(datapath.id, port.port_no, state)
            self._tell(datapath, orders)
            self._facts(datapath.id)

    @compat.set_ev_cls(compat.ofp_event.EventOFPPacketIn, compat.MAIN_DISPATCHER)
    @_guarded
    def packet_in(self, event: Any) -> None:
        message = event.msg
        number = message.datapath.id
        if "in_port" not in message.match:
            compat.DOOR.refuse(message.datapath, "a frame without the port that it came in by")
            return
        with self._lock:
            known = self.leaves.counters.copy()
            orders = self.leaves.frame(number, message.match["in_port"], message.data)
            news = self.leaves.counters - known
        self._tell(message.datapath, orders)
        if "lldp_parsed" in news:
            self._facts(*self.leaves.numbers)  # the far end of the link is another switch
        elif news.keys() & {"learned", "moved"}:
            self._facts(number)

    def _facts(self, *numbers: int) -> None:
        """Pass the state of these switches to the manager; changes in short succession go together."""
        with self._lock:
            is_due = not self._changed
            self._changed.update(numbers)
        if is_due:
            self.io_loop.post(self._put)

    def _put(self, now_ns: int) -> None:
        """Pass the state of a switch to the manager, in the I/O loop's thread."""
        if now_ns < self._told_ns + _FACTS_NS:
            self.io_loop.post_at(self._told_ns + _FACTS_NS, self._put)
            return
        self._told_ns = now_ns
        with self._lock:
            facts = {number: self.leaves.facts(number) for number in sorted(self._changed)}
            self._changed.clear()
        for number, leaf in facts.items():
            self.io_loop.manager.put_leaf(number, leaf, now_ns)

    def _tell(self, datapath: Any, orders: Iterable[Order]) -> None:
        for order in orders:
            if not _has_room(datapath):
                compat.DOOR.counters["does_not_read"] += 1
                compat.DOOR.log(datapath.address, f"switch {datapath.id} does not read what it is sent, and is closed")
                datapath.close()
                return
            match order:
                case Rule():
                    datapath.send_msg(_flow(datapath, order))
                case RemoveHost():
                    datapath.send_msg(_remove_host(datapath, order))
                case Send():
                    datapath.send_msg(_packet(datapath, order))


def _has_room(datapath: Any) -> bool:
    """Return True if a message can be sent. A switch that reads nothing would keep all others waiting."""
    deadline = time.monotonic() + _PATIENCE_S
    while (queue := datapath.send_q) is not None and queue.full():
        if time.monotonic() > deadline:
            return False
        compat.hub.sleep(0.002)
    return queue is not None


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


def _remove_host(datapath: Any, order: RemoveHost) -> Any:
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
