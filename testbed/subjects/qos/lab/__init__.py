"""The subnet manager of a lab, and clients that ask it for paths."""
