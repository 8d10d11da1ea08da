"""Strict reading of what users write: TOML, tables whose every key must be known, and lists of what is wrong."""
