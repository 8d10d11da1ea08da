"""A network over several kernels of the engine `um`, as a machine that has some of them sees it.

That is the memory that they share, its copies on other machines, and the group of machines that begin together and end
together. docs/partitions.md describes it.
"""
