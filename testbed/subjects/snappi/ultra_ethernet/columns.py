"""The columns of OTG's metrics of the link layer that the lab counts."""

from __future__ import annotations

COUNTED = {
    "tx_init_ctl_os": "TX_INIT_CTL_OS",
    "tx_init_echo_ctl_os": "TX_INIT_ECHO_CTL_OS",
    "tx_ack_ctl_os": "TX_ACK_CTL_OS",
    "tx_nack_ctl_os": "TX_NACK_CTL_OS",
    "tx_discard": "TX_DISCARD",
    "tx_ok": "TX_OK",
    "tx_poisoned": "TX_POISONED",
    "tx_replay_event": "TX_REPLAY",
    "rx_init_ctl_os": "RX_INIT_CTL_OS",
    "rx_init_echo_ctl_os": "RX_INIT_ECHO_CTL_OS",
    "rx_ack_ctl_os": "RX_ACK_CTL_OS",
    "rx_nack_ctl_os": "RX_NACK_CTL_OS",
    "rx_ack_nack_seq_error": "RX_ACK_NACK_SEQ_ERROR",
    "rx_ok": "RX_OK",
    "rx_poisoned": "RX_POISONED",
    "rx_bad": "RX_BAD",
    "rx_expected_seq_good": "RX_EXPECTED_SEQ_GOOD",
    "rx_expected_seq_poisoned": "RX_EXPECTED_SEQ_POISONED",
    "rx_expected_seq_bad": "RX_EXPECTED_SEQ_BAD",
    "rx_missing_seq": "RX_MISSING_SEQ",
    "rx_duplicate_seq": "RX_DUPLICATE_SEQ",
    "rx_replay": "RX_REPLAY",
}
"""OTG's names of counters, and SONiC's."""
LLR_COLUMNS = frozenset({
    *COUNTED, "replayed_packet", "replayed_byte", "tx_seq", "tx_outstanding_seq", "rx_next_seq", "llr_mode_local",
    "llr_mode_remote", "llr_transmit_state", "llr_ack_nack_transmit_state", "round_trip_time_valid",
})  # fmt: skip
"""The counters of LLR that the lab has; the model also has distances, round trips and errors of ordered sets."""
SENDER_COLUMNS = frozenset({
    "s_p_cu", "received_cf_update_count", "port_excess_credit_free_error", "vc_state", "s_vc_cc", "s_vc_cf",
})  # fmt: skip
COLUMNS = {"llr_cbfc_stat": LLR_COLUMNS, "sender_vc_stat": SENDER_COLUMNS, "receiver_vc_stat": frozenset[str]()}
