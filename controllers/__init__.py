"""Ryu applications, thin over the modules in `testbed`."""
