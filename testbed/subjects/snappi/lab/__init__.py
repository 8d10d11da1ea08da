"""Hosts' ports as ports of a traffic generator: they send and receive frames by a configuration, and the host's own
network stack is silent.
"""
