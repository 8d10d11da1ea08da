"""DCBX between ports."""
