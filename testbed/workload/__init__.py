"""Workloads: who sends how much to whom and when, and what came of it in numbers. Pure; nothing here sends anything."""
