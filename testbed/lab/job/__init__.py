"""A job: what is packed for the lab, and the supervisor that does it there."""
