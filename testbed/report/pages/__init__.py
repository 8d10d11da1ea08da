"""The pages of reports: results, sweeps and conformance runs in HTML."""
