"""DCBX in a node of the lab: a part of the node's speaker."""
