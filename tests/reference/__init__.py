"""Models that only tests compare the kernel with."""
