"""The cells and entries that the code of a rate control has (`testbed.bytecode`), as the kernel's queue pairs use them.

Runs in C: `testbed/lab/um/linux/xoff_control_vm.c`.
"""

RATE, WINDOW, HAS_WINDOW, DEADLINE, NOW, OCTETS, ROUND_TRIP, HAS_ROUND_TRIP, PACKETS, UNTIL, NEXT, STAMPS = range(12)
"""The fixed cells: what a rate control sets, then what an event brings."""
MOST_STAMPS = 15
EVENTS = ("on_sent", "on_cnp", "on_round_trip", "on_acknowledged", "on_loss", "on_deadline")
"""The methods of a rate control that are entries of a program, in the order of their numbers."""
