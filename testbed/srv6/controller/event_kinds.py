"""The kinds of events that the SR policy controller adds to the history, for the OpenAPI document and its readers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

EVENT_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "router_here": "A router has reported, for the first time or after its session had ended",
        "router_away": "The session with a router has ended",
        "router_lost": "A router has had no session for the grace time; its links count as down",
        "router_removed": "An operator has removed a router",
        "stranger": "A connection ended before its peer had authenticated",
        "settled": "The wait for reports after the start of the controller is over",
        "problem": "Reports contradict each other; what contradicts is left out of the topology",
        "link_up": "Both ends of a link report that it is up",
        "link_down": "An end of a link reports that it is down, or is lost",
        "leaf_here": "An OpenFlow switch has connected",
        "leaf_away": "An OpenFlow switch has disconnected",
        "policy_added": "A policy was requested",
        "policy_changed": "A policy was requested, in place of the one there",
        "policy_removed": "A policy was withdrawn",
        "policy_adopted": "A router has a policy that this controller did not know; it is kept",
        "policy_path": "A policy has a new path",
        "policy_no_path": "A policy has no path",
        "policy_installed": "A headend has installed a policy",
        "policy_refused": "A headend has refused to install or remove a policy",
        "tunnel_installed": "A router has installed a reverse tunnel",
        "tunnel_removed": "A router has removed a reverse tunnel",
        "tunnel_refused": "A router has refused to install or remove a reverse tunnel",
        "tunnel_missing": "A reverse tunnel of a policy cannot be made",
        "tunnel_learned": "A router has learned a reverse tunnel from data packets",
        "tunnel_forgotten": "A router has removed a reverse tunnel that it had learned",
        "vpn_added": "A VPN was requested",
        "vpn_changed": "A VPN was requested, in place of the one there",
        "vpn_removed": "A VPN was withdrawn, or a router has removed it",
        "vpn_adopted": "A router has a VPN that this controller did not know; it is kept",
        "vpn_installed": "A router has installed a VPN",
        "vpn_refused": "A router has refused to install or remove a VPN",
        "pause": "A router has stopped a priority at an interface, on a PFC frame from a reverse tunnel",
        "resume": "A router has resumed a priority at an interface",
    }
)
