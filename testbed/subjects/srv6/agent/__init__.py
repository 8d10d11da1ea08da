"""End.X.PFC in a node of the lab: reverse tunnels, the SR policy session and its routes in the kernel."""
