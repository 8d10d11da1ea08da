"""SONiC's config_db.json: the tables about ports, buffers, priorities, queues and the PFC watchdog. Pure; no I/O.

`read` makes typed tables of a file, `check` looks for what is contradictory or risky in them, `write` makes a file of
tables. The switch of the lab that is made of them is in `testbed.subjects.sonic.lab.settings`.
"""
