"""The lab's half of routing daemons: their processes in the routers, and the routes that they make."""
