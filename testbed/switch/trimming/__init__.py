"""Trimming: a switch cuts what its buffer has no room for, and sends the rest ahead of what waits."""
