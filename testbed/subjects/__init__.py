"""Subjects: each has one room with its model, its half for the lab and what it plugs into the core."""
