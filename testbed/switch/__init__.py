"""The model of a switch: buffer, PFC, ECN, priorities and headroom, sans I/O."""
