"""The log of a run as tracks over time, and their compressed form."""
