"""DCBX in reports and in decoded frames: ladders, states over time, LLDP in words."""
