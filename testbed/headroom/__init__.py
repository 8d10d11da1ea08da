"""Adaptive PFC headroom: computed in three ways, measured on the wire, and divided from one pool.

`calculation`, `annex_n` and `vendor` are the ways, `measurement` is the measuring (`exchange` one port's part in it,
`samples` what it yields), `plan` the dividing.
"""
