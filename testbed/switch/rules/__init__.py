"""Rules of one's own in a switch: a class in Python that decides in place of what the switch has."""
