"""The fabric of a network: its ports, their queues and buffers, and the agents beside them."""
