"""Sockets for raw frames, taps and filters."""
