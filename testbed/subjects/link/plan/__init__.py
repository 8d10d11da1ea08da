"""Links that test plans run on: exact models of a cable with the cores of the link layer at both ends."""
