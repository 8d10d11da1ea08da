"""Adaptive PFC headroom: computed in three ways, and measured on the wire.

`calculation`, `annex_n` and `vendor` are the ways, `measurement` is the measuring (`exchange` one port's part in it,
`samples` what it yields), `plan` the dividing.
"""
