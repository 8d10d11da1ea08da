"""The clients that the QoS RFC names (sections 4 to 8), sans-I/O.

Each makes the path record query of its section, and returns the settings of a connection. Sockets and queue pairs are
opened by others; a client gets a function that asks the SA.
"""
