"""Frames on the cables of a network: where each was at any time, from the captures of a result."""
