"""JSON from and to other parties: bounded reading (`text`), and one description for each message (`codec`)."""
