"""REST: HTTP/1.1, services and their registry, the event stream, and a client."""
