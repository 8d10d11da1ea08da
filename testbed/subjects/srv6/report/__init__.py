"""Segment routing in reports."""
