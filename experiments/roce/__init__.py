"""RoCE and the programs that use it."""
