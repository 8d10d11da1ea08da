"""The PFC agent of a node: it turns congestion into PFC frames and received PFC frames into stopped queues."""
