"""Readings of a network while it runs: counters, time series, captures and losses."""
