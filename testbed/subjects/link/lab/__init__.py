"""The link layer in running networks."""
