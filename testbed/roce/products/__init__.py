"""NICs by product."""
