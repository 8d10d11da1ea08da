"""Rules of one's own in switches."""
