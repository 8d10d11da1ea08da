"""Mininet networks in the lab."""
