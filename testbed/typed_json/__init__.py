"""JSON from other parties: bounded reading and strict validation."""
