"""The clients that the QoS RFC names (sections 4 to 8), sans-I/O.

Each knows which path record it asks for and how the answer configures its connection. Sockets and queue pairs are
opened by others; a client gets a function that asks the SA.
"""
