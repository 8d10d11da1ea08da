"""The engine `um`: the lab's kernel as an ordinary process, in virtual time.

User-Mode Linux with `time-travel=inf-cpu`: its clock stands still while anything runs and jumps to the next timer when
all is idle. `kernel.py` builds it, `disks.py` makes what it mounts, `machine.py` runs it.
"""
