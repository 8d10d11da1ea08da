"""The terminal: consoles, neutral streams, progress, a network while it runs."""
