"""The image of the lab, and the packages that can be added to it."""
