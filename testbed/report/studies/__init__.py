"""Pages of studies: a sweep, a run of conformance cases, a benchmark."""
