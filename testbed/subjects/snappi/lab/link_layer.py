"""The link layer of test ports in a network: LLR and credits as a configuration has them, switched by a test, counted.

Counters are those since the configuration was set. The far end of a cable is the network's own and has
LLR if the cable was laid with it; it begins anew where its test port changes, as an operator would have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from testbed.errors import UsageError
from testbed.net.fabric.cable import LlrMode
from testbed.net.fabric.fabric import Fabric
from testbed.subjects.snappi.lab.place import Place
from testbed.subjects.snappi.reading import OtgError
from testbed.subjects.snappi.ultra_ethernet.columns import COUNTED
from testbed.subjects.snappi.ultra_ethernet.settings import LinkLayer
from testbed.switch.link.counters import LlrReport

_CONSUMED, _FREED = 1 << 20, 1 << 15
"""The periods of the counters in messages."""


class LinkLayers:
    """The link layer of the test ports of one configuration."""

    def __init__(self, fabric: Fabric, layers: Mapping[str, LinkLayer], places: Mapping[str, Place]) -> None:
        self._fabric, self._places = fabric, places
        self.layers = dict(layers)
        self._before: dict[str, LlrReport] = {}
        for number, name in enumerate(dict.fromkeys(layer.name for layer in layers.values())):
            try:
                self._begin([port for port, layer in layers.items() if layer.name == name])
            except UsageError as error:
                raise OtgError([f"ultra_ethernet[{number}]: {error}"]) from None

    def _begin(self, ports: list[str]) -> None:
        for port in ports:
            layer, place = self.layers[port], self._places[port]
            if layer.credits:
                self._require_credits(place, layer.credits.vcs, layer.has_credits_on)
            if layer.llr:
                off = replace(layer, sends=False, receives=False)
                self._set(port, off, replace(layer, receives=True))  # as the cable was laid, or the test before left it
                self._before[port] = self._fabric.llr(place.interface)
                if layer.sends or layer.receives:
                    self._set(port, layer, off)

    def _require_credits(self, place: Place, vcs: frozenset[int], is_on: bool) -> None:
        settings = place.port.settings
        has = settings.credits.vcs if settings and settings.credits else frozenset()
        if is_on and has != vcs:
            raise UsageError(
                f"{place.interface} has credits for the channels {sorted(has)}, and cbfc.sender for {sorted(vcs)}; "
                "give the topology's ports Port().with_credits(...) for the same"
            )
        if has and not is_on:
            raise UsageError(f"{place.interface} has credits in this topology, so cbfc.sender cannot be disabled")

    def _set(self, port: str, layer: LinkLayer, before: LinkLayer) -> None:
        """Set LLR of a port; the far end's sender begins anew if the port receives by it from now on, or no longer."""
        place, cabling = self._places[port], self._fabric.core.cabling
        cabling.set_retry(
            place.interface,
            layer.llr,
            LlrMode(layer.sends | layer.receives << 1 | (not layer.is_eligible) << 2),
        )
        far = place.far_end.name
        mode = cabling.retry_mode(far)
        if layer.receives != before.receives and mode & LlrMode.SENDS:
            cabling.set_retry(far, None, mode & ~LlrMode.SENDS)
            cabling.set_retry(far, None, mode)

    def switch_llr(self, names: tuple[str, ...], state: str) -> None:
        """Switch LLR of all ports of some instances on or off, or have it begin anew."""
        for port, layer in self._of(names):
            if not layer.llr:
                raise OtgError(
                    [f"ultra_ethernet.llr.ultra_ethernet_names: {layer.name} has no llr; configure it first"]
                )
            changed, now = layer.with_llr(state), layer
            if changed.sends and layer.sends and self._fabric.llr(self._places[port].interface).state == "FLUSH":
                now = replace(layer, sends=False)  # its sender has waited for management since it gave up
                self._set(port, now, layer)
            if changed != now:
                self._set(port, changed, now)
            self.layers[port] = changed

    def _of(self, names: tuple[str, ...]) -> Iterator[tuple[str, LinkLayer]]:
        for port, layer in list(self.layers.items()):
            if not names or layer.name in names:
                yield port, layer

    # Metrics

    def llr_row(self, port: str) -> dict[str, Any]:
        """Return the counters and states of LLR at a port, by OTG's names."""
        row: dict[str, Any] = {"port_name": port}
        if port not in self._before:
            off = dict.fromkeys(("llr_mode_local", "llr_mode_remote"), "off")
            return row | off | dict.fromkeys(("llr_transmit_state", "llr_ack_nack_transmit_state"), "off")
        now, before, layer = self._fabric.llr(self._places[port].interface), self._before[port], self.layers[port]
        row |= {name: now[counter] - before[counter] for name, counter in COUNTED.items()}
        row["tx_replay_event"] -= now.state == "REPLAY"  # it counts those that are over
        return row | {
            "llr_mode_local": "on" if layer.receives else "off",
            "llr_mode_remote": "on" if layer.sends else "off",
            "llr_transmit_state": now.state.lower(),
            "llr_ack_nack_transmit_state": now.receiver.lower(),
            "round_trip_time_valid": False,
            "replayed_packet": now.replayed - before.replayed,
            "replayed_byte": now.replayed_octets - before.replayed_octets,
            "tx_seq": now.next_sequence,
            "tx_outstanding_seq": now.kept,
            "rx_next_seq": now.expected,
        }

    def sender_rows(self, port: str) -> list[dict[str, Any]]:
        """Return the state of the sender of credits at a port: a row for each virtual channel."""
        credits = self.layers[port].credits
        if credits is None:
            return []
        found = self._fabric.credits(self._places[port].interface) if self.layers[port].has_credits_on else None
        in_use = sum(one.sender_credits_used for one in found.vcs.values()) if found else 0
        own = {
            "port_name": port,
            "s_p_cu": in_use,
            "received_cf_update_count": found.num_cf_update_messages_rx if found else 0,
            "port_excess_credit_free_error": bool(found and found.num_cf_updates_refused),
        }
        rows = []
        for vc, is_lossless in enumerate(credits.lossless):
            counters = found.vcs.get(vc) if found else None
            rows.append(own | {
                "vc_id": vc,
                "vc_state": "lossless" if is_lossless else "best_effort",
                "s_vc_cc": counters.sender_credits_consumed % _CONSUMED if counters else 0,
                "s_vc_cf": counters.sender_credits_freed % _FREED if counters else 0,
            })  # fmt: skip
        return rows
