"""Back-pressure across an SRv6 network: the End.X.PFC draft, sans-I/O."""
