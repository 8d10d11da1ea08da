"""Subjects: each has one room with its model, its half for the lab and what it plugs into the core."""

TABLE = ("lessons", "sonic", "dcbx", "srv6", "qos", "snappi", "link", "routing")
"""The subjects that come with Xoff; `testbed/subject.py` finds the module `subject` of each."""
