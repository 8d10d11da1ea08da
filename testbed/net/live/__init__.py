"""The lab's end of a live view: what a running network does, line by line, and controls of it."""
