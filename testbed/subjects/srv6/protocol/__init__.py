"""The protocol on the wire, and the endpoint behaviours: SIDs, End.X.PFC, reverse tunnels, advertisement."""
