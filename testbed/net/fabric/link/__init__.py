"""What links of a network have after PFC: credits."""
