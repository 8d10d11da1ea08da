"""PFC over a WAN with SRv6."""
