"""Commands for this machine, for help, and for work on Xoff."""
