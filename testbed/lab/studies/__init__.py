"""Many runs: sweeps, comparisons, conformance and clusters."""
