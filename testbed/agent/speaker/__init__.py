"""The speaker of a node: DCBX, headroom measurement and buffer layout, beside the PFC agent."""
