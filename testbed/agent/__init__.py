"""The agents of nodes, one process each: PFC on the node's ports, and the log of what happened there."""
