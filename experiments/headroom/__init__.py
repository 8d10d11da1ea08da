"""Headroom: fixed, measured, shared."""
