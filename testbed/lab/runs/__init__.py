"""A run from the user's machine: packed, started on an engine, followed, and made a result."""
