"""A network over several kernels of the engine `um`, as this machine sees it: the memory that they share, and the group
of machines that begin together and end together. docs/partitions.md describes it.
"""
