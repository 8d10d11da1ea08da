"""Congestion control with PFC below it."""
