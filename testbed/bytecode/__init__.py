"""A bytecode for classes of one's own, and the lowering of Python's syntax tree to it.

A kind of class, as rate controls and rules of switches are, is a subclass of `lowering.Lowering`: it says which methods
are entries, and which cells have what they are given and what they set.
"""
