"""Commands for studies: sweeps and comparisons."""
