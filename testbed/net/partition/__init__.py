"""One network over several kernels: which nodes each has, how they agree, and what stands in for the nodes of others.

Every part runs the whole script of an experiment, on the nodes that it has. Where the script reads something, the part
that has it gives it to all, so that all go the same way. docs/partitions.md describes it.
"""
