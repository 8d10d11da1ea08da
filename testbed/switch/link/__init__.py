"""What the two ends of a cable settle between them beside PFC: damaged bits, and their repair by retry."""
