"""Experiments: one file each, with its claims in it. `xoff list` shows them, `xoff run NAME` runs one."""
