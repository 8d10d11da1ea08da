"""Results and sweeps in the cells of a notebook."""
