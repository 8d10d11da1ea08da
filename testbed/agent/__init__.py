"""One process per node that speaks for it: PFC on its ports, and the log of what happened there."""
