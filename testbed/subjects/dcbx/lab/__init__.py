"""DCBX in a network of the lab."""
