"""Adaptive PFC headroom: computed in three ways, and measured on the wire.

`calculation`, `annex_n` and `vendor` are the three ways; `measurement` measures (`exchange` is one port's part in it,
`samples` are its results).
"""
