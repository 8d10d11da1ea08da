"""Metrics for monitoring systems: families with the names of SONiC's counters, and the text of OpenMetrics."""
