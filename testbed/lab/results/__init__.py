"""The results of runs, and the folders that hold them."""
