"""Experiments: their definition, the `Run` that each gets, and the verdict on its fidelity."""
