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
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar

from controllers import compat
from controllers.io_loop import IoLoop
from controllers.leaf import Leaves
from controllers.openflow import messages
from controllers.orders import Orders
from controllers.settings import Address, Settings

LOG = logging.getLogger("xoff")
_FACTS_NS = 100_000_000
"""The time between two reports of the switches' state to the manager."""
_PATIENCE_S = 0.5
"""The time for which a switch whose queue is full may leave messages unread."""


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


class PortsAreDue(compat.EventBase):
    """The event of the moment at which `leaf` has something to do, though no switch has sent anything."""


class XoffController(compat.App):
    """The application: OpenFlow's events go to `leaf` and `io_loop`, and their orders to the switches."""

    OFP_VERSIONS: ClassVar = compat.OPENFLOW_VERSIONS

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        host = compat.openflow_host()
        where = Address(path=host) if host.startswith("/") else Address(host or "0.0.0.0")
        where.check_open("switches", os.environ)
        self.io_loop = IoLoop(Settings.read())
        self.leaves = Leaves(seed=self.io_loop.settings.ways_seed)
        self.library = compat.library()
        self.serving: Any = None
        self._datapaths: dict[int, Any] = {}  # by number: the connection that counts
        self._lock = threading.Lock()  # `leaves` is read by the I/O loop's thread
        self._changed: set[int] = set()  # switches with changes that the manager does not have
        self._told_ns = -_FACTS_NS
        self._wakes_ns: int | None = None  # the next PortsAreDue
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
            orders = self.leaves.connected(datapath.id, usual, time.monotonic_ns(), name)
        self._tell(orders)
        self._facts(datapath.id)

    @compat.set_ev_cls(compat.ofp_event.EventOFPStateChange, compat.DEAD_DISPATCHER)
    @_guarded
    def gone(self, event: Any) -> None:
        number = event.datapath.id
        if self._datapaths.get(number) is not event.datapath:
            return  # it was not identified yet, or has another connection already
        del self._datapaths[number]
        with self._lock:
            orders = self.leaves.disconnected(number, time.monotonic_ns())
        self._tell(orders)
        self._facts(number)

    @compat.set_ev_cls(compat.ofp_event.EventOFPPortStatus, compat.MAIN_DISPATCHER)
    @_guarded
    def port_status(self, event: Any) -> None:
        datapath, port = event.msg.datapath, event.msg.desc
        if _is_usual(datapath, port):
            is_gone = event.msg.reason == datapath.ofproto.OFPPR_DELETE
            state = None if is_gone else _state(datapath, port)
            with self._lock:
                orders = self.leaves.port(datapath.id, port.port_no, state, time.monotonic_ns())
            self._tell(orders)
            self._facts(*self.leaves.numbers)  # a link that has failed ends at another switch

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
        self._tell(orders)
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

    @compat.set_ev_cls(PortsAreDue)
    def ports_are_due(self, event: Any) -> None:
        """Have ports be edges of which it has not become known that they lead to switches."""
        try:
            with self._lock:
                self._wakes_ns = None
                orders = self.leaves.poll(time.monotonic_ns())
            self._tell(orders)
            self._facts(*self.leaves.numbers)
        except Exception:  # under os-ken it would end all handlers
            compat.DOOR.counters["defects"] += 1
            LOG.exception("a defect of the controller, when ports of switches were due")

    def _wake(self) -> None:
        """Have `ports_are_due` called when `leaf` wants it."""
        with self._lock:
            due_ns = self.leaves.deadline_ns
            if due_ns is None or (self._wakes_ns is not None and self._wakes_ns <= due_ns):
                return
            self._wakes_ns = due_ns
        delay_s = max(0, due_ns - time.monotonic_ns()) / 1e9
        compat.hub.spawn_after(delay_s, self.send_event, self.name, PortsAreDue())

    def _tell(self, orders: Orders) -> None:
        """Send orders to their switches; those to one that has gone meanwhile are left out."""
        closed = set()
        for number, order in orders:
            datapath = self._datapaths.get(number)
            if datapath is None or number in closed:
                continue
            if not _has_room(datapath):
                compat.DOOR.counters["does_not_read"] += 1
                compat.DOOR.log(datapath.address, f"switch {datapath.id} does not read what it is sent, and is closed")
                datapath.close()
                closed.add(number)
                continue
            for message in messages(datapath, order):
                datapath.send_msg(message)
        self._wake()


def _has_room(datapath: Any) -> bool:
    """Return True if a message can be sent. A switch that reads nothing would keep all others waiting."""
    deadline = time.monotonic() + _PATIENCE_S
    while (queue := datapath.send_q) is not None and queue.full():
        if time.monotonic() > deadline:
            return False
        compat.hub.sleep(0.002)
    return queue is not None


def _is_usual(datapath: Any, port: Any) -> bool:
    return bool(port.port_no <= datapath.ofproto.OFPP_MAX)


def _state(datapath: Any, port: Any) -> tuple[str, bool, str]:
    ofproto = datapath.ofproto
    down = port.config & ofproto.OFPPC_PORT_DOWN or port.state & ofproto.OFPPS_LINK_DOWN
    return _name(port), not down, port.hw_addr


def _name(port: Any) -> str:
    return bytes(port.name).rstrip(b"\0").decode("ascii", "replace")
