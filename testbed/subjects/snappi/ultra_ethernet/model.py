"""The schemas of OTG's `ultra_ethernet`: the fields of each object, with their ranges, defaults and words.

The tables are those of the models' files `ultra_ethernet/ultraethernet.yaml`, `control/ultraethernet.yaml` and
`result/ultraethernet.yaml` (pull request 493, commit 036b881c; states of f0a29bf1), which no released snappi has. Two
readers go by them: `settings.py` checks data, and `snappi_xoff/ultra_ethernet.py` makes snappi's classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """A whole number."""

    default: int | None = None
    low: int = 0
    high: int | None = None
    is_wide: bool = False
    """True for 64 bits, which JSON has as text."""


@dataclass(frozen=True)
class Real:
    """A number with a fraction."""


@dataclass(frozen=True)
class Flag:
    """True or false; None: there is no default."""

    default: bool | None = None


@dataclass(frozen=True)
class Word:
    """One of some words; the default is empty if there is none."""

    words: tuple[str, ...]
    default: str = ""


@dataclass(frozen=True)
class Words:
    """A list of words, of any names if there are no words."""

    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Text:
    """A text."""

    default: str = ""


@dataclass(frozen=True)
class Numbers:
    """A list of whole numbers from 0 on."""

    high: int


@dataclass(frozen=True)
class Part:
    """An object of another schema, or a list of such objects."""

    schema: str
    is_list: bool = False


Field = Number | Real | Flag | Word | Words | Text | Numbers | Part
Schema = Mapping[str, Field]
CHOICE = "choice"

_ACTION = Word(("discard", "block", "best_effort"), "best_effort")
_MAPPINGS = (
    "vlan_pcp_dei",
    "ipv4_dscp",
    "ipv6_dscp",
    "vlan_pcp_dei_and_ipv4_dscp",
    "vlan_pcp_dei_and_ipv6_dscp",
)
_MOST_NS = 4_290_000_000
_SPACING = Number(400, 0, 131_064)
_CREDITS = (1 << 19) - 1


def _direction(message: str) -> Schema:
    return {
        "enable": Flag(False),
        "credit_mode": Word(("per_port", "per_vc"), "per_port"),
        "total_credits": Number(_CREDITS, 1, _CREDITS),
        "cell_size": Number(64, 32, 2048),
        "packet_overhead": Number(-4, -16, 127),
        "mapping": Word(_MAPPINGS, "vlan_pcp_dei"),
        "priority": Word(_MAPPINGS[:3], "vlan_pcp_dei"),
        "cc_message": Part(f"UltraEthernet.Cbfc.{message}.CcMessage"),
        "virtual_channels": Part("UltraEthernet.Cbfc.Vc", True),
    }


CONFIGURATION: Mapping[str, Schema] = {
    "UltraEthernet": {
        "port_names": Words(),
        "phy": Part("UltraEthernet.Phy"),
        "llr": Part("UltraEthernet.Llr"),
        "cbfc": Part("UltraEthernet.Cbfc"),
        "name": Text(),
    },
    "UltraEthernet.Phy": {
        "tx_control_ordered_set": Part("UltraEthernet.Phy.TxControlOrderedSet"),
        "rx_control_ordered_set": Part("UltraEthernet.Phy.RxControlOrderedSet"),
        "o_code": Number(6, 0, 15),
    },
    "UltraEthernet.Phy.TxControlOrderedSet": {
        "min_spacing": Number(400, 320, 32_760),
        "min_spacing_at_frame_start": Number(256, 64, 1008),
        "min_spacing_within_frame": Number(2048, 1024, 8184),
        "llr_target_spacing": Number(2048, 320, 32_760),
        "cbfc_cf_min_timer": Number(800, 768, 131_072),
        "cbfc_cf_max_timer": Number(65_536, 16_384, 1_048_576),
    },
    "UltraEthernet.Phy.RxControlOrderedSet": {
        "validate_min_spacing": Flag(False),
        "min_spacing": _SPACING,
        "validate_llr_init_min_spacing": Flag(False),
        "llr_init_min_spacing": Number(1600, 0, 131_064),
        "validate_llr_ack_nack_min_spacing": Flag(False),
        "llr_ack_nack_min_spacing": _SPACING,
        "validate_cf_min_spacing": Flag(False),
        "cf_min_spacing": _SPACING,
    },
    "UltraEthernet.Llr": {
        "local_enable": Flag(False),
        "remote_enable": Flag(False),
        "outstanding_seq_max": Number(2047, 0, 1 << 19),
        "outstanding_data_max": Number(64_000_000, 0, (1 << 31) - 1),
        "replay_timer_max": Number(65_535, 0, 65_535),
        "replay_count_max": Number(255, 0, 255),
        "pcs_lost_status_timer_max": Number(4_200_000_000, 0, _MOST_NS, True),
        "data_age_timer_max": Number(4_200_000_000, 0, _MOST_NS, True),
        "init_behavior": _ACTION,
        "flush_behavior": _ACTION,
        "re_init_on_discard": Flag(False),
    },
    "UltraEthernet.Cbfc": {
        "sender": Part("UltraEthernet.Cbfc.Sender"),
        "receiver": Part("UltraEthernet.Cbfc.Receiver"),
    },
    "UltraEthernet.Cbfc.Sender": _direction("Sender"),
    "UltraEthernet.Cbfc.Receiver": _direction("Receiver"),
    "UltraEthernet.Cbfc.Sender.CcMessage": {
        "enable_type1_message": Flag(False),
        "enable_type2_message": Flag(False),
        "timer": Number(10, 1, 25_000),
        "company_id": Text("FA7ACB"),
        "source_address": Text("00:00:00:00:00:01"),
        "destination_address": Text("01:80:C2:00:00:01"),
    },
    "UltraEthernet.Cbfc.Receiver.CcMessage": {
        "expected_company_id": Text("FA7ACB"),
        "validate_cc_min_spacing": Flag(False),
        "cc_min_spacing": Number(1, 1, 25_000),
        "validate_cc_max_spacing": Flag(False),
        "cc_max_spacing": Number(25_000, 1, 25_000),
    },
    "UltraEthernet.Cbfc.Vc": {
        CHOICE: Word(("best_effort", "lossless"), "best_effort"),
        "best_effort": Part("UltraEthernet.Cbfc.Vc.BestEffort"),
        "lossless": Part("UltraEthernet.Cbfc.Vc.Lossless"),
        "mapping": Part("UltraEthernet.Cbfc.Vc.Mapping"),
    },
    "UltraEthernet.Cbfc.Vc.BestEffort": {},
    "UltraEthernet.Cbfc.Vc.Lossless": {"credit_limit": Number(1, 1, _CREDITS)},
    "UltraEthernet.Cbfc.Vc.Mapping": {
        "vlan_pcp_dei": Part("UltraEthernet.Cbfc.Vc.Mapping.VlanPcpDei"),
        "ipv4_dscp": Part("UltraEthernet.Cbfc.Vc.Mapping.Dscp"),
        "ipv6_dscp": Part("UltraEthernet.Cbfc.Vc.Mapping.Dscp"),
    },
    "UltraEthernet.Cbfc.Vc.Mapping.VlanPcpDei": {"pcp_dei0": Numbers(7), "pcp_dei1": Numbers(7)},
    "UltraEthernet.Cbfc.Vc.Mapping.Dscp": {"values": Numbers(63)},
    "Flow.UltraEthernet": {"llr_eligible": Flag(False)},
}

LLR_STATES = ("local_enable", "local_disable", "remote_enable", "remote_disable", "enable_all", "disable_all")
CBFC_STATES = ("sender_enable", "sender_disable", "receiver_enable", "receiver_disable", "enable_all", "disable_all")

STATES: Mapping[str, Schema] = {
    "State.UltraEthernet": {
        CHOICE: Word(("llr", "cbfc")),
        "llr": Part("State.UltraEthernet.Llr"),
        "cbfc": Part("State.UltraEthernet.Cbfc"),
    },
    "State.UltraEthernet.Llr": {"ultra_ethernet_names": Words(), "state": Word(LLR_STATES)},
    "State.UltraEthernet.Cbfc": {"ultra_ethernet_names": Words(), "state": Word(CBFC_STATES)},
}

_PORT = {"port_name": Text()}
_COUNT = Number(is_wide=True)


def _counts(*names: str) -> Schema:
    return dict.fromkeys(names, _COUNT)


_LLR_METRIC: Schema = {
    "llr_mode_local": Word(("off", "on")),
    "llr_mode_remote": Word(("off", "on")),
    "llr_transmit_state": Word(("off", "init", "advance", "replay", "flush")),
    "llr_ack_nack_transmit_state": Word(("off", "send_acks", "send_nack", "nack_sent")),
    "round_trip_time_ns": _COUNT,
    "round_trip_time_valid": Flag(),
    "mean_time_between_phy_errors": Real(),
    **_counts(
        "tx_init_ctl_os", "tx_init_echo_ctl_os", "tx_ack_ctl_os", "tx_nack_ctl_os", "tx_discard", "tx_ok",
        "tx_poisoned", "tx_replay_event", "replayed_packet", "replayed_byte", "tx_seq", "tx_outstanding_seq",
        "rx_init_ctl_os", "rx_init_echo_ctl_os", "rx_ack_ctl_os", "rx_nack_ctl_os", "rx_ack_nack_seq_error", "rx_ok",
        "rx_poisoned", "rx_bad", "rx_expected_seq_good", "rx_expected_seq_poisoned", "rx_expected_seq_bad",
        "rx_missing_seq", "rx_duplicate_seq", "rx_replay", "rx_next_seq", "llr_init_ctl_os_spacing_min",
        "llr_init_ctl_os_spacing_error", "llr_ack_nack_ctl_os_spacing_min", "llr_ack_nack_ctl_os_spacing_error",
        "llr_init_echo_init_seq_mismatch", "rx_ack_ctl_os_dropped", "rx_nack_ctl_os_dropped",
        "rx_init_ctl_os_dropped", "rx_init_echo_ctl_os_dropped", "ue_rx_ctl_os_frame_header_error",
        "ue_rx_ctl_os_intra_frame_spacing_error", "ue_ctl_os_spacing_min", "ue_ctl_os_spacing_error",
    ),
}  # fmt: skip
_VC_STATE = Word(("best_effort", "lossless"))
_SENDER_METRIC: Schema = {
    "s_p_cu": _COUNT,
    "received_cf_update_count": _COUNT,
    "port_excess_credit_free_error": Flag(),
    "vc_id": Number(),
    "vc_state": _VC_STATE,
    "excess_credit_free_error": Flag(),
    "s_vc_cc": _COUNT,
    "s_vc_cf": _COUNT,
}
_RECEIVER_METRIC: Schema = {
    "port_credit_limit_exceed_error": Flag(),
    "vc_id": Number(),
    "vc_state": _VC_STATE,
    "credit_limit_exceed_error": Flag(),
    "lost_credit_err": Flag(),
    "r_vc_cc": _COUNT,
    "r_vc_cf": _COUNT,
}
_IDENTITIES = ("port_name", "vc_id")
STATISTICS = {"llr_cbfc_stat": "llr_cbfc", "sender_vc_stat": "sender_vc", "receiver_vc_stat": "receiver_vc"}
"""The choices of a request, each with the name of its metrics."""


def _columns(schema: Schema) -> Schema:
    return {"column_names": Words(tuple(name for name in schema if name not in _IDENTITIES))}


METRICS: Mapping[str, Schema] = {
    "UltraEthernet.Metrics.Request": {
        "port_names": Words(),
        CHOICE: Word(tuple(STATISTICS), "llr_cbfc_stat"),
        "llr_cbfc_stat": Part("UltraEthernet.Metrics.Request.LlrCbfcStat"),
        "sender_vc_stat": Part("UltraEthernet.Metrics.Request.SenderVcStat"),
        "receiver_vc_stat": Part("UltraEthernet.Metrics.Request.ReceiverVcStat"),
    },
    "UltraEthernet.Metrics.Request.LlrCbfcStat": _columns(_LLR_METRIC),
    "UltraEthernet.Metrics.Request.SenderVcStat": _columns(_SENDER_METRIC),
    "UltraEthernet.Metrics.Request.ReceiverVcStat": _columns(_RECEIVER_METRIC),
    "UltraEthernet.Metric": {
        CHOICE: Word(tuple(STATISTICS.values()), "llr_cbfc"),
        "llr_cbfc": Part("UltraEthernet.LlrCbfc.Metric"),
        "sender_vc": Part("UltraEthernet.SenderVc.Metric"),
        "receiver_vc": Part("UltraEthernet.ReceiverVc.Metric"),
    },
    "UltraEthernet.LlrCbfc.Metric": {**_PORT, **_LLR_METRIC},
    "UltraEthernet.SenderVc.Metric": {**_PORT, **_SENDER_METRIC},
    "UltraEthernet.ReceiverVc.Metric": {**_PORT, **_RECEIVER_METRIC},
}

SCHEMAS: Mapping[str, Schema] = {**CONFIGURATION, **STATES, **METRICS}
ADDITIONS: Mapping[str, Mapping[str, Part]] = {
    "Config": {"ultra_ethernet": Part("UltraEthernet", True)},
    "Flow": {"ultra_ethernet": Part("Flow.UltraEthernet")},
    "ControlState": {"ultra_ethernet": Part("State.UltraEthernet")},
    "MetricsRequest": {"ultra_ethernet": Part("UltraEthernet.Metrics.Request")},
    "MetricsResponse": {"ultra_ethernet_metrics": Part("UltraEthernet.Metric", True)},
}
"""The fields that other schemas get, by their names in snappi."""
