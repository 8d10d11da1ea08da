"""Topologies, links and nodes, and the network that Mininet builds of them."""
