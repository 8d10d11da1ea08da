"""Equal ways: how a switch with several shortest ways to a station chooses one for a frame.

`settings` has what a user says, `model` the rules. The port program (`testbed/linux/port_program/port.bpf.c`) follows
the same rules in the kernel, and a test compares the two.
"""
