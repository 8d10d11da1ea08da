"""Figures of results for papers and slides: distributions, slowdown, time series, heat maps, sweeps."""
