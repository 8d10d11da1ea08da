"""Commands that look closer at a network or a result."""
